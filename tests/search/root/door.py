"""`POST /v1/search` as a client over a real connection has it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from quarterdeck.http.errors import add_error_handlers
from quarterdeck.http.server import HttpServer
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk
from quarterdeck.search.root.routes import search_router
from tests.http.asked import Client, connected, served
from tests.patience import PATIENCE_S
from tests.search.root.searched import PlayedWorkers, Root, root

PATHS = ("/v1/search", "/worker/rootsearch")


@dataclass(frozen=True)
class Heard:
    """A whole answer; `was_cut` if the connection ended before it did."""

    status: int
    headers: dict[str, str]
    body: bytes
    was_cut: bool

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.body)["error"]

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def frames(self) -> list[tuple[str, list[Any]]]:
        """Events that have a name, each with its lines of data."""
        frames: list[tuple[str, list[Any]]] = []
        for frame in self.body.decode().split("\n\n"):
            name, *data = [line.partition(": ")[2] for line in frame.split("\n") if not line.startswith(":")] or [""]
            if name:
                frames.append((name, [json.loads(line) for line in data]))
        return frames

    @property
    def done(self) -> dict[str, Any]:
        name, (document,) = self.frames[-1]
        assert name == "done"
        return document


@dataclass(frozen=True)
class Door:
    root: Root
    server: HttpServer

    async def ask(self, query: str = "*", *, path: str = PATHS[0], accept: str = "*/*", **fields: Any) -> Heard:
        fields.setdefault("sources", [str(self.root.folder)])
        return await self.post(json.dumps({"query": query, **fields}).encode(), path, accept)

    async def post(self, body: bytes, path: str = PATHS[0], accept: str = "*/*") -> Heard:
        async with connected(self.server) as client:
            send(client, "POST", path, body, accept)
            return await hear(client)

    async def get(self, path: str, tenant: str = "") -> Heard:
        async with connected(self.server) as client:
            send(client, "GET", path, b"", "*/*", tenant)
            return await hear(client)

    async def events(self, query: str = "*", **fields: Any) -> Heard:
        return await self.ask(query, accept="text/event-stream", **fields)


def send(client: Client, method: str, path: str, body: bytes, accept: str = "*/*", tenant: str = "") -> None:
    head = f"{method} {path} HTTP/1.1\r\nHost: here\r\nAccept: {accept}\r\nConnection: close\r\n"
    head += f"X-Scope-OrgID: {tenant}\r\n" if tenant else ""
    client.send(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def hear(client: Client) -> Heard:
    head, _, rest = (await client.rest()).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") != "chunked":
        return Heard(int(status.split()[1]), headers, rest, len(rest) != int(headers["content-length"]))
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size or b"0", 16):
            return Heard(int(status.split()[1]), headers, body, was_cut=False)
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return Heard(int(status.split()[1]), headers, body, was_cut=True)


@asynccontextmanager
async def door(folder: Path, workers: PlayedWorkers | None = None, **options: Any) -> AsyncGenerator[Door]:
    async with root(folder, workers, **options) as made:
        app = FastAPI()
        add_error_handlers(app)
        app.include_router(search_router(made.service, heartbeat_s=0.05))
        async with served(app) as server:
            yield Door(made, server)


def play(
    folder: Path, scenario: Callable[[Door], Awaitable[None]], workers: PlayedWorkers | None = None, **options: Any
) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), door(folder, workers, **options) as made:
            await scenario(made)
            await made.root.service.wait_quiet()
            assert not made.root.workers.reserved
            assert not made.root.service.is_busy

    asyncio.run(run())


def stand_still(worker: Recruited, chunk: Chunk) -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()

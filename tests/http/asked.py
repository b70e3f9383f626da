"""Asking an ASGI application without a server, and a server over a real connection."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarterdeck.http.connection import HttpConnection, HttpLimits
from quarterdeck.http.listener import Listener
from quarterdeck.http.server import HttpServer
from tests.patience import PATIENCE_S

Run = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(app: ASGIApp, path: str, method: str = "GET", **headers: str) -> Answer:
    """One request to an application. In names of headers an underscore stands for a hyphen."""
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return await ask_raw(app, path, method, raw)


async def ask_raw(app: ASGIApp, path: str, method: str, headers: list[tuple[bytes, bytes]]) -> Answer:
    plain, _, query = path.partition("?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": plain,
        "raw_path": plain.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    sent: list[Message] = []
    requests = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return requests.pop() if requests else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *rest = sent
    names = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], names, b"".join(message.get("body", b"") for message in rest))


@asynccontextmanager
async def served(
    app: ASGIApp, ssl: SSLContext | None = None, limits: HttpLimits | None = None, stop_timeout_s: float = 5.0
) -> AsyncGenerator[HttpServer]:
    server = HttpServer(app, "127.0.0.1", 0, ssl, limits)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(stop_timeout_s)


class Client:
    """One connection, spoken by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def get(self, path: str, *headers: str) -> None:
        self.send("\r\n".join([f"GET {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode("latin-1"))

    async def answer(self) -> Answer:
        async with asyncio.timeout(PATIENCE_S):
            status, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
            }
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(status.split()[1]), headers, body)

    async def rest(self) -> bytes:
        """Everything until the server closes; nothing when it does so without having read all that was sent."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):  # the server was quicker
            await self.writer.wait_closed()


@asynccontextmanager
async def connected(server: HttpServer, ssl: SSLContext | None = None) -> AsyncGenerator[Client]:
    client = Client(*await asyncio.open_connection("127.0.0.1", server.port, ssl=ssl))
    try:
        yield client
    finally:
        await client.close()


def text_app(text: str) -> ASGIApp:
    """Answers every request with the same text."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, text.encode())

    return app


async def respond(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def listener_of(server: HttpServer) -> Listener:
    listener = server._listener  # pyright: ignore[reportPrivateUsage]
    assert listener is not None
    return listener


def connections_of(server: HttpServer) -> list[HttpConnection]:
    connections = server._state.connections  # pyright: ignore[reportPrivateUsage]
    return [connection for connection in connections if isinstance(connection, HttpConnection)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by
            await asyncio.sleep(0)


class Slow:
    """Holds every request until told, or for ever."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.canceled = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.canceled = True
            raise
        await respond(send, b"done")

    async def wait_begun(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.begun.wait()

"""A worker's end and a coordinator's end on loopback, with a real disk budget each, and a peer that a test scripts."""

import asyncio
import functools
import os
import ssl as tls
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from starlette.types import ASGIApp

from quarterdeck.core.ids import LeafId, QueryId, WorkerId, WorkId
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkError, WorkKey
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.fetcher import ArtifactFetcher
from quarterdeck.crew.artifacts.route import ArtifactRoute
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.crew.ports import FetchFailedError
from quarterdeck.http.server import HttpServer
from quarterdeck.stores.disk import DiskBudget, DiskLimits

pa: Any = _pyarrow
P = ParamSpec("P")

WORKER = WorkerId("worker-1")
SCHEMA: Any = pa.schema([("ts", pa.int64()), ("text", pa.string())])
GIB = 1024**3


def looped(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes a test of a coroutine; one that hangs fails."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 100))

    return run


async def until(condition: Callable[[], bool]) -> None:
    """Waits for it; the test's own time limit ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - what is waited for happens in other people's code, without an event
        await asyncio.sleep(0.001)


def attempt_id(number: int = 1, work: str = "w1") -> AttemptId:
    return AttemptId(WorkKey(QueryId("q"), LeafId("l"), WorkId(work)), number)


def rows(first_ts: int, count: int, text: str = "a line") -> Any:
    return pa.record_batch([list(range(first_ts, first_ts + count)), [text] * count], schema=SCHEMA)


def noise(megabytes: int) -> Any:
    """Rows of a kilobyte that nothing compresses."""
    count = megabytes * 1024
    data = pa.py_buffer(os.urandom(count * 1024))
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(1024), count, [None, data])
    return pa.record_batch([list(range(count)), column], names=["ts", "noise"])


def budget_in(folder: Path, limit_bytes: int = GIB) -> DiskBudget:
    return DiskBudget(folder, DiskLimits(limit_bytes=limit_bytes, high_watermark=1.0, low_watermark=0.99))


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Depot:
    """A worker's spool, and its server while `serving`."""

    def __init__(self, folder: Path, *, limit_bytes: int = GIB, memory_limit_bytes: int = 0) -> None:
        self.folder = folder / "spool"
        self.url = "http://worker"
        self.lost: list[AttemptId] = []
        self.budget = budget_in(self.folder, limit_bytes)
        self.spool = ArtifactSpool(
            self.folder, self.budget, lambda: self.url, self.lost.append, memory_limit_bytes=memory_limit_bytes
        )
        self.spool.recover()
        self.budget.on_evicted = self.spool.evicted
        self.route = ArtifactRoute(self.spool)

    def make(self, *batches: Any, attempt: AttemptId | None = None, ts_column: str | None = "ts") -> Artifact:
        writer = self.spool.create(attempt or attempt_id())
        writer.open(batches[0].schema if batches else SCHEMA, ts_column)
        for batch in batches:
            writer.write(batch)
        return writer.finish()

    def content(self, artifact: Artifact) -> bytes:
        """What is there to be fetched."""
        file = self.spool.find(artifact.url.rpartition("/")[2])
        assert file is not None
        return file.data if file.data is not None else (self.folder / file.name).read_bytes()

    def used_bytes(self) -> int:
        return self.budget.figures().artifact_bytes

    @asynccontextmanager
    async def serving(
        self, app: ASGIApp | None = None, ssl: tls.SSLContext | None = None
    ) -> AsyncGenerator[HttpServer]:
        server = HttpServer(app or self.route, "127.0.0.1", 0, ssl)
        await server.start()
        self.url = server.url
        try:
            yield server
        finally:
            await server.stop(0)


class Office:
    """A coordinator's fetcher."""

    def __init__(self, folder: Path, *, limit_bytes: int = GIB, **options: Any) -> None:
        self.folder = folder / "fetched"
        self.budget = budget_in(self.folder, limit_bytes)
        self._asked_for = ""
        settings: dict[str, Any] = {
            "timeout_s": 90.0,
            "stall_timeout_s": 90.0,
            "at_once": 64,
            "address_of": self._address_of,
        } | options
        self.fetcher = ArtifactFetcher(self.folder, self.budget, **settings)

    def _address_of(self, worker_id: WorkerId) -> str:
        return self._asked_for

    async def fetch(self, artifact: Artifact, attempt: AttemptId | None = None) -> FetchedArtifact:
        """Its worker registered with whatever address the artifact has, unless the test says otherwise."""
        self._asked_for = artifact.url
        return await self.fetcher.fetch(WORKER, attempt or attempt_id(), artifact)

    async def failure(self, artifact: Artifact) -> WorkError:
        """Why it cannot be fetched."""
        try:
            result = await self.fetch(artifact)
        except FetchFailedError as failed:
            return failed.error
        result.release()
        raise AssertionError("the fetch succeeded")

    def is_clean(self) -> bool:
        """No file, no space taken, no connection in use."""
        client: Any = getattr(self.fetcher, "_client")  # noqa: B009 - what is private is the only one that tells
        return not (files_in(self.folder) or self.budget.figures().artifact_bytes or client.in_use)


@asynccontextmanager
async def office(folder: Path, **options: Any) -> AsyncGenerator[Office]:
    made = Office(folder, **options)
    await made.fetcher.start()
    try:
        yield made
    finally:
        await made.fetcher.close()


Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Gets the head of a request, and writes what it likes."""


class Peer:
    """A server that says what it is told to, one answer for each request, and then hangs up."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)
        self.heads: list[str] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            await self._answers[min(len(self.heads), len(self._answers)) - 1](head, writer)


@asynccontextmanager
async def peer(*answers: Answer) -> AsyncGenerator[Peer]:
    """The last answer is for all that follow."""
    scripted = Peer(answers)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(scripted.handle(reader, writer))
        tasks.add(task)
        # Not at the end of `handle`, which never begins when it is canceled soon enough.
        task.add_done_callback(lambda _: writer.close())
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    scripted.url = f"http://{host}:{port}/artifacts/x.parquet"
    try:
        yield scripted
    finally:
        server.close()
        for _ in range(3):  # what was just accepted becomes a task in the next turns
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await server.wait_closed()
        await asyncio.sleep(0)


def says(status: str, headers: str = "", body: bytes = b"") -> Answer:
    """Writes that; then the connection is closed."""

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\n{headers}\r\n".encode() + body)
        await writer.drain()

    return answer


def whole(body: bytes) -> Answer:
    return says("200 OK", f"Content-Length: {len(body)}\r\n", body)

"""A coordinator that scans, with its page over it: files and results are real, its worker is played.

What the worker makes of a file is what the test says for its name. What is fetched from it is a real Parquet file, in
memory and on disk by turns, of which it is known whether it was released.
"""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
from fastapi import FastAPI
from starlette.types import Message, Scope

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.ids import CoordinatorId, WorkerId
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.messages import (
    AssignWork,
    CancelQuery,
    WorkAccepted,
    WorkCanceled,
    WorkFailed,
    WorkReady,
)
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkError
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.harvest import Window
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.part_words import PartWords
from quarterdeck.engines.scan_file import ScanFile
from quarterdeck.http.errors import add_error_handlers
from quarterdeck.scan.merging import MergeLimits, PartMerging
from quarterdeck.scan.model import ScanTask, decode_task
from quarterdeck.scan.routes import scan_router
from quarterdeck.scan.service import ScanService
from quarterdeck.stores.objects import ObjectStores
from tests.crew.played import ARTIFACT, PlayedLink, register_with
from tests.http.asked import Answer
from tests.scan.here import MergerHere

_pa: Any = pyarrow
_pq: Any = pyarrow.parquet

WORDS = PartWords((), ("BIGINT",), (), ())
"""What its worker says of parts whose rows are the answer, if it does not really scan."""
NEVER = None
"""What a worker makes of a file that it is never done with."""


def numbers(*values: int) -> Any:
    """Rows with one column."""
    return _pa.table({"n": _pa.array(values, _pa.int64())})


class Held(FetchedArtifact):
    """A result of which it is known whether it was released."""

    __slots__ = ("_among", "_file")

    def hold(self, among: set[int]) -> None:
        self._among = among
        self._file = self.path
        among.add(id(self))

    def release(self) -> None:
        super().release()
        self._among.discard(id(self))
        if self._file is not None:
            self._file.unlink(missing_ok=True)


class Port:
    """The coordinator. It plays its own fetcher and its worker."""

    def __init__(self, folder: Path, wait_limit_s: float, window: int, at_once: int, timeout_s: float) -> None:
        self.lake, self.spool = folder / "lake", folder / "spool"
        self.lake.mkdir()
        self.spool.mkdir()
        self.link = PlayedLink("w0")
        self.made_of: dict[str, Any] = {"nothing": numbers(0)}
        """What the worker makes of each file, by its name: a table, an error, or `NEVER`."""
        self.tasks: dict[AttemptId, ScanTask] = {}
        self.tenants: set[str] = set()
        self.canceled: list[str] = []
        """Queries that the worker was told to cancel."""
        self.held: set[int] = set()
        """Results that were fetched and not released."""
        self.fetched = 0
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("c0")))
        ids = RandomIds()
        self.driver: CoordinatorDriver[FetchedArtifact] = CoordinatorDriver(
            self.machine, clock=MonotonicClock(), ids=ids, fetcher=self
        )
        self.objects = ObjectStores()
        self.merger = MergerHere()
        self.merges = folder / "merge"
        self.scanner: DuckDbScanner | None = None
        bounds = Window(max_works=window, max_bytes=1024 * 1024)
        self.service = ScanService(
            self.driver,
            self.objects,
            ids,
            self.merger,
            PartMerging(self.merger, folder / "merge", MergeLimits(at_once=2, parts_bytes=1024 * 1024)),
            clock=MonotonicClock(),
            window=bounds,
            wait_limit_s=wait_limit_s,
            at_once=at_once,
            timeout_s=timeout_s,
        )
        self.app = FastAPI()
        self.app.include_router(scan_router(self.service))
        add_error_handlers(self.app)

    def put(self, **made_of: Any) -> None:
        """Files into the lake, and what the worker makes of each."""
        for name in made_of:
            (self.lake / f"{name}.parquet").write_bytes(b"nobody reads this")
        self.made_of |= made_of

    def body(self, **options: Any) -> bytes:
        """A request for all files, one in each work."""
        request = {"sql": "select * from files", "sources": [str(self.lake)], "files_per_work": 1} | options
        return json.dumps(request).encode()

    async def ask(self, **options: Any) -> Answer:
        return await self.ask_with({}, **options)

    async def ask_with(self, headers: dict[str, str], **options: Any) -> Answer:
        """One request whose client waits for the answer."""
        client = Client(self.body(**options), headers)
        await self.app(client.scope, client.receive, client.send)
        return client.answer()

    # As a fetcher

    async def fetch(self, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact) -> FetchedArtifact:
        task, data = self.tasks[attempt], io.BytesIO()
        made = self._makes(task)
        if task.part is not None and not task.part.keeps_types and self.scanner is None:
            made = made.cast(WORDS.added_to(made.schema))
        _pq.write_table(made, data)
        metadata = replace(artifact, size_bytes=len(data.getvalue()), row_count=made.num_rows)
        self.fetched += 1
        path = self.spool / str(self.fetched)
        if self.fetched % 2:
            result = Held(metadata, data.getvalue(), None)
        else:
            path.write_bytes(data.getvalue())
            result = Held(metadata, None, path)
        result.hold(self.held)
        return result

    def discard(self, result: FetchedArtifact) -> None:
        result.release()

    # As a worker

    async def work(self) -> None:
        await register_with(self.link, credit=8)
        while True:
            for message in await self.link.hear():
                match message:
                    case AssignWork() as assignment:
                        self._take(assignment)
                    case CancelQuery(query_id):
                        self.canceled.append(query_id)
                        left = [attempt for attempt in self.tasks if self._makes(self.tasks[attempt]) is NEVER]
                        self.link.say(*(WorkCanceled(attempt) for attempt in left))
                    case _:
                        pass

    def _take(self, assignment: AssignWork) -> None:
        attempt, task = assignment.attempt, decode_task(assignment.spec.payload)
        self.tasks[attempt] = task
        self.tenants.add(assignment.spec.tenant)
        self.link.say(WorkAccepted(attempt))
        made = self._makes(task)
        if isinstance(made, WorkError):
            self.link.say(WorkFailed(attempt, made))
        elif made is not NEVER:
            self.link.say(WorkReady(attempt, ARTIFACT))

    def _makes(self, task: ScanTask) -> Any:
        if self.scanner is not None and task.files:
            return self._scanned(self.scanner, task)
        return self.made_of[Path(task.files[0].url).stem if task.files else "nothing"]

    def _scanned(self, scanner: DuckDbScanner, task: ScanTask) -> Any:
        """What a real worker makes of real files."""
        values = task.values or [()] * len(task.files)
        files = [ScanFile(Path(ref.url), ref.url, row) for ref, row in zip(task.files, values, strict=True)]
        try:
            with scanner.scan(
                task.sql,
                files,
                CancelToken(),
                with_filename=task.with_filename,
                path_columns=task.path_columns,
                part=task.part,
            ) as rows:
                return _pa.Table.from_batches(list(rows), rows.schema)
        except QuarterdeckError as error:
            return WorkError(error.code, error.message, retryable=False)

    def scan_really(self, scanner: DuckDbScanner) -> None:
        """From now on its worker reads the files."""
        self.scanner = scanner


class Client:
    """The other end of one request to an application. It reads, stops reading, or goes away, as the test says."""

    def __init__(self, body: bytes, headers: dict[str, str] | None = None, method: str = "POST") -> None:
        named = {"content-type": "application/json"} | (headers or {})
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": "/v1/scan",
            "raw_path": b"/v1/scan",
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self.sent: list[Message] = []
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive(self) -> Message:
        if self._requests:
            return self._requests.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.reads.wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def is_complete(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is not True

    def answer(self) -> Answer:
        assert self.is_complete
        start = self.sent[0]
        names = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
        return Answer(start["status"], names, self.body)


@asynccontextmanager
async def port(
    folder: Path,
    *,
    with_worker: bool = True,
    wait_limit_s: float = 60.0,
    window: int = 4,
    at_once: int = 8,
    timeout_s: float = 1_000_000.0,
) -> AsyncGenerator[Port]:
    """Runs until the end of the block. Then there is no query, and every result was released."""
    made = Port(folder, wait_limit_s, window, at_once, timeout_s)
    running = [asyncio.create_task(made.driver.run())]
    if with_worker:
        running += [asyncio.create_task(made.driver.serve(made.link)), asyncio.create_task(made.work())]
    try:
        yield made
        assert list(made.machine.ledger.queries()) == []
        assert made.driver.left_over() == []
        assert made.held == set()
        assert list(made.spool.iterdir()) == []
        assert list(made.merges.iterdir()) == []
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)

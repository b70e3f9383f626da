"""One search while it runs: what comes of its chunks is gathered, and given out as whoever reads it has time for it.

Nothing is read ahead of the reader but what the bounds allow: while it does not ask for more, answers are not gathered,
and then no chunk is given out.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeAlias, TypeVar

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.machine.search import SearchConfig
from quarterdeck.search.machine.search_records import ChunkState
from quarterdeck.search.model import Chunk
from quarterdeck.search.ports import ChunkAnswer, RecordBatch, WorkerBrokeProtocolError, WorkerLostError
from quarterdeck.search.root.driver import Ports, SearchDriver
from quarterdeck.search.root.planning import SearchPlan
from quarterdeck.search.root.problems import Problems
from quarterdeck.search.stored_rows import NoRoomError
from quarterdeck.stores.disk_full import DiskFullError
from quarterdeck.stores.threads import in_thread
from quarterdeck.telemetry.logs import get_logger

T = TypeVar("T")

_log = get_logger(__name__)

PROGRESS_S: Final = 0.2
_OF_THE_FILES: Final = frozenset(
    {ErrorCode.WORK_FAILED, ErrorCode.RESOURCE_EXHAUSTED, ErrorCode.NOT_FOUND, ErrorCode.UNAVAILABLE}
)
"""Refusals that are about a chunk: the rest of the search is worth having. Any other is about the search."""


class Gatherer(Protocol):
    """Makes the answer out of those of chunks; `engine.gathering.Gathering`. All of it blocks."""

    def add(self, chunk: int, batches: Iterable[RecordBatch]) -> Iterator[bytes]: ...

    @property
    def is_satisfied(self) -> bool: ...

    def finish(self, stop: StopSignal) -> Iterator[bytes]: ...

    @property
    def rows(self) -> int: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is, as JSON has it."""

    bytes: int
    bytes_done: int
    chunks: int
    chunks_done: int
    matches: int
    workers: int
    workers_lost: int
    bad_lines: int

    def document(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Rows:
    """Whole lines of NDJSON, each with its end."""

    data: bytes


SearchEvent: TypeAlias = Progress | Rows


class Status(StrEnum):
    OK = "ok"
    PARTIAL = "partial"
    """All rows were given, and some of the files have problems."""
    ERROR = "error"
    CANCELED = "canceled"
    """Nobody waited for its end."""


class RunningSearch:
    """Made by `SearchService.opened`. Read its events once; it has ended well when they have."""

    def __init__(
        self, query_id: QueryId, plan: SearchPlan, config: SearchConfig, ports: Ports, gathering: Gatherer, tenant: str
    ) -> None:
        """`tenant` is whose workers search."""
        self.query_id: Final = query_id
        self.plan: Final = plan
        self.problems: Final = Problems()
        self.matches = 0
        self.is_whole = False
        """Every row was given out."""
        self.driver: Final = SearchDriver(
            config, plan.spec, plan.chunks, ports, self, label=plan.request.label, tenant=tenant
        )
        self._gathering = gathering
        self._clock = ports.clock
        self._began_s = self._clock.now()
        self._done_bytes = 0
        self._committed: deque[tuple[Chunk, ChunkAnswer]] = deque()
        self._last_loss = ""
        self._broken_word = ""
        """The last answer of a worker that broke the protocol, if one did."""
        self._failure: Exception | None = None
        self._has_finished = False
        self._is_satisfied = False
        self._news = asyncio.Event()
        self._stop = CancelToken()

    # For whoever reads

    async def events(self) -> AsyncGenerator[SearchEvent]:
        """Rows as they come and how far it is, a few times a second. Raises what makes the answer impossible; then
        nothing that was given is the whole answer. Close it when leaving early: `aclosing`."""
        self.driver.start()
        shown_s = self._clock.now()
        yield self.progress()
        while True:
            self._news.clear()
            if self._failure is not None:
                raise self._failure
            if self._gathering.is_satisfied and not self._is_satisfied:
                self._is_satisfied = True
                self.driver.satisfied()
            if self._is_satisfied or (self._has_finished and not self._committed):
                break
            if self._committed:
                chunk, answer = self._committed.popleft()
                parts = await self._in_thread(lambda c=chunk, a=answer: self._gathering.add(c.number, a.batches))
                del answer  # what was gathered is the gathering's to hold
                async with aclosing(self._given(parts)) as given:
                    async for rows in given:
                        yield rows
                self.driver.gathered(chunk)
            else:
                await self._wait_news(shown_s + PROGRESS_S - self._clock.now())
            if shown_s + PROGRESS_S <= self._clock.now():
                shown_s = self._clock.now()
                yield self.progress()
        self._insist_on_something()
        parts = await self._in_thread(lambda: self._gathering.finish(self._stop))
        async with aclosing(self._given(parts)) as given:
            async for rows in given:
                yield rows
        self.is_whole = True
        yield self.progress()

    def progress(self) -> Progress:
        machine = self.driver.machine
        return Progress(
            bytes=self.plan.size_bytes,
            bytes_done=min(self.plan.size_bytes, self._done_bytes + self.driver.scanned_bytes()),
            chunks=len(machine.chunks),
            chunks_done=sum(record.state not in (ChunkState.WAITING, ChunkState.RUNNING) for record in machine.chunks),
            matches=self.matches,
            workers=len(machine.members),
            workers_lost=machine.lost,
            bad_lines=self.problems.bad_lines,
        )

    @property
    def status(self) -> Status:
        if not self.is_whole:
            return Status.ERROR
        return Status.PARTIAL if self.problems else Status.OK

    @property
    def seconds(self) -> float:
        return self._clock.now() - self._began_s

    @property
    def rows(self) -> int:
        return self._gathering.rows

    @property
    def searched_bytes(self) -> int:
        """Of chunks whose answer has come."""
        return self._done_bytes

    def workers(self) -> list[dict[str, object]]:
        """Who has searched any of it, and how many chunks; one that was recruited twice is told once."""
        chunks: dict[tuple[str, str], int] = {}
        for worker, count in self.driver.searched_by.items():
            chunks[worker.addr, worker.node] = chunks.get((worker.addr, worker.node), 0) + count
        return [{"addr": addr, "node": node, "chunks": count} for (addr, node), count in sorted(chunks.items())]

    # For whoever opened it

    async def end(self) -> None:
        """Everything is stopped, given back and deleted. Not to be canceled."""
        self._stop.cancel()
        await self.driver.close()
        await in_thread(self._gathering.close)

    # What the driver tells

    def asks_about(self) -> Collection[str]:
        return self.plan.fields.missing

    def committed(self, chunk: Chunk, answer: ChunkAnswer) -> None:
        report = answer.report
        self.matches += report.matches
        self._done_bytes += chunk.size_bytes
        self.problems.add(report.problems)
        self.plan.fields.saw(report.seen)
        self._committed.append((chunk, answer))
        self._news.set()

    def refused(self, chunk: Chunk, error: QuarterdeckError) -> None:
        if error.code in _OF_THE_FILES and not isinstance(error, NoRoomError | DiskFullError):
            self.problems.add_all(chunk, error.message)
            self._done_bytes += chunk.size_bytes
        else:
            self.broken(error)

    def given_up(self, chunk: Chunk, lost_workers: int) -> None:
        _log.warning("chunk given up", query_id=self.query_id, chunk=chunk.number, lost_workers=lost_workers)
        why = f"not searched: {lost_workers} workers were lost while they searched it, and it may be the reason"
        if lost_workers >= self.driver.machine.config.lost_workers_max:
            why += f"; the last: {self._last_loss}"
        if self._broken_word:  # then no file is to blame
            self.broken(_untrusted(self._broken_word))
        self.problems.add_all(chunk, why)
        self._done_bytes += chunk.size_bytes

    def worker_lost(self, worker: Recruited, error: WorkerLostError) -> None:
        self._last_loss = str(error)
        if isinstance(error, WorkerBrokeProtocolError):
            self._broken_word = self._last_loss
        _log.warning("worker lost", query_id=self.query_id, worker=worker.addr, reason=self._last_loss)

    def finished(self) -> None:
        self._has_finished = True
        self._news.set()

    def broken(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._news.set()

    # Inside

    def _insist_on_something(self) -> None:
        """Raises when the answer, empty as it is, would say something that is not so."""
        if self._is_satisfied:
            return
        if self.problems.spared_nothing(self.plan.pieces):
            raise self.problems.error()
        if self.plan.chunks:
            self.plan.fields.insist(self.plan.files)

    async def _given(self, parts: Iterator[bytes]) -> AsyncGenerator[Rows]:
        try:
            while (part := await self._in_thread(lambda: next(parts, None))) is not None:
                if part:
                    yield Rows(part)
        finally:
            if isinstance(parts, Generator):
                await in_thread(parts.close)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Canceled, it stops what is computed."""
        return await in_thread(function, on_cancel=self._stop.cancel)

    async def _wait_news(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, limit_s)):
                await self._news.wait()
        except TimeoutError:
            pass


def _untrusted(why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.PROTOCOL,
        "the search was given up",
        f"no worker gave an answer that adds up; {why}",
        "look at that worker: it is of another version, damaged, or not one of yours",
    )

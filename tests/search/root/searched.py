"""A root with workers that are played: they search real files in a simple way, and do what a test wants of them.

A record counts if the last word of the query's condition is in its line. The played gathering gives lines out in the
order of the files, or at the end; `head n` ends a search early.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.query_log import AskedQuery
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.language.ast import Head
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.model import Chunk, ChunkReport, FileProblem, Order, Piece, SearchSpec
from quarterdeck.search.ports import ChunkAnswer, RecordBatch, WorkerLostError
from quarterdeck.search.root.driver import Ports
from quarterdeck.search.root.planning import SearchPlan, SearchRequest
from quarterdeck.search.root.running import Progress, Rows, RunningSearch, SearchEvent
from quarterdeck.search.root.service import SearchOptions, SearchService
from quarterdeck.stores.objects import ObjectStores
from tests.patience import PATIENCE_S

NOW_US = 1_790_000_000_000_000


@dataclass(frozen=True)
class Lines:
    """As a batch."""

    lines: tuple[bytes, ...]

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.lines))


def lines_of(piece: Piece) -> list[bytes]:
    """Those that begin in the piece."""
    data = Path(piece.url).read_bytes()
    begin = 0 if piece.start == 0 else data.find(b"\n", piece.start - 1) + 1
    found: list[bytes] = []
    while 0 <= begin < piece.end:
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        found.append(data[begin:end])
        begin = end + 1
        if piece.start and begin == 0:
            break
    return found


def searched(spec: SearchSpec, chunk: Chunk, ask_about: Collection[str]) -> ChunkAnswer:
    condition = spec.query.partition("|")[0].split()
    word = condition[-1].partition("=")[2] or condition[-1] if condition else ""
    found: list[bytes] = []
    problems: list[FileProblem] = []
    seen: set[str] = set()
    for piece in chunk.pieces:
        if "broken" in piece.url:
            problems.append(FileProblem(piece.url, "it is damaged"))
            continue
        lines = lines_of(piece)
        bad = [line for line in lines if not line.startswith(b"{")]
        if bad:
            problems.append(FileProblem(piece.url, "lines that are no records", len(bad)))
        good = [line for line in lines if line.startswith(b"{")]
        seen.update(name for line in good for name in json.loads(line) if name in ask_about)
        found += [line for line in good if word.replace("*", "").encode() in line]
    report = ChunkReport(chunk.size_bytes, len(found), tuple(problems), frozenset(seen))
    return ChunkAnswer([Lines(tuple(found))], report)


class PlayedGathering:
    """In the order of the files as soon as possible, except that by time it is all at the end."""

    def __init__(self, spec: SearchSpec) -> None:
        self._order = spec.order
        self._waiting: dict[int, Iterable[RecordBatch]] = {}
        self._next = 0
        self._head = next((stage.count for stage in parse_search(spec.query).stages if isinstance(stage, Head)), None)
        self.rows = 0
        self.added: Counter[int] = Counter()
        self.is_closed = False

    @property
    def is_satisfied(self) -> bool:
        return self._head is not None and self.rows >= self._head

    def add(self, chunk: int, batches: Iterable[RecordBatch]) -> Iterator[bytes]:
        self.added[chunk] += 1
        self._waiting[chunk] = batches
        while self._order is not Order.TIME and self._next in self._waiting:
            yield self._text(self._waiting.pop(self._next))
            self._next += 1

    def finish(self, stop: StopSignal) -> Iterator[bytes]:
        for chunk in sorted(self._waiting):
            stop.check()
            yield self._text(self._waiting[chunk])

    def _text(self, batches: Iterable[RecordBatch]) -> bytes:
        lines = [line for batch in batches for line in batch.lines]
        if self._head is not None:
            lines = lines[: self._head - self.rows]
        self.rows += len(lines)
        return b"".join(line + b"\n" for line in lines)

    def close(self) -> None:
        self.is_closed = True


Play = Callable[[Recruited, Chunk], "asyncio.Future[None] | Exception | None"]
"""What a worker does with a chunk: search it, wait for something before, or raise."""


def willing(worker: Recruited, chunk: Chunk) -> None:
    """Searches whatever it is given."""


class PlayedWorkers:
    def __init__(self, count: int, slots: int = 1, play: Play = willing) -> None:
        self.free = [Recruited(f"w{number}:1", f"node-{number}", slots, f"r{number}") for number in range(count)]
        self.play = play
        self.asked: list[int] = []
        self.tenants: list[str] = []
        """Who asked, each time."""
        self.given: list[tuple[str, int]] = []
        self.searching: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.reserved: dict[str, Recruited] = {}
        self.releases: Counter[str] = Counter()
        self.asked_about: dict[int, Collection[str]] = {}
        self.hold_recruits: asyncio.Event | None = None

    async def recruit(self, number: int, label: str, tenant: str) -> Sequence[Recruited]:
        self.asked.append(number)
        self.tenants.append(tenant)
        given, self.free = self.free[:number], self.free[number:]
        if self.hold_recruits is not None:
            await self.hold_recruits.wait()
        self.reserved.update((worker.reservation, worker) for worker in given)
        return given

    async def search(
        self,
        worker: Recruited,
        spec: SearchSpec,
        chunk: Chunk,
        *,
        ask_about: Collection[str],
        on_progress: Callable[[int], None],
    ) -> ChunkAnswer:
        assert worker.reservation in self.reserved
        self.given.append((worker.addr, chunk.number))
        self.asked_about[chunk.number] = ask_about
        self.searching[worker.addr] += 1
        self.most_at_once[worker.addr] = max(self.most_at_once[worker.addr], self.searching[worker.addr])
        try:
            await asyncio.sleep(0)
            on_progress(chunk.size_bytes // 2)
            played = self.play(worker, chunk)
            if isinstance(played, Exception):
                raise played
            if played is not None:
                await played
            return searched(spec, chunk, ask_about)
        finally:
            self.searching[worker.addr] -= 1

    async def release(self, worker: Recruited) -> None:
        self.releases[worker.reservation] += 1
        del self.reserved[worker.reservation]


class Alone:
    def __init__(self) -> None:
        self.chunks: list[int] = []
        self.refusal: QuarterdeckError | None = None
        self.hold: asyncio.Event | None = None

    async def search(
        self, spec: SearchSpec, chunk: Chunk, *, ask_about: Collection[str], on_progress: Callable[[int], None]
    ) -> ChunkAnswer:
        self.chunks.append(chunk.number)
        if self.hold is not None:
            await self.hold.wait()
        if self.refusal is not None:
            raise self.refusal
        return searched(spec, chunk, ask_about)


class FirstLine:
    """The fields of a sample."""

    async def fields_of(self, piece: Piece) -> frozenset[str]:
        if "broken" in piece.url:
            return frozenset()
        lines = [line for line in lines_of(piece)[:1] if line.startswith(b"{")]
        return frozenset(name for line in lines for name in json.loads(line))


class CountedIds(RandomIds):
    def __init__(self) -> None:
        self._count = 0

    def query_id(self) -> QueryId:
        self._count += 1
        return QueryId(f"q{self._count}")


class WatchedService(SearchService):
    """Knows which searches it has begun."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.begun: list[RunningSearch] = []

    async def _begin(self, planned: SearchPlan, asked: AskedQuery) -> RunningSearch:
        self.begun.append(await super()._begin(planned, asked))
        return self.begun[-1]


@dataclass
class Root:
    """A service with everybody around it."""

    folder: Path
    workers: PlayedWorkers
    alone: Alone
    service: "WatchedService"
    gatherings: list[PlayedGathering] = field(default_factory=list[PlayedGathering])

    @property
    def held_bytes(self) -> int:
        """Of answers that the searches of this root have not gathered yet."""
        return sum(running.driver.machine.held_bytes for running in self.service.begun)

    def put(self, name: str, *records: object) -> str:
        """A file of NDJSON; a text is a line as it is."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        path.write_text("".join(line + "\n" for line in lines))
        return str(path)

    def put_numbered(self, files: int, lines: int = 3) -> list[int]:
        """Records numbered through all files, one chunk a file when parts are small; the numbers."""
        for number in range(files):
            self.put(f"f{number:03}.ndjson", *({"ts": 0, "n": number * lines + line} for line in range(lines)))
        return list(range(files * lines))

    def request(self, query: str = "*", **options: Any) -> SearchRequest:
        options.setdefault("sources", (str(self.folder),))
        return SearchRequest(query, **options)

    @asynccontextmanager
    async def events(
        self, query: str = "*", **options: Any
    ) -> AsyncGenerator[tuple[RunningSearch, AsyncGenerator[SearchEvent]]]:
        async with self.service.opened(self.request(query, **options)) as running, aclosing(running.events()) as events:
            yield running, events

    async def search(self, query: str = "*", **options: Any) -> "Found":
        events: list[SearchEvent] = []
        async with self.events(query, **options) as (running, given):
            events += [event async for event in given]
        await self.service.wait_quiet()
        return Found(running, events)


@dataclass(frozen=True)
class Found:
    running: RunningSearch
    events: list[SearchEvent]

    @property
    def records(self) -> list[Any]:
        return [
            json.loads(line) for event in self.events if isinstance(event, Rows) for line in event.data.splitlines()
        ]

    @property
    def numbers(self) -> list[int]:
        return [record["n"] for record in self.records]

    @property
    def progress(self) -> list[Progress]:
        return [event for event in self.events if isinstance(event, Progress)]


@asynccontextmanager
async def root(folder: Path, workers: PlayedWorkers | None = None, **options: Any) -> AsyncGenerator[Root]:
    played = workers or PlayedWorkers(0)
    alone = Alone()
    gatherings: list[PlayedGathering] = []

    def gathering(spec: SearchSpec) -> PlayedGathering:
        gatherings.append(PlayedGathering(spec))
        return gatherings[-1]

    service = WatchedService(
        ObjectStores(),
        Ports(played, played, alone, MonotonicClock()),
        FirstLine(),
        gathering,
        CountedIds(),
        lambda: NOW_US,
        replace(SearchOptions(**options), ahead=0),
    )
    try:
        yield Root(folder, played, alone, service, gatherings)
    finally:
        await service.end()


def lost(worker: Recruited) -> WorkerLostError:
    return WorkerLostError(f"{worker.addr} hung up")


Scenario = Callable[[Root], Awaitable[None]]


def play(folder: Path, scenario: Scenario, workers: PlayedWorkers | None = None, **options: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), root(folder, workers, **options) as made:
            await scenario(made)
        assert not made.workers.reserved
        assert all(count == 1 for count in made.workers.releases.values())
        assert all(gathering.is_closed for gathering in made.gatherings)
        assert all(count == 1 for gathering in made.gatherings for count in gathering.added.values())

    asyncio.run(run())


def first_times(count: int) -> Callable[[object], bool]:
    """Whether something is asked for one of the first so many times."""
    asked: Counter[object] = Counter()

    def is_first(about: object) -> bool:
        asked[about] += 1
        return asked[about] <= count

    return is_first

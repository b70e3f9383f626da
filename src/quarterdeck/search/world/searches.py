"""A search in a simulation: the real driver, and a client that wants each chunk once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.machine import search_effects as ef
from quarterdeck.search.machine import search_events as ev
from quarterdeck.search.machine.search import SearchConfig, SearchMachine
from quarterdeck.search.machine.search_records import ChunkState, ChunkTrigger
from quarterdeck.search.model import Chunk, ChunkReport, FileKind, Piece, SearchSpec
from quarterdeck.search.ports import ChunkAnswer, WorkerLostError
from quarterdeck.search.root.driver import Ports, SearchDriver
from quarterdeck.search.world.scenario import SearchLoad

if TYPE_CHECKING:
    from quarterdeck.search.world.hosts import RootHost

CHUNK_BYTES: Final = 100
_ANSWER_BYTES: Final = 10


class PlayedSearch:
    """One search of a root; also what hears of it."""

    def __init__(self, root: "RootHost", name: str, load: SearchLoad) -> None:
        self.root = root
        self.process = root.process
        self.name = name
        self.load = load
        self.recruited: set[Recruited] = set()
        """Whom it has and did not release."""
        self.commits: Counter[int] = Counter()
        self.gathered: set[int] = set()
        self.errors: dict[int, str] = {}
        """Chunks that are not in the answer, and why."""
        self.end: str | None = None
        self.lost = 0
        """Workers."""
        self._finished = asyncio.Event()
        world = root.world
        chunks = [_chunk(name, number) for number in range(len(load.chunks))]
        held = world.chance.choice((_ANSWER_BYTES, 1000 * _ANSWER_BYTES))
        running = world.chance.choice((3 * CHUNK_BYTES, 1000 * CHUNK_BYTES))
        config = SearchConfig(load.max_workers, ahead=len(chunks) % 2, running_bytes=running, held_bytes=held)
        self.driver = SearchDriver(
            config,
            SearchSpec("*", 0),
            chunks,
            Ports(root.recruiting, root.workers, SearchingAlone(self), root.clock, lambda _: _ANSWER_BYTES),
            self,
            label=load.label,
            make_machine=self._machine,
        )

    @property
    def machine(self) -> SearchMachine:
        return self.driver.machine

    async def run(self) -> None:
        """As the handler of a client's request: it ends with the search, or when the client goes."""
        try:
            async with asyncio.timeout(self.load.cancel_after_s):
                self.driver.start()
                await self._finished.wait()
            end = "partial" if self.errors else "done"
        except TimeoutError:
            end = "canceled"
        await self.driver.close()
        self.root.world.search_ended(self, end)

    def _machine(self, config: SearchConfig, chunks: Sequence[Chunk]) -> SearchMachine:
        return WatchedMachine(self, config, chunks)

    # What the driver tells

    def asks_about(self) -> Collection[str]:
        """All names of chunks: an answer tells its own."""
        return [_chunk(self.name, number).pieces[0].url for number in range(len(self.load.chunks))]

    def committed(self, chunk: Chunk, answer: ChunkAnswer) -> None:
        world = self.root.world
        if answer.report.seen != frozenset({chunk.pieces[0].url}):
            raise world.watcher.violated(f"chunk {chunk.number} of {self.name} got the answer of {answer.report.seen}")
        takes_s = world.chance.choice((0.0, 0.01, 0.3)) * world.chance.random()
        world.loop.call_later(takes_s, self._gathered, chunk)

    def _gathered(self, chunk: Chunk) -> None:
        self.gathered.add(chunk.number)
        self.driver.gathered(chunk)

    def refused(self, chunk: Chunk, error: QuarterdeckError) -> None:
        self.errors[chunk.number] = str(error)
        self.root.world.watcher.moves[ChunkState.RUNNING, ChunkTrigger.REFUSE] += 1

    def given_up(self, chunk: Chunk, lost_workers: int) -> None:
        self.errors[chunk.number] = f"{lost_workers} workers were lost"

    def worker_lost(self, worker: Recruited, error: WorkerLostError) -> None:
        self.lost += 1
        self.root.world.watcher.met["workers lost"] += 1
        self.root.world.note(f"{self.name} lost {worker.addr}: {error}")

    def finished(self) -> None:
        self._finished.set()

    def broken(self, error: Exception) -> None:
        raise self.root.world.watcher.violated(f"{self.name} broke: {error!r}") from error


class WatchedMachine(SearchMachine):
    def __init__(self, search: PlayedSearch, config: SearchConfig, chunks: Sequence[Chunk]) -> None:
        super().__init__(config, chunks)
        self._search = search

    def step(self, event: ev.Event, now: float) -> list[ef.Effect]:
        effects = super().step(event, now)
        self._search.root.world.watcher.search_stepped(self._search, self, event, effects)
        return effects


class SearchingAlone:
    """The root's own way to search."""

    def __init__(self, search: PlayedSearch) -> None:
        self._search = search

    async def search(
        self,
        spec: SearchSpec,  # noqa: ARG002 - as any other
        chunk: Chunk,
        *,
        ask_about: Collection[str],  # noqa: ARG002
        on_progress: Callable[[int], None],
    ) -> ChunkAnswer:
        load = self._search.load
        await asyncio.sleep(load.chunks[chunk.number] / 2)
        if chunk.number == load.refused:
            raise refusal()
        on_progress(CHUNK_BYTES // 2)
        await asyncio.sleep(load.chunks[chunk.number] / 2)
        self._search.root.world.watcher.met["searched alone"] += 1
        return ChunkAnswer((), report_of(chunk.pieces[0].url))


def refusal() -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "the chunk was not searched", "nobody can", "ask for another")


def report_of(url: str) -> ChunkReport:
    """Says of which chunk it is."""
    return ChunkReport(CHUNK_BYTES, 0, seen=frozenset({url}), pieces=1)


def _chunk(search: str, number: int) -> Chunk:
    return Chunk(number, (Piece(f"/{search}/{number}", FileKind.NDJSON, CHUNK_BYTES, "", 0, CHUNK_BYTES),))

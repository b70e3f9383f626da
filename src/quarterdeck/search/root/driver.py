"""Carries out what the machine of one search wants: asks recruiters, hands chunks to workers, releases them.

What comes of it goes to one listener, on the event loop. It knows nothing of queries, files and answers; so it runs in
a process and in a simulation.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, assert_never

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.crew.driver import Stepper, cancel_all
from quarterdeck.crew.ports import Clock
from quarterdeck.recruiter.model import Recruited
from quarterdeck.recruiter.ports import Recruiting
from quarterdeck.search.machine import search_effects as ef
from quarterdeck.search.machine import search_events as ev
from quarterdeck.search.machine.search import SearchConfig, SearchMachine
from quarterdeck.search.machine.search_records import ROOT, Seat
from quarterdeck.search.model import Chunk, SearchSpec
from quarterdeck.search.ports import BLAMES_NO_CHUNK, ChunkAnswer, ChunkSearching, SearchWorkers, WorkerLostError
from quarterdeck.search.stored_rows import memory_bytes_of

_ANSWER_S: Final = 5.0
"""How long the end of a search waits for an open question to recruiters: whom they gave us must be released."""
_RELEASE_S: Final = 3.0
"""How long it waits for releases, which take two seconds at most by themselves."""


class Listener(Protocol):
    """Hears what comes of a search. Nothing of it may block or raise."""

    def asks_about(self) -> Collection[str]:
        """Fields that the next chunk is asked about."""
        ...

    def committed(self, chunk: Chunk, answer: ChunkAnswer) -> None:
        """The one answer of a chunk. To be followed by `SearchDriver.gathered`."""
        ...

    def refused(self, chunk: Chunk, error: QuarterdeckError) -> None:
        """It can be searched by nobody."""
        ...

    def given_up(self, chunk: Chunk, lost_workers: int) -> None: ...

    def worker_lost(self, worker: Recruited, error: WorkerLostError) -> None:
        """Comes before what follows from it."""
        ...

    def finished(self) -> None:
        """Nothing more comes."""
        ...

    def broken(self, error: Exception) -> None:
        """Something that nobody expected was raised by a port."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Whom a search deals with."""

    recruiting: Recruiting
    workers: SearchWorkers
    alone: ChunkSearching
    clock: Clock
    size_of: Callable[[ChunkAnswer], int] = field(default=lambda answer: memory_bytes_of(answer.batches))
    """What an answer takes in memory."""


class SearchDriver:
    """Start it once, and close it in the end, however that comes."""

    def __init__(
        self,
        config: SearchConfig,
        spec: SearchSpec,
        chunks: Sequence[Chunk],
        ports: Ports,
        listener: Listener,
        *,
        label: str = "",
        tenant: str = DEFAULT_TENANT,
        make_machine: Callable[[SearchConfig, Sequence[Chunk]], SearchMachine] = SearchMachine,
    ) -> None:
        self.machine: Final = make_machine(config, chunks)
        self.searched_by: Final[Counter[Recruited]] = Counter()
        """Chunks that were committed, by the worker that searched them."""
        self._spec = spec
        self._chunks = chunks
        self._ports = ports
        self._listener = listener
        self._label = label
        self._tenant = tenant
        self._stepper: Stepper[ev.Event, ef.Effect] = Stepper(
            self.machine, ports.clock, self._execute, ev.TimePassed(), None
        )
        self._recruiting: asyncio.Task[None] | None = None
        self._searching: dict[tuple[Seat, int], asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[Any]] = set()
        """Searches that were broken off, and releases."""
        self._scanned: dict[tuple[Seat, int], int] = {}
        self._answers: dict[int, ChunkAnswer] = {}
        """Of the chunk that has just been finished, until the machine has said whether it counts."""

    # What a root calls

    def start(self) -> None:
        self._stepper.apply(ev.Started())

    def gathered(self, chunk: Chunk) -> None:
        self._stepper.apply(ev.ChunkGathered(chunk.number))

    def satisfied(self) -> None:
        self._stepper.apply(ev.SearchSatisfied())

    def scanned_bytes(self) -> int:
        """Of chunks that are being searched, as far as is known."""
        return sum(min(scanned, self._chunks[number].size_bytes) for (_, number), scanned in self._scanned.items())

    async def close(self) -> None:
        """Whatever still runs is broken off, and everybody who was recruited is released. Not to be canceled."""
        self._stepper.apply(ev.SearchCanceled())
        self._stepper.stop()
        if self._recruiting is not None:
            await _end((self._recruiting,), _ANSWER_S)
        await cancel_all(list(self._searching.values()))
        await _end(self._ending, _RELEASE_S)

    # Effects

    def _execute(self, effect: ef.Effect) -> None:
        match effect:
            case ef.Recruit(number):
                self._recruiting = asyncio.create_task(self._recruit(number), name="recruit")
                self._recruiting.add_done_callback(self._tell_if_broken)
            case ef.AssignChunk(seat, worker, number):
                self._begin(seat, number, self._search(seat, worker, self._chunks[number]))
            case ef.SearchAlone(number):
                self._begin(ROOT, number, self._search_alone(self._chunks[number]))
            case ef.CommitChunk(number):
                self._listener.committed(self._chunks[number], self._answers.pop(number))
            case ef.HangUp(seat, number):
                self._hang_up(seat, number)
            case ef.ReleaseWorker(worker):
                releasing = asyncio.create_task(self._ports.workers.release(worker), name=f"release {worker.addr}")
                releasing.add_done_callback(self._tell_if_broken)
                self._keep(releasing)
            case ef.GiveUp(number, lost_workers):
                self._listener.given_up(self._chunks[number], lost_workers)
            case ef.Finish():
                self._listener.finished()
            case _:
                assert_never(effect)

    def _begin(self, seat: Seat, number: int, search: Coroutine[Any, Any, None]) -> None:
        task = self._searching[seat, number] = asyncio.create_task(search, name=f"search chunk {number}")
        task.add_done_callback(self._tell_if_broken)

    def _hang_up(self, seat: Seat, number: int) -> None:
        self._scanned.pop((seat, number), None)
        task = self._searching.pop((seat, number), None)
        if task is not None and task is not asyncio.current_task():  # that one has ended by itself
            task.cancel()
            self._keep(task)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _tell_if_broken(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._listener.broken(error)

    # Tasks

    async def _recruit(self, number: int) -> None:
        workers: Sequence[Recruited] = ()
        try:
            workers = await self._ports.recruiting.recruit(number, self._label, self._tenant)
        except Exception as error:  # noqa: BLE001 - told to the listener
            self._listener.broken(error)
        self._stepper.apply(ev.WorkersRecruited(tuple(workers)))

    async def _search(self, seat: Seat, worker: Recruited, chunk: Chunk) -> None:
        try:
            answer = await self._ports.workers.search(
                worker,
                self._spec,
                chunk,
                ask_about=self._listener.asks_about(),
                on_progress=lambda scanned: self._progressed(seat, chunk, scanned),
            )
        except WorkerLostError as error:
            if not self._is_awaited(seat, chunk):
                return
            self._listener.worker_lost(worker, error)
            self._stepper.apply(ev.WorkerLost(seat, had_chunk=not isinstance(error, BLAMES_NO_CHUNK)))
        except Exception as error:  # noqa: BLE001 - told to the listener
            self._not_searched(seat, chunk, error)
        else:
            self.searched_by[worker] += self._is_awaited(seat, chunk)
            self._answered(seat, chunk, answer)

    async def _search_alone(self, chunk: Chunk) -> None:
        try:
            answer = await self._ports.alone.search(
                self._spec,
                chunk,
                ask_about=self._listener.asks_about(),
                on_progress=lambda scanned: self._progressed(ROOT, chunk, scanned),
            )
        except Exception as error:  # noqa: BLE001 - told to the listener
            self._not_searched(ROOT, chunk, error)
        else:
            self._answered(ROOT, chunk, answer)

    def _progressed(self, seat: Seat, chunk: Chunk, scanned_bytes: int) -> None:
        if self._is_awaited(seat, chunk):
            self._scanned[seat, chunk.number] = scanned_bytes

    def _answered(self, seat: Seat, chunk: Chunk, answer: ChunkAnswer) -> None:
        if not self._is_awaited(seat, chunk):
            return
        self._forget(seat, chunk)
        self._answers[chunk.number] = answer
        self._stepper.apply(ev.ChunkFinished(seat, chunk.number, self._ports.size_of(answer)))

    def _not_searched(self, seat: Seat, chunk: Chunk, error: Exception) -> None:
        if not self._is_awaited(seat, chunk):
            return
        self._forget(seat, chunk)
        if isinstance(error, QuarterdeckError):
            self._listener.refused(chunk, error)
        else:
            self._listener.broken(error)
        self._stepper.apply(ev.ChunkRefused(seat, chunk.number))

    def _is_awaited(self, seat: Seat, chunk: Chunk) -> bool:
        """Whether nobody has hung up on it."""
        return (seat, chunk.number) in self._searching

    def _forget(self, seat: Seat, chunk: Chunk) -> None:
        del self._searching[seat, chunk.number]
        self._scanned.pop((seat, chunk.number), None)


async def _end(tasks: Iterable[asyncio.Task[Any]], limit_s: float) -> None:
    """Waits for them for so long, and cancels those that have not ended then."""
    waiting = list(tasks)
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=limit_s)
        await cancel_all(late)

"""The machine of one search: which chunk is searched by whom. Events in, effects out; it knows no clock and no socket.

Rules it keeps, whatever workers and recruiters do:

- each chunk is committed at most once; what is late or comes twice is not;
- whoever is done gets the next chunk, and what lost its worker goes first;
- each recruited worker is released exactly once, as soon as there is nothing left for it;
- a chunk that has lost three workers is given up. Before its last chance it is kept apart: the last worker it may take
  with it searches nothing else, and is not the root;
- without any worker the root searches alone, at once, and goes on asking for workers while there is enough to do;
- what is being searched, and what waits to be gathered, is bounded.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from quarterdeck.core.backoff import Backoff
from quarterdeck.core.invariants import insist
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.machine import search_events as ev
from quarterdeck.search.machine.search_effects import (
    AssignChunk,
    CommitChunk,
    Effect,
    Finish,
    GiveUp,
    HangUp,
    Recruit,
    ReleaseWorker,
    SearchAlone,
)
from quarterdeck.search.machine.search_invariants import claims
from quarterdeck.search.machine.search_records import (
    ROOT,
    ChunkRecord,
    ChunkTrigger,
    Member,
    Seat,
)
from quarterdeck.search.model import Chunk

_NO_JITTER = 0.5
_MANY = 2
"""Chunks in line for each worker, so that none of them is idle at the end while another has two."""


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How a search behaves."""

    max_workers: int
    """Workers at the same time. 0: there is nobody to ask, and the root is on its own."""
    ahead: int = 0
    """Chunks that a worker has beyond its slots, while there are many left: it begins the next one without waiting for
    us. More of them would be lost with it, and could have been another's."""
    alone_at_once: int = 1
    """Chunks that the root searches at the same time when it has no workers."""
    running_bytes: int = 4 * 1024**3
    """Of chunks that are being searched. The answers of all of them may come at once; fewer leave workers idle."""
    held_bytes: int = 256 * 1024**2
    """Of answers that wait to be gathered; with more, no new chunk is given out."""
    lost_workers_max: int = 3
    """Workers that a chunk may lose. The last of them searches nothing else meanwhile."""
    asks_in_vain_max: int = 4
    """How often workers are asked for in vain before a chunk that the root must not search is given up."""
    idle_s: float = 4.0
    """After how long without a chunk a worker goes back. Longer, and it takes us for dead."""
    asking: Backoff = Backoff(base_s=0.5, cap_s=10.0, jitter=0.0)
    """How long to wait before asking for workers again, after fewer came than were asked for."""


class SearchMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self, config: SearchConfig, chunks: Sequence[Chunk]) -> None:
        self.config = config
        self.chunks = tuple(ChunkRecord(number, chunk.size_bytes) for number, chunk in enumerate(chunks))
        self.line: deque[int] = deque(range(len(chunks)))
        self.suspects: deque[int] = deque()
        """Chunks before their last chance, in a line of their own."""
        self.members: dict[Seat, Member] = {}
        self.alone: set[int] = set()
        """What the root searches itself."""
        self.running_bytes = 0
        self.held_bytes = 0
        self.has_started = False
        self.is_recruiting = False
        self.is_over = False
        self.recruited = 0
        """Workers, in all; and of those, how many were released or lost."""
        self.released = 0
        self.lost = 0
        self.retried = 0
        """Chunks that were taken from a lost worker, each as often as that happened."""
        self.unfinished = len(chunks)
        """Chunks that are neither part of the answer nor given up."""
        self._now = 0.0
        self._effects: list[Effect] = []
        self._seats = 0
        self._asked = 0
        """How many workers the open question is for."""
        self._ask_at: float | None = None
        """Before this, no question; None when one may be asked at any time."""
        self._short_answers = 0
        """In a row, that brought fewer workers than were asked for."""
        self._empty_answers = 0
        """In a row, that left us without anybody."""
        self._bad_rounds = 0
        """Recruited workers of which some were lost, without any of them having finished a chunk in between."""
        self._is_round_bad = False

    # What a driver calls

    @property
    def waiting(self) -> int:
        """Chunks that nobody searches yet."""
        return len(self.line) + len(self.suspects)

    def next_deadline(self) -> float | None:
        """When to send `TimePassed`; None when only events matter."""
        times = [member.idle_since + self.config.idle_s for member in self.members.values() if not member.chunks]
        if self._ask_at is not None and not self.is_over:
            times.append(self._ask_at)
        return min(times, default=None)

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it. A clock that went backwards counts as one that stands still."""
        self._now = max(self._now, now)
        effects: list[Effect] = []
        self._effects = effects
        match event:
            case ev.WorkersRecruited(workers):
                self._workers_recruited(workers)
            case _ if self.is_over:
                return effects  # whatever else still comes, it comes too late
            case ev.Started():
                self.has_started = True
            case ev.ChunkFinished(seat, number, result_bytes):
                self._chunk_finished(seat, self.chunks[number], result_bytes)
            case ev.ChunkRefused(seat, number):
                self._chunk_refused(seat, self.chunks[number])
            case ev.ChunkGathered(number):
                self._chunk_gathered(self.chunks[number])
            case ev.WorkerLost(seat, had_chunk):
                self._worker_lost(seat, had_chunk=had_chunk)
            case ev.SearchSatisfied() | ev.SearchCanceled():
                self._end()
            case ev.TimePassed():
                if self._ask_at is not None and self._now >= self._ask_at:
                    self._ask_at = None
            case _:
                assert_never(event)
        if not self.is_over:
            self._go_on()
        return effects

    def check_invariants(self) -> None:
        """Raises `InvariantError` if the records contradict each other. Linear in everything."""
        insist(claims(self))

    # Workers

    def _workers_recruited(self, workers: tuple[Recruited, ...]) -> None:
        self.is_recruiting = False
        self._is_round_bad = False
        self.recruited += len(workers)
        room = 0 if self.is_over else self.config.max_workers - len(self.members)
        for worker in workers[room:]:
            self._release(worker)
        for worker in workers[:room]:
            self._seats += 1
            seat = Seat(self._seats)
            self.members[seat] = Member(seat, worker, idle_since=self._now)
        self._empty_answers = 0 if self.members else self._empty_answers + 1
        self._short_answers = 0 if len(workers) >= self._asked else self._short_answers + 1
        if self._short_answers:
            self._ask_not_before(self._short_answers)

    def _worker_lost(self, seat: Seat, *, had_chunk: bool) -> None:
        member = self.members.pop(seat, None)
        if member is None:
            return
        self.lost += 1
        self.retried += len(member.chunks)
        for number in sorted(member.chunks, reverse=True):  # so that the first of them stands first in line
            self._do(HangUp(seat, number))
            record = self.chunks[number]
            self._stop_running(record, ChunkTrigger.LOSE)
            record.lost_workers += had_chunk
            self._line_up_again(record)
        self._release(member.worker)
        if not self._is_round_bad:
            self._is_round_bad = True
            self._bad_rounds += 1
            if self._bad_rounds > 1:  # the first time, replacements are asked for at once
                self._ask_not_before(self._bad_rounds - 1)

    def _ask_not_before(self, failures: int) -> None:
        at = self._now + self.config.asking.delay_s(failures, _NO_JITTER)
        self._ask_at = at if self._ask_at is None else max(at, self._ask_at)

    def _release(self, worker: Recruited) -> None:
        self.released += 1
        self._do(ReleaseWorker(worker))

    # Chunks

    def _chunk_finished(self, seat: Seat, record: ChunkRecord, result_bytes: int) -> None:
        if record.seat != seat:
            return  # late: it is another's by now, or done
        self._stop_running(record, ChunkTrigger.FINISH)
        self._leave(seat, record)
        record.result_bytes = result_bytes
        self.held_bytes += result_bytes
        if seat != ROOT:
            self._bad_rounds = 0
        self._do(CommitChunk(record.number))

    def _chunk_refused(self, seat: Seat, record: ChunkRecord) -> None:
        if record.seat != seat:
            return
        self._stop_running(record, ChunkTrigger.REFUSE)
        self._leave(seat, record)
        self.unfinished -= 1

    def _chunk_gathered(self, record: ChunkRecord) -> None:
        record.move(ChunkTrigger.GATHER)
        self.held_bytes -= record.result_bytes
        self.unfinished -= 1

    def _line_up_again(self, record: ChunkRecord) -> None:
        chances = self.config.lost_workers_max - record.lost_workers
        if chances <= 0:
            self._give_up(record)
        elif chances == 1:
            self.suspects.appendleft(record.number)
        else:
            self.line.appendleft(record.number)

    def _give_up(self, record: ChunkRecord) -> None:
        record.move(ChunkTrigger.GIVE_UP)
        self.unfinished -= 1
        self._do(GiveUp(record.number, record.lost_workers))

    def _start_running(self, number: int, seat: Seat) -> None:
        record = self.chunks[number]
        record.move(ChunkTrigger.ASSIGN)
        record.seat = seat
        self.running_bytes += record.size_bytes

    def _stop_running(self, record: ChunkRecord, trigger: ChunkTrigger) -> None:
        record.move(trigger)
        record.seat = None
        self.running_bytes -= record.size_bytes

    def _leave(self, seat: Seat, record: ChunkRecord) -> None:
        """Whoever had the chunk has room for another."""
        if seat == ROOT:
            self.alone.remove(record.number)
            return
        member = self.members[seat]
        member.chunks.remove(record.number)
        member.is_alone_with_suspect = False
        member.idle_since = self._now

    # What follows

    def _go_on(self) -> None:
        self._assign_suspects()
        self._assign()
        self._send_home()
        self._ask()
        self._search_alone()
        self._give_up_suspects()
        if not self.unfinished:
            self._end()

    def _assign_suspects(self) -> None:
        while self._may_give_out(self.suspects):
            member = self._kept_apart()
            if member is None or member.chunks:
                return
            member.is_alone_with_suspect = True
            self._assign_to(member, self.suspects.popleft())

    def _assign(self) -> None:
        apart = self._kept_apart() if self.suspects else None
        while self._may_give_out(self.line):
            ahead = self.config.ahead if len(self.line) > _MANY * len(self.members) else 0
            roomy = (each for each in self.members.values() if each.has_room(ahead) and each is not apart)
            member = min(roomy, key=_least_busy, default=None)
            if member is None:
                return
            self._assign_to(member, self.line.popleft())

    def _kept_apart(self) -> Member | None:
        """Who searches the next suspect, as soon as it has nothing else to do."""
        others = (member for member in self.members.values() if not member.is_alone_with_suspect)
        return min(others, key=_least_busy, default=None)

    def _assign_to(self, member: Member, number: int) -> None:
        self._start_running(number, member.seat)
        member.chunks.add(number)
        self._do(AssignChunk(member.seat, member.worker, number))

    def _may_give_out(self, line: Sequence[int]) -> bool:
        """Whether there is memory for what the first in line may bring. A chunk that is too large has its turn when
        nothing else runs."""
        if not line or self.held_bytes >= self.config.held_bytes:
            return False
        wanted_bytes = self.running_bytes + self.chunks[line[0]].size_bytes
        return not self.running_bytes or wanted_bytes <= self.config.running_bytes

    def _send_home(self) -> None:
        """Those for whom nothing is left, and those who have waited for something for too long."""
        for member in list(self.members.values()):
            if not member.chunks and (not self.waiting or self._now >= member.idle_since + self.config.idle_s):
                del self.members[member.seat]
                self._release(member.worker)

    def _ask(self) -> None:
        """Asks for workers, if there is something for them to do that is worth the question."""
        wanted = min(self.config.max_workers - len(self.members), self.waiting)
        is_due = self._ask_at is None or self._now >= self._ask_at
        if self.is_recruiting or wanted <= 0 or not is_due or not self._is_worth_asking():
            return
        self._ask_at = None
        self.is_recruiting = True
        self._asked = wanted
        self._do(Recruit(wanted))

    def _is_worth_asking(self) -> bool:
        """Not while nothing may be given out. And who was alone when it last asked does the last chunks itself."""
        if not self._may_give_out(self.suspects) and not self._may_give_out(self.line):
            return False
        return not self._empty_answers or bool(self.suspects) or len(self.line) > self.config.alone_at_once

    def _search_alone(self) -> None:
        may_come = self.is_recruiting and not self._empty_answers
        if self.members or may_come:
            return
        while len(self.alone) < self.config.alone_at_once and self._may_give_out(self.line):
            number = self.line.popleft()
            self._start_running(number, ROOT)
            self.alone.add(number)
            self._do(SearchAlone(number))

    def _give_up_suspects(self) -> None:
        """The root does not search them, and nobody else comes."""
        while self.suspects and not self.members and self._empty_answers >= self.config.asks_in_vain_max:
            self._give_up(self.chunks[self.suspects.popleft()])

    def _end(self) -> None:
        self.is_over = True
        for member in self.members.values():
            self._break_off(member.seat, member.chunks)
            self._release(member.worker)
        self._break_off(ROOT, self.alone)
        self.members.clear()
        self.alone.clear()
        self._do(Finish())

    def _break_off(self, seat: Seat, chunks: set[int]) -> None:
        for number in sorted(chunks):
            self._stop_running(self.chunks[number], ChunkTrigger.LOSE)
            self.line.append(number)
            self._do(HangUp(seat, number))

    def _do(self, effect: Effect) -> None:
        self._effects.append(effect)


def _least_busy(member: Member) -> tuple[int, Seat]:
    return len(member.chunks), member.seat

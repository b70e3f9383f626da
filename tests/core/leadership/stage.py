"""Several candidates and one store on a virtual timeline, with a clock of its own for each candidate.

Everything that may go wrong is drawn from a seed: pauses of a process (events wait, its clock runs on), requests that
take long, that never reach the store, whose answers are lost after their effect, crashes, clean releases, writes of
whoever believes to lead. `Stage` insists after each step that the promises hold.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from quarterdeck.core.ids import CandidateId, Fence
from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership import events as ev
from quarterdeck.core.leadership.machine import CandidateMachine
from quarterdeck.core.leadership.model import NOBODY, LeaderRow, LeaseConfig
from quarterdeck.core.leadership.row_rules import row_after

LEASE_S = 10.0
CLOCK_ERROR = 0.1
"""Clocks run up to this much faster or slower than the timeline: all that the lease allows for. Real ones differ by a
thousandth of it."""


class BrokenPromiseError(AssertionError):
    """Two led, or a write of the older one passed, or nobody led for too long."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """How likely each is, and how long it lasts at most. The timeline is calm from `calm_at` on."""

    slow: float = 0.3
    slow_min_s: float = 0.0
    slow_max_s: float = 4.0
    cut_off: float = 0.02
    """A process and the store do not reach each other."""
    cut_off_max_s: float = 30.0
    lost_request: float = 0.1
    lost_reply: float = 0.1
    error: float = 0.1
    pause: float = 0.05
    pause_max_s: float = 30.0
    end: float = 0.01
    calm_at: float = 300.0


STORM = Trouble(
    slow_min_s=2.5,
    slow_max_s=3.5,
    cut_off=0.1,
    cut_off_max_s=20.0,
    lost_request=0.0,
    lost_reply=0.0,
    error=0.0,
    pause=0.01,
    end=0.003,
)
"""Answers come just in time or just too late, and often none for long: what is wrong about times shows here."""


@dataclass
class Process:
    machine: CandidateMachine
    config: LeaseConfig
    rate: float
    offset_s: float
    paused_until: float = 0.0
    cut_off_until: float = 0.0
    inbox: list[ev.Event] = field(default_factory=list[ev.Event])
    gone: bool = False
    wake_number: int = 0

    def clock(self, at: float) -> float:
        return self.offset_s + at * self.rate

    def timeline(self, at: float) -> float:
        return (at - self.offset_s) / self.rate


class Store:
    """The row and the highest fence, each request a transaction of its own."""

    def __init__(self) -> None:
        self.row = NOBODY
        self.highest = Fence(0)
        self.taken_by: CandidateId | None = None

    def rule(self, request: ef.Request, config: LeaseConfig) -> LeaderRow:
        return row_after(request, config, self.row, self.highest)

    def request(self, request: ef.Request, config: LeaseConfig) -> tuple[LeaderRow, bool]:
        row = self.rule(request, config)
        changed, self.row = row != self.row, row
        if changed and isinstance(request, ef.TakeRow):
            self.taken_by = config.candidate
        self.see(row.fence)
        return row, changed

    def see(self, fence: Fence) -> None:
        self.highest = Fence(max(self.highest, fence))

    def write(self, fence: Fence) -> bool:
        """Whether it passes."""
        passes = fence >= self.highest
        self.see(fence)
        return passes


class Stage:
    def __init__(
        self,
        seed: int,
        *,
        trouble: Trouble = Trouble(),
        machine: Callable[[LeaseConfig], CandidateMachine] = CandidateMachine,
        store: Callable[[], Store] = Store,
        candidates: int = 4,
    ) -> None:
        self.chance = random.Random(seed)
        self.trouble = trouble
        self.store = store()
        self.at = 0.0
        self.processes: list[Process] = []
        self.gains = 0
        self.written = 0
        self.refused = 0
        self._make = machine
        self._order = 0
        self._timeline: list[tuple[float, int, Callable[[], None]]] = []
        self._leaderless_since = 0.0
        for _ in range(candidates):
            self.start()

    def play(self, until: float) -> None:
        """Everything that happens until then."""
        while self._timeline and self._timeline[0][0] <= until:
            self.at, _, act = heapq.heappop(self._timeline)
            act()
            self._insist_one_leads()

    def leaders(self) -> list[Process]:
        """Whoever would act as leader now. A process that stands still acts on nothing, but believes on."""
        return [one for one in self.processes if not one.gone and one.machine.fence_at(one.clock(self.at)) is not None]

    def start(self) -> Process:
        number = len(self.processes) + 1
        config = LeaseConfig(CandidateId(f"candidate-{number}"), f"c{number}", LEASE_S)
        drift = self.chance.uniform(-CLOCK_ERROR, CLOCK_ERROR)
        process = Process(self._make(config), config, 1 + drift, self.chance.uniform(0, 1e6))
        self.processes.append(process)
        self._later(self.chance.uniform(0, 2), lambda: self._tell(process, ev.TimePassed()))
        self._later(self.chance.uniform(0, 1), lambda: self._write(process))
        return process

    # What happens to a process

    def _tell(self, process: Process, event: ev.Event) -> None:
        if process.gone:
            return
        if self.at < process.paused_until:
            process.inbox.append(event)
            return
        if self._is(self.trouble.pause):
            self._pause(process)
            process.inbox.append(event)
            return
        for effect in process.machine.step(event, process.clock(self.at)):
            self._execute(process, effect)
        process.machine.check_invariants()
        self._arm(process)
        if self._is(self.trouble.end):
            self._end(process)

    def _pause(self, process: Process) -> None:
        process.paused_until = self.at + self.chance.uniform(0, self.trouble.pause_max_s)
        self._later(process.paused_until - self.at, lambda: self._resume(process))

    def _resume(self, process: Process) -> None:
        inbox, process.inbox = process.inbox, []
        self.chance.shuffle(inbox)
        for event in inbox:
            self._tell(process, event)

    def _end(self, process: Process) -> None:
        """By a crash or in order; another start takes its place."""
        if self.chance.random() < 0.5:
            process.gone = True
        else:
            self._tell(process, ev.ReleaseAsked())
        self._later(self.chance.uniform(0, 5), self._start_another)

    def _start_another(self) -> None:
        self.start()

    def _arm(self, process: Process) -> None:
        deadline = process.machine.next_deadline()
        process.wake_number += 1
        number = process.wake_number
        if deadline is not None:
            delay_s = max(0.0, process.timeline(deadline) - self.at) + 0.001
            self._later(delay_s, lambda: self._wake(process, number))

    def _wake(self, process: Process, number: int) -> None:
        if number == process.wake_number:
            self._tell(process, ev.TimePassed())

    def _execute(self, process: Process, effect: ef.Effect) -> None:
        match effect:
            case ef.ReadRow() | ef.TakeRow() | ef.RaiseBeat() | ef.ReleaseRow():
                self._send(process, effect)
            case ef.BeginLeading():
                self.gains += 1
            case ef.EndLeading():
                pass
            case ef.FinishCandidacy():
                process.gone = True

    # What happens to a request

    def _send(self, process: Process, request: ef.Request) -> None:
        if self._is(self.trouble.cut_off):
            process.cut_off_until = self.at + self.chance.uniform(0, self.trouble.cut_off_max_s)
        if self._is(self.trouble.error):
            self._later(self._trip(), lambda: self._tell(process, ev.RequestFailed(request.number)))
        elif self.at >= process.cut_off_until and not self._is(self.trouble.lost_request):
            self._later(self._trip(), lambda: self._arrive(process, request))

    def _arrive(self, process: Process, request: ef.Request) -> None:
        """Also when its process is gone: a transaction that was begun comes to its end."""
        row, changed = self.store.request(request, process.config)
        if self.at >= process.cut_off_until and not self._is(self.trouble.lost_reply):
            self._later(self._trip(), lambda: self._tell(process, ev.RowAnswered(request.number, row, changed)))

    def _trip(self) -> float:
        if self._is(self.trouble.slow):
            return self.chance.uniform(self.trouble.slow_min_s, self.trouble.slow_max_s)
        return self.chance.uniform(0, 0.05)

    # What leaders do

    def _write(self, process: Process) -> None:
        """A leader writes now and then; what it decided may come to the store much later."""
        if process.gone:
            return
        fence = process.machine.fence_at(process.clock(self.at))
        if fence is not None and self.at >= process.paused_until:
            self._later(self._trip(), lambda: self._write_arrives(process, fence))
        self._later(self.chance.uniform(0.1, 2), lambda: self._write(process))

    def _write_arrives(self, process: Process, fence: Fence) -> None:
        if not self.store.write(fence):
            self.refused += 1
            self._tell(process, ev.HigherFenceSeen(self.store.highest))
            return
        self.written += 1
        if self.store.taken_by != process.config.candidate:
            raise BrokenPromiseError(f"a write of {process.config.candidate} passed after {self.store.taken_by}'s turn")

    # The promises

    def _insist_one_leads(self) -> None:
        leaders = self.leaders()
        if len(leaders) > 1:
            raise BrokenPromiseError(f"{[one.config.name for one in leaders]} lead at {self.at}")
        if leaders or self.at < self.trouble.calm_at + self.trouble.pause_max_s + self.trouble.cut_off_max_s:
            self._leaderless_since = self.at
        elif self.at - self._leaderless_since > REGAINED_WITHIN_S:
            raise BrokenPromiseError(f"nobody leads since {self._leaderless_since}")

    def _is(self, probability: float) -> bool:
        return self.at < self.trouble.calm_at and self.chance.random() < probability

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._timeline, (self.at + delay_s, self._order, act))


REGAINED_WITHIN_S = LEASE_S * (0.2 * 2 + 1) * (1 + 2 * CLOCK_ERROR)
"""Two looks and one lease, by the slowest clock."""

"""Coordinators and workers as pure machines, joined by first-in first-out channels in memory.

A session has a channel in each direction. What was sent waits there until a test delivers it; a session that is cut
loses what is still under way, and each side learns of it in its own time. Executions and fetches end when a test says.
"""

from collections import deque
from dataclasses import dataclass, field

from quarterdeck.core.ids import CoordinatorId, QueryId, SessionId
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.messages import (
    AssignWork,
    CoordinatorMessage,
    Refused,
    Register,
    Registered,
    WorkerMessage,
    WorkRejected,
)
from quarterdeck.core.workcoord.model import AttemptId, WorkError, WorkKey
from quarterdeck.core.workcoord.peer import LossReason
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.core.workcoord.worker import effects as we
from quarterdeck.core.workcoord.worker import events as wv
from tests.core.workcoord.harness import ARTIFACT, info

END = None
"""What a channel delivers last, when the session is over."""


@dataclass(eq=False)
class Line:
    """One session. The worker's registration goes ahead of everything."""

    session_id: SessionId
    coordinator: "Shore"
    worker: "Ship"
    to_coordinator: deque[WorkerMessage | Register | None] = field(
        default_factory=deque["WorkerMessage | Register | None"]
    )
    to_worker: deque[CoordinatorMessage | Registered | Refused | None] = field(
        default_factory=deque["CoordinatorMessage | Registered | Refused | None"]
    )
    opened: bool = False
    """Whether the worker has got the answer to its registration."""
    closed_by: set[str] = field(default_factory=set[str])

    def cut(self) -> None:
        """The connection breaks: nothing that is under way arrives, and both sides will notice."""
        for channel, side in ((self.to_coordinator, "worker"), (self.to_worker, "coordinator")):
            self.closed_by.add(side)
            channel.clear()
            channel.append(END)


@dataclass(eq=False)
class Shore:
    """A coordinator and what surrounds it."""

    name: str
    machine: CoordinatorMachine
    fetches: dict[AttemptId, bool] = field(default_factory=dict[AttemptId, bool])
    """Under way; True for those that were canceled, which may still come through."""
    delivered: set[WorkKey] = field(default_factory=set[WorkKey])
    open_queries: set[QueryId] = field(default_factory=set[QueryId])
    ended: dict[QueryId, ce.Outcome] = field(default_factory=dict[QueryId, ce.Outcome])


@dataclass(eq=False)
class Ship:
    """A worker and what surrounds it."""

    name: str
    machine: WorkerMachine
    incarnation: int = 1
    executions: dict[AttemptId, bool] = field(default_factory=dict[AttemptId, bool])
    """Running; True for those that were told to stop."""
    not_clear: set[SessionId] = field(default_factory=set[SessionId])
    """Sessions that are not cleared: no new one with the same coordinator meanwhile."""
    gone: bool = False


class Crew:
    """Everything there is, and one clock."""

    def __init__(self, coordinators: int, workers: int) -> None:
        self.now = 1000.0
        self.lines: dict[SessionId, Line] = {}
        self._sessions = 0
        self.shores = [self._shore(n) for n in range(coordinators)]
        self.ships = [self._ship(f"w{n}", 1) for n in range(workers)]

    @staticmethod
    def _shore(number: int) -> Shore:
        return Shore(f"c{number}", CoordinatorMachine(CoordinatorConfig(CoordinatorId(f"c{number}"))))

    @staticmethod
    def _ship(name: str, incarnation: int) -> Ship:
        worker = info(name, incarnation=incarnation, slots=2, queue_places=2)
        config = WorkerConfig(worker, artifact_ttl_s=20, artifact_linger_s=3, drain_max_s=20)
        return Ship(name, WorkerMachine(config), incarnation)

    # Steps

    def tell(self, shore: Shore, event: cv.Event) -> None:
        effects = shore.machine.step(event, self.now)
        shore.machine.check_invariants()
        assert shore.machine.counters["protocol_errors"] == 0, effects
        for effect in effects:
            self._do_on_shore(shore, effect)

    def order(self, ship: Ship, event: wv.Event) -> None:
        was_draining = ship.machine.status.draining
        effects = ship.machine.step(event, self.now)
        ship.machine.check_invariants()
        assert ship.machine.counters["protocol_errors"] == 0, effects
        if was_draining and isinstance(event, wv.MessageReceived) and isinstance(event.message, AssignWork):
            (answer,) = effects
            assert isinstance(answer, we.SendToCoordinator)
            assert isinstance(answer.message, WorkRejected)
        for effect in effects:
            self._do_on_ship(ship, effect)

    def _do_on_shore(self, shore: Shore, effect: ce.Effect) -> None:
        match effect:
            case ce.SendToWorker(session_id, message):
                line = self.lines[session_id]
                if "coordinator" not in line.closed_by:
                    line.to_worker.append(message)
            case ce.CloseSession(session_id):
                self._close(self.lines[session_id], "coordinator")
            case ce.FetchArtifact(attempt):
                assert attempt not in shore.fetches or shore.fetches[attempt]
                shore.fetches[attempt] = False
            case ce.CancelFetch(attempt):
                shore.fetches[attempt] = True
            case ce.DeliverResult(attempt) | ce.DeliverEnd(attempt):
                assert attempt.key not in shore.delivered
                assert attempt.key.query_id not in shore.ended
                shore.delivered.add(attempt.key)
            case ce.EndQuery(query_id, outcome):
                assert query_id not in shore.ended
                shore.ended[query_id] = outcome
                shore.open_queries.discard(query_id)
            case _:
                pass

    def _do_on_ship(self, ship: Ship, effect: we.Effect) -> None:
        match effect:
            case we.SendToCoordinator(session_id, message):
                line = self.lines[session_id]
                if "worker" not in line.closed_by:
                    line.to_coordinator.append(message)
            case we.CloseSession(session_id):
                self._close(self.lines[session_id], "worker")
            case we.ClearSession(session_id):
                ship.not_clear.remove(session_id)
            case we.StartExecution(attempt):
                assert attempt not in ship.executions
                ship.executions[attempt] = False
            case we.StopExecution(attempt):
                assert ship.executions[attempt] is False
                ship.executions[attempt] = True
            case we.FinishDrain():
                ship.gone = True
            case we.ReleaseResult() | we.DropResult():
                pass

    def _close(self, line: Line, side: str) -> None:
        """One side closes: what it sent before still arrives, what comes to it does not."""
        if side in line.closed_by:
            return
        line.closed_by.add(side)
        if side == "coordinator":
            line.to_worker.append(END)
            line.to_coordinator.clear()
        else:
            line.to_coordinator.append(END)
            line.to_worker.clear()

    # The network

    def may_connect(self, ship: Ship, shore: Shore) -> bool:
        busy = any(self.lines[s].coordinator is shore for s in ship.not_clear)
        return not busy and not ship.gone

    def connect(self, ship: Ship, shore: Shore) -> Line:
        """A worker registers; its first words are on the way."""
        self._sessions += 1
        line = Line(SessionId(f"s{self._sessions}"), shore, ship)
        self.lines[line.session_id] = line
        ship.not_clear.add(line.session_id)
        line.to_coordinator.append(ship.machine.registration())
        return line

    def deliver_to_coordinator(self, line: Line) -> None:
        message = line.to_coordinator.popleft()
        if isinstance(message, Register):
            self.tell(line.coordinator, cv.SessionOpened(line.session_id, message))
        elif message is None:  # END
            self.tell(
                line.coordinator, cv.SessionLost(line.session_id, LossReason.CONNECTION_LOST, "the connection broke")
            )
        else:
            self.tell(line.coordinator, cv.MessageReceived(line.session_id, message))

    def deliver_to_worker(self, line: Line) -> None:
        message = line.to_worker.popleft()
        if line.worker.gone:
            return
        if isinstance(message, Registered):
            line.opened = True
            self.order(line.worker, wv.SessionOpened(message))
        elif message is None or isinstance(message, Refused):  # END, or as good as that
            if line.opened:
                self.order(line.worker, wv.SessionLost(line.session_id, LossReason.CONNECTION_LOST))
            else:
                line.worker.not_clear.discard(line.session_id)
        else:
            self.order(line.worker, wv.MessageReceived(line.session_id, message))

    def deliver_all(self) -> None:
        for _ in range(100_000):
            moved = False
            for line in list(self.lines.values()):
                if line.to_coordinator:
                    self.deliver_to_coordinator(line)
                    moved = True
                if line.to_worker:
                    self.deliver_to_worker(line)
                    moved = True
                if not line.to_coordinator and not line.to_worker and len(line.closed_by) == 2:
                    self._forget(line)
            if not moved:
                return
        raise AssertionError("the channels never become empty")

    def _forget(self, line: Line) -> None:
        if line.session_id not in line.worker.not_clear or line.worker.gone:
            del self.lines[line.session_id]

    # Executions and fetches

    def execution_ends(self, ship: Ship, attempt: AttemptId, how: str) -> None:
        told_to_stop = ship.executions.pop(attempt)
        spec = next(each.spec for each in ship.machine.attempts() if each.attempt_id == attempt)
        if how == "succeed" and spec.leaves_nothing:
            self.order(ship, wv.ExecutionEnded(attempt))
        elif how == "succeed":
            self.order(ship, wv.ExecutionSucceeded(attempt, ARTIFACT))
        elif how == "stop" and told_to_stop:
            self.order(ship, wv.ExecutionStopped(attempt))
        else:
            error = WorkError("unavailable", "out of luck", retryable=how != "fail for good")
            self.order(ship, wv.ExecutionFailed(attempt, error))

    def fetch_ends(self, shore: Shore, attempt: AttemptId, *, well: bool) -> None:
        shore.fetches.pop(attempt)
        if well:
            self.tell(shore, cv.FetchSucceeded(attempt))
        else:
            self.tell(shore, cv.FetchFailed(attempt, WorkError("unavailable", "the fetch broke off")))

    # Time

    def next_deadline(self) -> float | None:
        deadlines = [shore.machine.next_deadline() for shore in self.shores]
        deadlines += [ship.machine.next_deadline() for ship in self.ships if not ship.gone]
        return min((at for at in deadlines if at is not None), default=None)

    def advance(self, seconds: float, *, delivering: bool) -> None:
        end = self.now + seconds
        for _ in range(100_000):
            if delivering:
                self.deliver_all()
            at = self.next_deadline()
            if at is None or at > end:
                self.now = end
                return
            self.now = max(self.now, at)
            self.wake()
        raise AssertionError(f"the timers never come to rest at {self.now!r}")

    def wake(self) -> None:
        """Handles one due timer of each machine that has one."""
        for shore in self.shores:
            at = shore.machine.next_deadline()
            if at is not None and at <= self.now:
                self.tell(shore, cv.TimePassed())
        for ship in self.ships:
            at = ship.machine.next_deadline()
            if at is not None and at <= self.now and not ship.gone:
                self.order(ship, wv.TimePassed())

    # Processes

    def restart(self, place: int) -> None:
        """A worker process dies and another with its name starts."""
        ship = self.ships[place]
        ship.gone = True
        for line in self.lines.values():
            if line.worker is ship and "worker" not in line.closed_by:
                line.closed_by.add("worker")
                line.to_coordinator.append(END)
        ship.not_clear.clear()
        self.ships[place] = self._ship(ship.name, ship.incarnation + 1)

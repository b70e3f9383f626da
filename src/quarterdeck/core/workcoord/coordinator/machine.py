"""The coordinator's machine: events in, effects out. The one owner of its records; it knows no clock and no socket.

Rules it keeps, whatever peers do:

- a work's result is delivered at most once, and a submitted work ends, or belongs to a query that has ended;
- a work has at most one attempt on workers believed alive, apart from attempts that were told to stop;
- a worker is never given more attempts than the credit it granted;
- a peer that breaks the protocol is counted and loses its session; nobody else is touched.

The parts: the roster knows the workers, the ledger the works, the dispatcher brings the two together.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from quarterdeck.core.ids import CoordinatorId, SessionId
from quarterdeck.core.invariants import insist
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.coordinator.desk import Desk
from quarterdeck.core.workcoord.coordinator.effects import CloseReason, Effect
from quarterdeck.core.workcoord.coordinator.invariants import claims
from quarterdeck.core.workcoord.coordinator.ledger import Ledger
from quarterdeck.core.workcoord.coordinator.records import Loss, Session
from quarterdeck.core.workcoord.coordinator.roster import Roster
from quarterdeck.core.workcoord.coordinator.timers import (
    BacklogTimer,
    RecallTimer,
    SpillTimer,
    ThrottleTimer,
    WaitTimer,
)
from quarterdeck.core.workcoord.liveness import SessionTimer
from quarterdeck.core.workcoord.messages import (
    ArtifactLost,
    BeatEcho,
    CreditChanged,
    DiskReported,
    DrainRequest,
    Goodbye,
    Registered,
    Throttled,
    WorkAccepted,
    WorkCanceled,
    WorkEnded,
    WorkerBeat,
    WorkerMessage,
    WorkFailed,
    WorkProgressed,
    WorkReady,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import LivenessPolicy
from quarterdeck.core.workcoord.peer import LossReason, PeerError


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """How a coordinator's machine behaves."""

    coordinator_id: CoordinatorId
    liveness: LivenessPolicy = field(default_factory=LivenessPolicy)
    spill_after_s: float = 0.1
    """How long a work waits for the worker whose cache is warm, or on it for what runs there, while another is idle.
    Longer reads less data twice; shorter lets idle workers help sooner."""
    max_failures: int = 4
    """How often a work may fail, or lose its worker, before its query fails. Higher rides out more trouble, and lets a
    poisonous work take down more workers. Rejections and returns are nobody's failure and do not count."""

    def __post_init__(self) -> None:
        if self.max_failures < 1:
            raise ValueError(f"max_failures is {self.max_failures}, it must be at least 1")


class CoordinatorMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self.config = config
        self._desk = Desk()
        self._shut_down: str | None = None
        self.ledger = Ledger(self._desk, config.spill_after_s, config.max_failures)
        self.roster = Roster(self._desk, self.ledger, config.liveness)

    @property
    def counters(self) -> Counter[str]:
        """What was counted since the machine was made."""
        return self._desk.counters

    @property
    def moves(self) -> Counter[tuple[StrEnum, StrEnum]]:
        """How often each entry of the tables was used."""
        return self._desk.moves

    @property
    def pending(self) -> int:
        """How many works wait for a worker."""
        return self.ledger.dispatch.pending

    def next_deadline(self) -> float | None:
        """When to send `TimePassed`, one for each time named; None when only events matter."""
        return self._desk.deadlines.next_at()

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it. A clock that went backwards counts as one that stands still."""
        desk = self._desk
        desk.now = max(desk.now, now)
        effects: list[Effect] = []
        desk.effects = effects
        match event:
            case ev.MessageReceived(session_id, message):
                self._message_received(session_id, message)
            case ev.FetchSucceeded(attempt):
                self.ledger.fetch_succeeded(attempt)
            case ev.FetchFailed(attempt, error):
                self.ledger.fetch_failed(attempt, error)
            case ev.WorkSubmitted(spec):
                self.ledger.submit(spec)
            case ev.TimePassed():
                self._time_passed()
            case ev.QueryOpened(query_id, wait_limit_s):
                self.ledger.open_query(query_id, wait_limit_s)
                if self._shut_down is not None:
                    self.ledger.abandon_query(query_id, f"the coordinator is shutting down: {self._shut_down}")
            case ev.QuerySealed(query_id):
                self.ledger.seal(query_id)
            case ev.QueryCancelRequested(query_id, reason):
                self.ledger.cancel_query(query_id, reason)
            case ev.WorkCancelRequested(key):
                self.ledger.cancel_work(key)
            case ev.SessionOpened():
                self._session_opened(event)
            case ev.SessionLost(session_id, reason, detail):
                if reason is LossReason.PROTOCOL:
                    self.counters["protocol_errors"] += 1
                session = self.roster.session(session_id)
                if session is not None:
                    self.roster.lose(session, detail, Loss.CUT)
            case ev.DrainRequested(worker_id):
                session = self.roster.of_worker(worker_id)
                if session is not None:
                    desk.send(session, DrainRequest())
            case ev.ShutdownRequested(reason):
                self._shutdown_requested(reason)
            case _:
                assert_never(event)
        return effects

    def check_invariants(self) -> None:
        """Raises `InvariantError` if the records contradict each other. Linear in everything."""
        insist(claims(self.ledger, self.roster))

    def _session_opened(self, event: ev.SessionOpened) -> None:
        if self._shut_down is not None:
            self.roster.refuse(event.session_id, f"this coordinator is shutting down: {self._shut_down}")
            return
        config = self.config
        welcome = Registered(event.session_id, config.coordinator_id, config.liveness)
        self.roster.open(event.session_id, event.register, welcome)

    def _message_received(self, session_id: SessionId, message: WorkerMessage) -> None:
        session = self.roster.session(session_id)
        if session is None:
            self.counters["messages_of_old_sessions"] += 1
            return
        try:
            was_late = self.roster.heard(session)
            self._take(session, message)
            if was_late:  # only now: it may have said that it takes no more work
                self.roster.back(session)
        except PeerError as error:
            self.counters["protocol_errors"] += 1
            self.roster.break_off(session, CloseReason.PROTOCOL, str(error))

    def _take(self, session: Session, message: WorkerMessage) -> None:
        match message:
            case WorkerBeat(status):
                self.roster.beat(session, status)
            case BeatEcho(sent_at):
                self.roster.echo(session, sent_at)
            case DiskReported(use):
                session.disk = use
            case WorkAccepted(attempt):
                self.ledger.accepted(session, attempt)
            case WorkReady(attempt, artifact):
                self.ledger.ready(session, attempt, artifact)
            case WorkProgressed(attempt, fraction):
                self.ledger.progressed(session, attempt, fraction)
            case WorkEnded(attempt):
                self.ledger.ended(session, attempt)
            case WorkFailed(attempt, error):
                self.ledger.failed(session, attempt, error)
            case WorkRejected(attempt, reason):
                self.roster.reject(session, attempt, reason)
            case WorkReturned(attempt):
                self.ledger.returned(session, attempt)
            case WorkCanceled(attempt):
                self.ledger.canceled(session, attempt)
            case ArtifactLost(attempt, reason):
                self.ledger.artifact_lost(session, attempt, reason)
            case CreditChanged(credit):
                self.roster.credit(session, credit)
            case Throttled(for_s):
                self.roster.throttle(session, for_s)
            case Goodbye(reason):
                self.roster.break_off(session, CloseReason.GOODBYE, reason)
            case _:
                assert_never(message)

    def _time_passed(self) -> None:
        """Handles one due timer; more may be due, and `next_deadline` says so."""
        due = self._desk.deadlines.pop_due(self._desk.now)
        if due is None:
            return
        timer, at = due
        if self._desk.now - at > self.config.liveness.interval_s:
            self.counters["own_pauses"] += 1
            self.roster.own_pause()
            if isinstance(timer, WaitTimer):
                # Whoever it waits for may have come while we did not run, and stand in the queue of events.
                self._desk.deadlines.set(timer, self._desk.now + self.config.liveness.lost_after_s)
                return
        match timer:
            case SessionTimer(session_id):
                self.roster.session_timer(session_id)
            case ThrottleTimer(session_id):
                self.roster.throttle_timer(session_id)
            case SpillTimer(key):
                self.ledger.dispatch.spill(key)
            case RecallTimer(key):
                self.ledger.dispatch.recall(key)
            case BacklogTimer(key):
                self.ledger.dispatch.place_backlog(key)
            case WaitTimer(key, query_id):
                self.ledger.wait_ended(key, query_id, self.roster.describe())
            case _:
                assert_never(timer)

    def _shutdown_requested(self, reason: str) -> None:
        """Queries are canceled, workers are told goodbye."""
        self._shut_down = reason
        why = f"the coordinator is shutting down: {reason}"
        for query in list(self.ledger.queries()):
            self.ledger.abandon_query(query.query_id, why)
        for session in list(self.roster.sessions()):
            self._desk.send(session, Goodbye(reason))
            self.roster.break_off(session, CloseReason.GOODBYE, reason)

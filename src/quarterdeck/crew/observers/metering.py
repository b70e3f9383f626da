"""From what the machines did to what is measured. Both meters are observers: they see every step and change nothing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from quarterdeck.core.ids import QueryId, SessionId, WorkerId
from quarterdeck.core.workcoord import messages as m
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as cef
from quarterdeck.core.workcoord.coordinator import events as cev
from quarterdeck.core.workcoord.coordinator.records import Query
from quarterdeck.core.workcoord.coordinator.tables import WorkerState, WorkState
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import AttemptId
from quarterdeck.core.workcoord.worker import WorkerMachine
from quarterdeck.core.workcoord.worker import effects as wef
from quarterdeck.core.workcoord.worker import events as wev
from quarterdeck.crew.ports import Clock
from quarterdeck.telemetry.metrics import (
    CoordinatorMetrics,
    DisconnectReason,
    Exemplar,
    RemovalReason,
    WorkerMetrics,
    error_code,
    exemplar,
)

_PEERS_KEPT: Final = 10_000
"""Of so many peers that are away it is remembered when they left."""


def _of(attempt: AttemptId) -> Exemplar:
    return exemplar(attempt.key.query_id, attempt.key.work_id)


class Absences:
    """Who is here and who is away, to tell how long it took until somebody was back."""

    def __init__(self) -> None:
        self._here: Counter[str] = Counter()
        """How many sessions with each: a new one may begin before the end of the old one is noticed."""
        self._left_at: dict[str, float] = {}

    def came(self, peer: str, now: float) -> float | None:
        """How long it was away; None for one that was not here before, or never left."""
        self._here[peer] += 1
        left_at = self._left_at.pop(peer, None)
        return None if left_at is None else now - left_at

    def left(self, peer: str, now: float) -> None:
        self._here[peer] -= 1
        if self._here[peer]:
            return
        del self._here[peer]
        if len(self._left_at) >= _PEERS_KEPT:
            del self._left_at[next(iter(self._left_at))]
        self._left_at[peer] = now


@dataclass(slots=True)
class _Session:
    worker_id: WorkerId
    unanswered: set[AttemptId] = field(default_factory=set[AttemptId])
    """Assignments of which the worker has not said whether it takes them."""


class CoordinatorMeter:
    def __init__(self, metrics: CoordinatorMetrics, machine: CoordinatorMachine, clock: Clock) -> None:
        self._metrics = metrics
        self._machine = machine
        self._clock = clock
        self._now = 0.0
        self._sessions: dict[SessionId, _Session] = {}
        self._peers = Absences()
        self._asked_at: dict[QueryId, float] = {}
        self._waiting: set[QueryId] = set()
        """Queries that have had no result yet."""
        self._fetching_since: dict[AttemptId, float] = {}

    def stepped(self, event: cev.Event, effects: list[cef.Effect]) -> None:
        now = self._now = max(self._now, self._clock.now())
        match event:
            case cev.MessageReceived(session_id, message):
                self._heard(session_id, message)
            case cev.FetchSucceeded(attempt):
                self._fetched(attempt, cef.Outcome.SUCCEEDED, now)
            case cev.FetchFailed(attempt):
                self._fetched(attempt, cef.Outcome.FAILED, now)
            case cev.QueryOpened(query_id):
                self._asked_at[query_id] = now
                self._waiting.add(query_id)
            case cev.SessionOpened(session_id, register):
                self._opened(session_id, register.worker.worker_id, now)
            case cev.SessionLost(session_id, reason):
                self._closed(session_id, DisconnectReason(reason.value), now)
            case _:
                pass
        for effect in effects:
            self._done(effect, now)

    def _heard(self, session_id: SessionId, message: m.WorkerMessage) -> None:
        """An answer counts once, for an assignment that was given on a session which still lasts."""
        match message:
            case m.WorkAccepted(attempt) if self._is_answer(session_id, attempt):
                self._metrics.scheduling.accepted.inc(1, _of(attempt))
            case m.WorkRejected(attempt, reason) if self._is_answer(session_id, attempt):
                self._metrics.scheduling.rejected[reason].inc(1, _of(attempt))
            case _:
                pass

    def _is_answer(self, session_id: SessionId, attempt: AttemptId) -> bool:
        session = self._sessions.get(session_id)
        if session is None or attempt not in session.unanswered:
            return False
        session.unanswered.remove(attempt)
        return True

    def _done(self, effect: cef.Effect, now: float) -> None:
        match effect:
            case cef.SendToWorker(session_id, m.AssignWork() as assignment):
                self._assigned(session_id, assignment, now)
            case cef.FetchArtifact(attempt):
                self._fetching_since[attempt] = now
            case cef.CancelFetch(attempt):
                self._fetched(attempt, cef.Outcome.CANCELED, now)
            case cef.DeliverResult(attempt) | cef.DeliverEnd(attempt):
                self._delivered(attempt, now)
            case cef.EndQuery():
                self._ended(effect, now)
            case cef.ReportReassignment(attempt, reason):
                self._metrics.scheduling.reassigned[reason].inc(1, _of(attempt))
            case cef.CloseSession(session_id, reason):
                self._closed(session_id, DisconnectReason(reason.value), now)
            case cef.ReportRoundTrip(_, round_trip_s):
                self._metrics.control.heartbeat_rtt.observe(round_trip_s)
            case _:
                pass

    def _assigned(self, session_id: SessionId, assignment: m.AssignWork, now: float) -> None:
        session = self._sessions.get(session_id)
        if session is not None:  # else the session ended in this very step
            session.unanswered.add(assignment.attempt)
        key = assignment.spec.key
        query = self._machine.ledger.query(key.query_id)
        work = None if query is None else query.works.get(key)
        # A query that is gone ended later in this step: the loss of a worker gave the work to another, and another work
        # failed for good. So this one had not waited at all.
        waited_s = 0.0 if work is None else now - work.since
        self._metrics.scheduling.assignment.observe(max(0.0, waited_s), _of(assignment.attempt))

    def fetch_began(self, attempt: AttemptId) -> None:
        """The fetcher's word that a fetch has its place and asks for the first byte."""
        since = self._fetching_since.get(attempt)
        if since is not None:
            self._metrics.fetching.ready_to_fetch.observe(max(0.0, self._clock.now() - since), _of(attempt))

    def _fetched(self, attempt: AttemptId, outcome: cef.Outcome, now: float) -> None:
        since = self._fetching_since.pop(attempt, None)
        if since is not None:
            self._metrics.fetching.fetch[outcome].observe(max(0.0, now - since), _of(attempt))

    def _delivered(self, attempt: AttemptId, now: float) -> None:
        query_id = attempt.key.query_id
        if query_id in self._waiting:
            self._waiting.discard(query_id)
            self._metrics.queries.first_result.observe(now - self._asked_at[query_id], exemplar(query_id))

    def _ended(self, effect: cef.EndQuery, now: float) -> None:
        query_id = effect.query_id
        self._waiting.discard(query_id)
        asked_at = self._asked_at.pop(query_id, now)
        self._metrics.queries.latency[effect.outcome].observe(now - asked_at, exemplar(query_id))
        if effect.error is not None:
            self._metrics.queries.errors[error_code(effect.error.code)].inc(1, exemplar(query_id))

    def _opened(self, session_id: SessionId, worker_id: WorkerId, now: float) -> None:
        if self._machine.roster.session(session_id) is None:
            return  # refused
        self._sessions[session_id] = _Session(worker_id)
        away_s = self._peers.came(worker_id, now)
        if away_s is not None:
            self._metrics.control.reconnect.observe(away_s)

    def _closed(self, session_id: SessionId, reason: DisconnectReason, now: float) -> None:
        """The first word on a session's end counts: we close it, or it breaks, and then the other follows."""
        session = self._sessions.pop(session_id, None)
        if session is None and reason is not DisconnectReason.REFUSED:
            return
        self._metrics.control.disconnects[reason].inc()
        if session is not None:
            self._peers.left(session.worker_id, now)

    def works_by_state(self) -> Counter[WorkState]:
        """Of all open queries. Linear in their works: for a scrape."""
        return Counter(work.state for query in self._machine.ledger.queries() for work in query.works.values())

    def workers_by_state(self) -> Counter[WorkerState]:
        return Counter(session.state for session in self._machine.roster.sessions())


def oldest_wait_s(queries: Iterable[Query], now: float) -> float:
    """How long the work that waits longest has waited; 0 when none does. Linear in the number of queries.

    By the clock and not by the machine's last step: with no worker there it may take none for long.
    """
    since = min((each for query in queries if (each := query.oldest_since) is not None), default=now)
    return max(0.0, now - since)


class WorkerMeter:
    def __init__(self, metrics: WorkerMetrics, machine: WorkerMachine, clock: Clock) -> None:
        self._metrics = metrics
        self._machine = machine
        self._clock = clock
        self._now = 0.0
        self._waiting_since: dict[AttemptId, float] = {}
        """Of attempts that wait for a place."""
        self._running: dict[AttemptId, tuple[WorkKind, float]] = {}
        self._stopping: dict[AttemptId, float] = {}
        self._sessions: dict[SessionId, str] = {}
        self._peers = Absences()

    def stepped(self, event: wev.Event, effects: list[wef.Effect]) -> None:
        now = self._now = max(self._now, self._clock.now())
        match event:
            case wev.MessageReceived(_, m.AssignWork() as assignment):
                self._waiting_since[assignment.attempt] = now
            case wev.ExecutionSucceeded(attempt):
                self._ran(attempt, cef.Outcome.SUCCEEDED, now)
            case wev.ExecutionEnded(attempt):
                self._ran(attempt, cef.Outcome.SUCCEEDED, now)
            case wev.ExecutionFailed(attempt):
                self._ran(attempt, cef.Outcome.FAILED, now)
            case wev.ExecutionStopped(attempt):
                self._ran(attempt, cef.Outcome.CANCELED, now)
            case wev.SessionOpened(registered):
                self._opened(registered, now)
            case wev.SessionLost(session_id, reason):
                self._closed(session_id, DisconnectReason(reason.value), now)
            case _:
                pass
        for effect in effects:
            self._done(effect, now)
        if len(self._waiting_since) > self._machine.queued:
            self._forget_orphans()

    def _done(self, effect: wef.Effect, now: float) -> None:
        match effect:
            case wef.StartExecution(attempt, spec):
                self._running[attempt] = (spec.kind, now)
                waited_s = now - self._waiting_since.pop(attempt)
                self._metrics.execution.task_wait.observe(waited_s, _of(attempt))
            case wef.StopExecution(attempt):
                self._stopping[attempt] = now
            case wef.DropResult(attempt, reason):
                self._metrics.artifacts.removed[RemovalReason(reason.value)].inc(1, _of(attempt))
            case wef.CloseSession(session_id, reason):
                self._closed(session_id, DisconnectReason(reason.value), now)
            case _:
                pass

    def _ran(self, attempt: AttemptId, outcome: cef.Outcome, now: float) -> None:
        kind, since = self._running.pop(attempt)
        stopped_at = self._stopping.pop(attempt, None)
        if stopped_at is not None:
            outcome = cef.Outcome.CANCELED
            self._metrics.execution.cancel.observe(now - stopped_at, _of(attempt))
        self._metrics.execution.task_runtime[kind, outcome].observe(now - since, _of(attempt))

    def _forget_orphans(self) -> None:
        """What waited for a place and no longer does was rejected, returned, canceled, or lost its session; nobody is
        told of the last."""
        there = {attempt.attempt_id for attempt in self._machine.attempts()}
        for attempt in [attempt for attempt in self._waiting_since if attempt not in there]:
            del self._waiting_since[attempt]

    def _opened(self, registered: m.Registered, now: float) -> None:
        self._sessions[registered.session_id] = registered.coordinator_id
        away_s = self._peers.came(registered.coordinator_id, now)
        if away_s is not None:
            self._metrics.control.reconnect.observe(away_s)

    def _closed(self, session_id: SessionId, reason: DisconnectReason, now: float) -> None:
        coordinator_id = self._sessions.pop(session_id, None)
        if coordinator_id is not None:
            self._metrics.control.disconnects[reason].inc()
            self._peers.left(coordinator_id, now)

"""The worker's machine: events in, effects out. It is the one owner of its records and knows no clock and no socket.

Rules it keeps, whatever peers do:

- an attempt ends exactly once, and its session hears of that end while it lasts;
- what it does for a session stops when that session is gone, and the worker registers again only when it has stopped;
- it never runs more than it has slots for, and one for each further kind; its credit is never more than its room;
- no kind waits for others alone: each has a place of its own;
- a peer that breaks the protocol is counted and loses its session; nobody else is touched.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import assert_never

from quarterdeck.core.deadlines import Deadlines
from quarterdeck.core.ids import SessionId
from quarterdeck.core.invariants import insist
from quarterdeck.core.workcoord.liveness import PeerWatch, SessionTimer, Silence
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    ArtifactLost,
    AssignWork,
    BeatEcho,
    CancelQuery,
    CancelWork,
    CoordinatorBeat,
    CoordinatorMessage,
    CreditChanged,
    CreditConfirmed,
    DiskReported,
    DrainRequest,
    Goodbye,
    RecallWork,
    Register,
    Registered,
    RejectReason,
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
from quarterdeck.core.workcoord.model import Artifact, AttemptId, DiskUse, WorkerInfo, WorkerStatus
from quarterdeck.core.workcoord.peer import CloseReason, LossReason, PeerError
from quarterdeck.core.workcoord.worker import events as ev
from quarterdeck.core.workcoord.worker.credit import divide
from quarterdeck.core.workcoord.worker.effects import (
    ClearSession,
    CloseSession,
    DropResult,
    Effect,
    FinishDrain,
    ReleaseResult,
    SendToCoordinator,
    StartExecution,
    StopExecution,
)
from quarterdeck.core.workcoord.worker.invariants import claims
from quarterdeck.core.workcoord.worker.places import Places
from quarterdeck.core.workcoord.worker.records import DropReason, WorkerAttempt, WorkerSession
from quarterdeck.core.workcoord.worker.tables import ATTEMPT_TABLE, AttemptState, AttemptTrigger
from quarterdeck.core.workcoord.worker.timers import ArtifactTimer, DrainTimer, Timer

_LINGER_GRAIN_S = 0.05
"""Results go together that nobody waits for: to wake up for each would cost more than to keep it a little longer."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """How a worker's machine behaves."""

    info: WorkerInfo
    artifact_ttl_s: float = 600.0
    """How long a result waits for its acknowledgement. Shorter frees the disk sooner after a coordinator was lost in an
    unusual way; too short makes slow fetches start over."""
    artifact_linger_s: float = 30.0
    """How long it stays after that, or after its session is gone, for a fetch that is under way."""
    drain_max_s: float = 300.0
    """How long draining waits for what runs. After that it is stopped, and done again elsewhere."""


class WorkerMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.counters: Counter[str] = Counter()
        self.moves: Counter[tuple[StrEnum, StrEnum]] = Counter()
        """How often each entry of the table was used."""
        self._now = 0.0
        self._not_before = 0.0
        self._effects: list[Effect] = []
        self._deadlines: Deadlines[Timer] = Deadlines()
        self._status = WorkerStatus(accepting_work=True)
        self._disk: DiskUse | None = None
        self._finished = False
        self._sessions: dict[SessionId, WorkerSession] = {}
        self._attempts: dict[AttemptId, WorkerAttempt] = {}
        self._places = Places(config.info.slots)
        self._clearing: dict[SessionId, int] = {}
        """Sessions that are gone, and how many of their executions have not stopped yet."""

    # What a driver calls

    @property
    def status(self) -> WorkerStatus:
        return self._status

    @property
    def queued(self) -> int:
        """How many attempts wait for a place."""
        return self._places.queued

    @property
    def busy_slots(self) -> int:
        """How many run; up to one more than there are slots for each further kind."""
        return self._places.busy

    @property
    def places(self) -> Places:
        return self._places

    def session(self, session_id: SessionId) -> WorkerSession | None:
        return self._sessions.get(session_id)

    def sessions(self) -> Iterator[WorkerSession]:
        return iter(self._sessions.values())

    def attempts(self) -> Iterator[WorkerAttempt]:
        return iter(self._attempts.values())

    def registration(self) -> Register:
        """The first words to any coordinator."""
        return Register(self.config.info, self._status)

    def next_deadline(self) -> float | None:
        """When to send `TimePassed`, one for each time named; None when only events matter."""
        return self._deadlines.next_at()

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it. A clock that went backwards counts as one that stands still."""
        self._now = max(self._now, now)
        effects: list[Effect] = []
        self._effects = effects
        match event:
            case ev.MessageReceived(session_id, message):
                self._message_received(session_id, message)
            case ev.TimePassed():
                self._time_passed()
            case ev.ExecutionSucceeded(attempt_id, artifact):
                self._execution_succeeded(self._attempts[attempt_id], artifact)
            case ev.ExecutionEnded(attempt_id):
                self._leave(self._attempts[attempt_id], AttemptTrigger.END, WorkEnded(attempt_id))
            case ev.ExecutionFailed(attempt_id, error):
                self._leave(self._attempts[attempt_id], AttemptTrigger.FAIL, WorkFailed(attempt_id, error))
            case ev.ExecutionStopped(attempt_id):
                self._execution_ended(self._attempts[attempt_id], AttemptTrigger.STOP, WorkCanceled(attempt_id))
            case ev.ExecutionProgressed(attempt_id, fraction):
                attempt = self._attempts.get(attempt_id)
                if attempt is not None and attempt.state is AttemptState.RUNNING:
                    self._tell(attempt, WorkProgressed(attempt_id, fraction))
            case ev.ResultEvicted(attempt_id):
                if attempt_id in self._attempts:
                    self._lose_result(self._attempts[attempt_id], "evicted", DropReason.EVICTED)
            case ev.SessionOpened(registered):
                self._session_opened(registered)
            case ev.SessionLost(session_id, reason):
                if reason is LossReason.PROTOCOL:
                    self.counters["protocol_errors"] += 1
                session = self._sessions.get(session_id)
                if session is not None:
                    self._lose_session(session)
            case ev.DrainRequested():
                self._drain()
            case ev.AcceptingChanged(accepting):
                self._accepting_changed(accepting)
            case ev.PressureRose(for_s):
                self._send_all(Throttled(for_s))
            case ev.DiskMeasured(use):
                self._disk = use
                self._send_all(DiskReported(use))
            case _:
                assert_never(event)
        return effects

    def check_invariants(self) -> None:
        """Raises `InvariantError` if the records contradict each other. Linear in everything."""
        insist(claims(self))

    # Sessions

    def _session_opened(self, registered: Registered) -> None:
        session = WorkerSession(
            registered.session_id,
            registered.coordinator_id,
            PeerWatch.begin(registered.liveness, self._now),
        )
        self._sessions[session.session_id] = session
        self.counters["sessions_opened"] += 1
        if self._finished:
            self._send(session, Goodbye("drained"))
            self._break_off(session, CloseReason.GOODBYE, "drained")
            return
        self._deadlines.set(SessionTimer(session.session_id), session.watch.next_beat)
        self._share_credit()
        # What changed between our registration and its answer was told to nobody.
        self._send(session, WorkerBeat(self._status))
        if self._disk is not None:
            self._send(session, DiskReported(self._disk))

    def _message_received(self, session_id: SessionId, message: CoordinatorMessage) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            self.counters["messages_of_old_sessions"] += 1
            return
        session.watch.heard(self._now)
        try:
            self._take(session, message)
        except PeerError as error:
            self.counters["protocol_errors"] += 1
            self._break_off(session, CloseReason.PROTOCOL, f"it broke the protocol: {error}")

    def _take(self, session: WorkerSession, message: CoordinatorMessage) -> None:
        match message:
            case CoordinatorBeat(sent_at):
                self._send(session, BeatEcho(sent_at))
            case AssignWork():
                self._assigned(session, message)
            case ArtifactAck(attempt_id):
                self._acknowledged(session, attempt_id)
            case CancelWork(attempt_id):
                self._cancel_requested(session, attempt_id)
            case CancelQuery(query_id):
                for attempt_id in [a for a in session.attempts if a.key.query_id == query_id]:
                    self._cancel_requested(session, attempt_id)
            case CreditConfirmed(credit):
                if len(session.grants) < 2 or session.grants[1] != credit:
                    raise PeerError(f"it confirmed a credit of {credit}, which it was not given")
                session.grants.popleft()
                self._share_credit()
            case RecallWork(attempt_id):
                self._recalled(session, attempt_id)
            case DrainRequest():
                self._drain()
            case Goodbye(reason):
                self._break_off(session, CloseReason.GOODBYE, reason)
            case _:
                assert_never(message)

    def _break_off(self, session: WorkerSession, reason: CloseReason, detail: str) -> None:
        self._do(CloseSession(session.session_id, reason, detail))
        self._lose_session(session)

    def _lose_session(self, session: WorkerSession) -> None:
        """Stops all that hangs on the session."""
        del self._sessions[session.session_id]
        self._deadlines.cancel(SessionTimer(session.session_id))
        self.counters["sessions_lost"] += 1
        self._clearing[session.session_id] = 0
        attempts = list(session.attempts.values())
        session.attempts.clear()  # whoever is still going through them finds that they are no longer here
        for attempt in attempts:
            attempt.session = None
            self._orphan(attempt)
            self._clearing[session.session_id] += attempt.state is AttemptState.STOPPING
        self._clear_if_stopped(session.session_id)
        self._share_credit()
        self._start_next()
        self._finish_drain_if_idle()

    def _orphan(self, attempt: WorkerAttempt) -> None:
        was_running = attempt.state is AttemptState.RUNNING
        self._move(attempt, AttemptTrigger.ORPHAN)
        match attempt.state:
            case AttemptState.STOPPING if was_running:
                self._do(StopExecution(attempt.attempt_id))
            case AttemptState.LINGERING:
                self._linger(attempt, DropReason.CANCELED)
            case _:
                pass

    def _linger(self, attempt: WorkerAttempt, why: DropReason) -> None:
        attempt.released = why
        self._do(ReleaseResult(attempt.attempt_id))
        until = self._now + self.config.artifact_linger_s
        self._deadlines.set(ArtifactTimer(attempt.attempt_id), ceil(until / _LINGER_GRAIN_S) * _LINGER_GRAIN_S)

    def _clear_if_stopped(self, session_id: SessionId) -> None:
        if self._clearing.get(session_id) == 0:
            del self._clearing[session_id]
            self._do(ClearSession(session_id))

    # Work that coordinators give and take

    def _assigned(self, session: WorkerSession, message: AssignWork) -> None:
        spec, attempt_id = message.spec, message.attempt
        if attempt_id in self._attempts:
            raise PeerError(f"{attempt_id} was assigned before")
        if spec.kind not in self.config.info.kinds or spec.tenant != self.config.info.tenant:
            raise PeerError(f"{spec.kind} work of tenant {spec.tenant!r} was assigned, which this worker does not take")
        if not session.load.has_room(spec.kind, max(session.grants)):
            raise PeerError(f"{attempt_id} was assigned beyond the credit of {max(session.grants)}")
        if not self._status.accepting_work:
            reason = RejectReason.DRAINING if self._status.draining else RejectReason.NOT_ACCEPTING
            self._send(session, WorkRejected(attempt_id, reason))
            return
        attempt = WorkerAttempt(attempt_id, spec, session, session.session_id)
        self._attempts[attempt_id] = session.attempts[attempt_id] = attempt
        session.load.add(spec.kind)
        if self._places.enter(attempt):
            self._start(attempt)

    def _acknowledged(self, session: WorkerSession, attempt_id: AttemptId) -> None:
        """The result is safe. If it was lost meanwhile, the coordinator is being told, and nothing is to be done."""
        attempt = session.attempts.get(attempt_id)
        if attempt is None:
            self.counters["late_acks"] += 1
            return
        if not ATTEMPT_TABLE.allows(attempt.state, AttemptTrigger.ACK):
            raise PeerError(f"it acknowledged {attempt_id}, which is {attempt.state}")
        self._move(attempt, AttemptTrigger.ACK)
        self._detach(attempt)
        self._linger(attempt, DropReason.ACKNOWLEDGED)
        self._share_credit()
        self._finish_drain_if_idle()

    def _cancel_requested(self, session: WorkerSession, attempt_id: AttemptId) -> None:
        """Stops an attempt. One that has ended is fine: its end is on its way to the coordinator."""
        attempt = session.attempts.get(attempt_id)
        if attempt is None:
            self.counters["late_cancels"] += 1
            return
        was_running = attempt.state is AttemptState.RUNNING
        had_result = attempt.state is AttemptState.READY
        self._move(attempt, AttemptTrigger.CANCEL)
        if attempt.state is AttemptState.ENDED:
            self._end(attempt, WorkCanceled(attempt_id), drop=DropReason.CANCELED if had_result else None)
        elif was_running:
            self._do(StopExecution(attempt_id))

    def _recalled(self, session: WorkerSession, attempt_id: AttemptId) -> None:
        """Gives back what has not begun; somebody else begins it sooner. What runs or has ended stays what it is."""
        attempt = session.attempts.get(attempt_id)
        if attempt is None or attempt.state is not AttemptState.QUEUED:
            self.counters["late_recalls"] += 1
            return
        self._move(attempt, AttemptTrigger.RECALL)
        self._end(attempt, WorkReturned(attempt_id))

    # Execution

    def _start_next(self) -> None:
        while self._places.queued and (attempt := self._places.take_next()) is not None:
            self._start(attempt)

    def _start(self, attempt: WorkerAttempt) -> None:
        self._move(attempt, AttemptTrigger.START)
        self._tell(attempt, WorkAccepted(attempt.attempt_id))
        self._do(StartExecution(attempt.attempt_id, attempt.spec))

    def _execution_succeeded(self, attempt: WorkerAttempt, artifact: Artifact) -> None:
        if attempt.state is AttemptState.STOPPING:
            self._execution_ended(
                attempt, AttemptTrigger.SUCCEED, WorkCanceled(attempt.attempt_id), drop=DropReason.CANCELED
            )
            return
        self._places.give_back(attempt.spec.kind)
        self._move(attempt, AttemptTrigger.SUCCEED)
        self._deadlines.set(ArtifactTimer(attempt.attempt_id), self._now + self.config.artifact_ttl_s)
        self._tell(attempt, WorkReady(attempt.attempt_id, artifact))
        self._start_next()

    def _leave(self, attempt: WorkerAttempt, trigger: AttemptTrigger, end: WorkerMessage) -> None:
        """It has ended by itself and left nothing. Told to stop before that, it counts as canceled."""
        stopping = attempt.state is AttemptState.STOPPING
        self._execution_ended(attempt, trigger, WorkCanceled(attempt.attempt_id) if stopping else end)

    def _execution_ended(
        self, attempt: WorkerAttempt, trigger: AttemptTrigger, end: WorkerMessage, *, drop: DropReason | None = None
    ) -> None:
        self._places.give_back(attempt.spec.kind)
        self._move(attempt, trigger)
        self._end(attempt, end, drop=drop)
        session_id = attempt.bound_to
        if session_id in self._clearing:
            self._clearing[session_id] -= 1
            self._clear_if_stopped(session_id)
        self._start_next()

    def _lose_result(self, attempt: WorkerAttempt, what: str, why: DropReason) -> None:
        if ATTEMPT_TABLE.allows(attempt.state, AttemptTrigger.LOSE):
            self._move(attempt, AttemptTrigger.LOSE)
            self._end(attempt, ArtifactLost(attempt.attempt_id, what), drop=attempt.released or why)

    # The end of an attempt

    def _move(self, attempt: WorkerAttempt, trigger: AttemptTrigger) -> None:
        before = attempt.state
        self.moves[before, trigger] += 1
        attempt.state = ATTEMPT_TABLE.next(before, trigger)
        if attempt.state is AttemptState.ENDED:
            del self._attempts[attempt.attempt_id]
            if before is AttemptState.QUEUED:
                self._places.leave_line(attempt)
            self._deadlines.cancel(ArtifactTimer(attempt.attempt_id))

    def _end(self, attempt: WorkerAttempt, end: WorkerMessage, *, drop: DropReason | None = None) -> None:
        """It has ended: what it left is dropped, and whoever gave it hears of it."""
        if drop is not None:
            self._do(DropResult(attempt.attempt_id, drop))
        self._tell(attempt, end)
        self._detach(attempt)
        self._share_credit()
        self._finish_drain_if_idle()

    def _detach(self, attempt: WorkerAttempt) -> None:
        session = attempt.session
        if session is not None:
            del session.attempts[attempt.attempt_id]
            session.load.remove(attempt.spec.kind)
            attempt.session = None

    def _share_credit(self) -> None:
        info = self.config.info
        for session, credit in divide(info.slots + info.queue_places, self._sessions.values()):
            session.grants.append(credit)
            self._send(session, CreditChanged(credit))

    # Draining and accepting

    def _accepting_changed(self, accepting: bool) -> None:
        if not self._status.draining and accepting != self._status.accepting_work:
            self._set_status(WorkerStatus(accepting_work=accepting))

    def _set_status(self, status: WorkerStatus) -> None:
        self._status = status
        self._send_all(WorkerBeat(status))

    def _drain(self) -> None:
        """Takes nothing new, hands back what has not begun, and lets what runs finish."""
        if self._status.draining:
            return
        self.counters["drains"] += 1
        self._set_status(WorkerStatus(accepting_work=False, draining=True))
        self._deadlines.set(DrainTimer(), self._now + self.config.drain_max_s)
        for attempt in list(self._places.waiting()):
            self._move(attempt, AttemptTrigger.RETURN)
            self._end(attempt, WorkReturned(attempt.attempt_id))
        self._finish_drain_if_idle()

    def _finish_drain_if_idle(self) -> None:
        if self._finished or not self._status.draining or self._places.queued:
            return
        waiting = (AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.READY)
        if not any(attempt.state in waiting for attempt in self._attempts.values()):
            self._finish(clean=True)

    def _finish(self, *, clean: bool) -> None:
        self._finished = True
        self._deadlines.cancel(DrainTimer())
        for session in list(self._sessions.values()):
            self._send(session, Goodbye("drained" if clean else "the time for draining ran out"))
            self._break_off(session, CloseReason.GOODBYE, "drained")
        for attempt in list(self._attempts.values()):
            self._lose_result(attempt, "drained", DropReason.CANCELED)
        self._do(FinishDrain(clean))

    # Time

    def _time_passed(self) -> None:
        """Handles one due timer; more may be due, and `next_deadline` says so."""
        due = self._deadlines.pop_due(self._now)
        if due is None:
            return
        timer, at = due
        match timer:
            case SessionTimer(session_id):
                session = self._sessions[session_id]
                if self._now - at > session.watch.policy.interval_s:
                    self.counters["own_pauses"] += 1
                    self._not_before = self._now
                self._look_at(session)
            case ArtifactTimer(attempt_id):
                self.counters["artifacts_expired"] += 1
                self._lose_result(self._attempts[attempt_id], "expired", DropReason.EXPIRED)
            case DrainTimer():
                self._finish(clean=False)
            case _:
                assert_never(timer)

    def _look_at(self, session: WorkerSession) -> None:
        watch = session.watch
        if watch.judge(self._now, self._not_before) is Silence.LOST:
            silent_s = watch.silence_s(self._now, self._not_before)
            self._break_off(session, CloseReason.SILENT, f"nothing heard for {silent_s:.1f} s")
            return
        if watch.take_beat(self._now):
            self._send(session, WorkerBeat(self._status))
        self._deadlines.set(SessionTimer(session.session_id), watch.next_look(self._not_before))

    # Inside

    def _do(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _send(self, session: WorkerSession, message: WorkerMessage) -> None:
        self._effects.append(SendToCoordinator(session.session_id, message))

    def _send_all(self, message: WorkerMessage) -> None:
        for session in self._sessions.values():
            self._send(session, message)

    def _tell(self, attempt: WorkerAttempt, message: WorkerMessage) -> None:
        """Tells the session the attempt reports to, while there is one."""
        if attempt.session is not None:
            self._send(attempt.session, message)

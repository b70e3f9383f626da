"""The roster: which workers are there, which are in rotation, and who has fallen silent.

It keeps the worker table. Losing the session is losing the worker, at once. A worker is in rotation, so that it may be
given work, exactly while it is accepting.
"""

from collections import Counter
from collections.abc import Iterator

from quarterdeck.core.ids import Incarnation, SessionId, WorkerId
from quarterdeck.core.workcoord.coordinator.desk import Desk
from quarterdeck.core.workcoord.coordinator.effects import (
    CloseReason,
    CloseSession,
    ReportRoundTrip,
    SendToWorker,
    WarnOfSilence,
)
from quarterdeck.core.workcoord.coordinator.ledger import Ledger
from quarterdeck.core.workcoord.coordinator.records import Loss, Session
from quarterdeck.core.workcoord.coordinator.tables import WORKER_TABLE, WorkerState, WorkerTrigger
from quarterdeck.core.workcoord.coordinator.timers import ThrottleTimer
from quarterdeck.core.workcoord.liveness import PeerWatch, SessionTimer, Silence
from quarterdeck.core.workcoord.messages import (
    CoordinatorBeat,
    CreditConfirmed,
    Refused,
    Register,
    Registered,
    RejectReason,
)
from quarterdeck.core.workcoord.model import AttemptId, LivenessPolicy, WorkerStatus
from quarterdeck.core.workcoord.peer import PeerError

_NOT_ACCEPTING = WorkerStatus(accepting_work=False)
_DRAINING = WorkerStatus(accepting_work=False, draining=True)


class Roster:
    def __init__(self, desk: Desk, ledger: Ledger, liveness: LivenessPolicy) -> None:
        self._desk = desk
        self._ledger = ledger
        self._liveness = liveness
        self._sessions: dict[SessionId, Session] = {}
        self._by_worker: dict[WorkerId, Session] = {}
        self._blame_from = 0.0
        """Silence before this was ours: we did not run, and could not have heard anybody."""

    def __len__(self) -> int:
        return len(self._sessions)

    def sessions(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def session(self, session_id: SessionId) -> Session | None:
        return self._sessions.get(session_id)

    def of_worker(self, worker_id: WorkerId) -> Session | None:
        return self._by_worker.get(worker_id)

    def describe(self) -> str:
        """Who is connected and in which state, for an error that a person reads."""
        if not self._sessions:
            return "no worker is connected"
        states = Counter(session.state for session in self._sessions.values())
        return "connected: " + ", ".join(f"{number} {state}" for state, number in sorted(states.items()))

    # Coming and going

    def open(self, session_id: SessionId, register: Register, welcome: Registered) -> None:
        """A worker has registered. Of two processes with one id the one with the higher incarnation stays."""
        worker = register.worker
        before = self._by_worker.get(worker.worker_id)
        if before is not None and worker.incarnation < before.worker.incarnation:
            self._desk.counters["registrations_refused"] += 1
            self.refuse(session_id, f"worker id {worker.worker_id} is taken by a process that started later")
            return
        if before is not None:
            is_same = worker.incarnation == before.worker.incarnation
            loss = Loss.ORDERLY if is_same else Loss.DEATH
            self.break_off(before, CloseReason.REPLACED, "the worker opened another session", loss)
        now = self._desk.now
        session = Session(session_id, worker, PeerWatch.begin(self._liveness, now))
        self._sessions[session_id] = session
        self._by_worker[worker.worker_id] = session
        self._desk.counters["sessions_opened"] += 1
        self._desk.send(session, welcome)
        self._change(session, WorkerTrigger.JOIN)
        self._desk.deadlines.set(SessionTimer(session_id), session.watch.next_beat)
        self._apply_status(session, register.status)

    def refuse(self, session_id: SessionId, reason: str) -> None:
        self._desk.do(SendToWorker(session_id, Refused(reason)))
        self._desk.do(CloseSession(session_id, CloseReason.REFUSED, reason))

    def break_off(self, session: Session, reason: CloseReason, detail: str, loss: Loss = Loss.ORDERLY) -> None:
        """Ends a session from our side."""
        self._desk.do(CloseSession(session.session_id, reason, detail))
        self.lose(session, detail, loss)

    def lose(self, session: Session, reason: str, loss: Loss) -> None:
        """The session is gone. The worker leaves rotation before its work is given to others."""
        del self._sessions[session.session_id]
        del self._by_worker[session.worker_id]
        self._desk.counters["sessions_lost"] += 1
        self._desk.deadlines.cancel(SessionTimer(session.session_id))
        self._change(session, WorkerTrigger.LOSE)
        self._ledger.session_lost(session, reason, loss, self._is_here)

    # What a worker says of itself

    def heard(self, session: Session) -> bool:
        """Anything a worker says shows that it lives. Whether it was late: it waits for `back`."""
        session.watch.heard(self._desk.now)
        if session.state is not WorkerState.LATE:
            return False
        self._change(session, WorkerTrigger.BEAT)
        return True

    def back(self, session: Session) -> None:
        """What it said first was taken. It is in rotation again, if it still accepts work."""
        if session.state is WorkerState.PAUSED:
            self._apply_status(session, session.status)

    def beat(self, session: Session, status: WorkerStatus) -> None:
        self._apply_status(session, status)

    def echo(self, session: Session, sent_at: float) -> None:
        if not 0 <= sent_at <= self._desk.now:
            raise PeerError(f"the echo of a beat that was sent at {sent_at:g} s, and now it is {self._desk.now:g} s")
        self._desk.do(ReportRoundTrip(session.worker_id, self._desk.now - sent_at))

    def credit(self, session: Session, credit: int) -> None:
        if credit < 0:
            raise PeerError(f"a credit of {credit}")
        session.credit = credit
        self._desk.send(session, CreditConfirmed(credit))
        self._ledger.dispatch.credit_changed(session)

    def throttle(self, session: Session, for_s: float) -> None:
        if not 0 < for_s < float("inf"):
            raise PeerError(f"a throttle of {for_s} s")
        session.throttled_until = self._desk.now + for_s
        self._change(session, WorkerTrigger.THROTTLE)
        if session.state is WorkerState.THROTTLED:
            self._desk.deadlines.set(ThrottleTimer(session.session_id), session.throttled_until)

    def reject(self, session: Session, attempt: AttemptId, reason: RejectReason) -> None:
        """A worker that rejects is out of rotation until it says that it accepts: no work goes to and fro."""
        self._apply_status(session, _DRAINING if reason is RejectReason.DRAINING else _NOT_ACCEPTING)
        self._ledger.rejected(session, attempt)

    # Time

    def own_pause(self) -> None:
        """We ourselves did not run for a while: nobody is to blame for silence until now."""
        self._blame_from = self._desk.now

    def session_timer(self, session_id: SessionId) -> None:
        session, now = self._sessions[session_id], self._desk.now
        watch = session.watch
        silent_s = watch.silence_s(now, self._blame_from)
        silence = watch.judge(now, self._blame_from)
        if silence is Silence.LOST:
            loss = Loss.DEATH if self._hears_others(session) else Loss.CUT
            self.break_off(session, CloseReason.SILENT, f"nothing heard for {silent_s:.1f} s", loss)
            return
        if silence is Silence.NOTABLE:
            self._change(session, WorkerTrigger.MISS)
            self._desk.do(WarnOfSilence(session_id, session.worker_id, silent_s))
        if watch.take_beat(now):
            self._desk.send(session, CoordinatorBeat(now))
        self._desk.deadlines.set(SessionTimer(session_id), watch.next_look(self._blame_from))

    def throttle_timer(self, session_id: SessionId) -> None:
        self._change(self._sessions[session_id], WorkerTrigger.THROTTLE_END)

    # Inside

    def _hears_others(self, silent: Session) -> bool:
        """Whether anybody else was heard meanwhile: else it may be our own network that is down."""
        now, since_s = self._desk.now, self._liveness.lost_after_s / 2
        others = (session.watch for session in self._sessions.values() if session is not silent)
        return any(watch.silence_s(now, self._blame_from) < since_s for watch in others)

    def _is_here(self, worker_id: WorkerId, incarnation: Incarnation) -> bool:
        """Whether this very process has a session now."""
        session = self._by_worker.get(worker_id)
        return session is not None and session.worker.incarnation == incarnation

    def _apply_status(self, session: Session, status: WorkerStatus) -> None:
        state = session.state
        if state is WorkerState.DRAINING:
            if not status.draining:
                raise PeerError("it was draining and says that it no longer is")
        elif status.draining:
            self._change(session, WorkerTrigger.DRAIN)
        elif status.accepting_work and state is WorkerState.PAUSED:
            self._open_rotation(session)
        elif not status.accepting_work and state is not WorkerState.PAUSED:
            self._change(session, WorkerTrigger.CLOSE)
        session.status = status

    def _open_rotation(self, session: Session) -> None:
        if session.throttled_until > self._desk.now:
            self._move(session, WorkerTrigger.OPEN)
            self.throttle(session, session.throttled_until - self._desk.now)
        else:
            self._change(session, WorkerTrigger.OPEN)

    def _move(self, session: Session, trigger: WorkerTrigger) -> None:
        self._desk.moves[session.state, trigger] += 1
        session.state = WORKER_TABLE.next(session.state, trigger)

    def _change(self, session: Session, trigger: WorkerTrigger) -> None:
        """Moves a worker, and puts it into rotation or takes it out."""
        before = session.state
        self._move(session, trigger)
        if before is WorkerState.THROTTLED and session.state is not WorkerState.THROTTLED:
            self._desk.deadlines.cancel(ThrottleTimer(session.session_id))
        if session.state is before:
            return
        if session.state is WorkerState.ACCEPTING:
            self._ledger.dispatch.join(session)
        elif before is WorkerState.ACCEPTING:
            self._ledger.dispatch.leave(session)

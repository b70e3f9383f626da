"""The two machines with nothing around them, and the verbs that tests speak in.

`Bridge` is a coordinator's machine whose workers are scripted; `Mate` is a worker's machine whose coordinators are.
Both check the machine's invariants after every step, and answer heartbeats by themselves while time passes.
"""

from collections.abc import Collection, Iterable
from typing import TypeVar

from quarterdeck.core.ids import CoordinatorId, Incarnation, LeafId, QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.placement import PlacementStrategy
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.records import Session as CoordinatorSession
from quarterdeck.core.workcoord.coordinator.records import Work
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    AssignWork,
    CancelWork,
    CoordinatorBeat,
    CoordinatorMessage,
    CreditChanged,
    CreditConfirmed,
    Refused,
    Register,
    Registered,
    RejectReason,
    WorkAccepted,
    WorkEnded,
    WorkerBeat,
    WorkerMessage,
    WorkReady,
    WorkRejected,
)
from quarterdeck.core.workcoord.model import (
    Artifact,
    AttemptId,
    LivenessPolicy,
    WorkerInfo,
    WorkError,
    WorkerStatus,
    WorkKey,
    WorkSpec,
)
from quarterdeck.core.workcoord.peer import LossReason
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.core.workcoord.worker import effects as we
from quarterdeck.core.workcoord.worker import events as wv
from quarterdeck.core.workcoord.worker.records import WorkerAttempt, WorkerSession

EffectT = TypeVar("EffectT")
MessageT = TypeVar("MessageT")

ACCEPTING = WorkerStatus(accepting_work=True)
PAUSED = WorkerStatus(accepting_work=False)
DRAINING = WorkerStatus(accepting_work=False, draining=True)

ARTIFACT = Artifact("http://worker/a", 10, "checksum", 1, 0, 1, 1)
PASSING = WorkError("unavailable", "the disk was busy")
FINAL = WorkError("work_failed", "the column is not there", retryable=False)

LEAF, SCAN, OTHER = WorkKind("leaf"), WorkKind("scan"), WorkKind("other")
ALL_KINDS = frozenset((LEAF, SCAN, OTHER))
START = 1000.0
"""When the tests begin: not at 0, which machines start from."""

_TOO_MANY_TIMERS = 20_000


def key(work: str = "a", query: str = "q") -> WorkKey:
    return WorkKey(QueryId(query), LeafId("leaf"), WorkId(work))


def leaf(
    work: str = "a",
    query: str = "q",
    *,
    affinity: str = "",
    tenant: str = "default",
    kind: WorkKind = LEAF,
    placement: PlacementStrategy = PlacementStrategy.RENDEZVOUS,
    light: bool = False,
    leaves_nothing: bool = False,
) -> WorkSpec:
    return WorkSpec(key(work, query), kind, b"", affinity, tenant, placement, light, leaves_nothing)


def info(
    worker: str = "w1",
    *,
    incarnation: int = 1,
    kinds: frozenset[WorkKind] = ALL_KINDS,
    slots: int = 1,
    queue_places: int = 3,
    tenant: str = "default",
) -> WorkerInfo:
    return WorkerInfo(WorkerId(worker), Incarnation(incarnation), kinds, slots, queue_places, tenant=tenant)


def of(kind: type[EffectT], effects: Iterable[object]) -> list[EffectT]:
    """The effects, or messages, of one type, in their order."""
    return [each for each in effects if isinstance(each, kind)]


class Bridge:
    """A coordinator's machine, with workers that say what the test makes them say."""

    def __init__(
        self, *, spill_after_s: float = 0.1, liveness: LivenessPolicy | None = None, max_failures: int = 4
    ) -> None:
        config = CoordinatorConfig(
            CoordinatorId("c1"), liveness or LivenessPolicy(), spill_after_s=spill_after_s, max_failures=max_failures
        )
        self.machine = CoordinatorMachine(config)
        self.now = START
        self.log: list[ce.Effect] = []
        """All effects, or those since it was cleared."""
        self.status: dict[SessionId, WorkerStatus] = {}
        self._sessions = 0

    # Time and events

    def step(self, event: cv.Event) -> list[ce.Effect]:
        effects = self.machine.step(event, self.now)
        self.machine.check_invariants()
        self.log += effects
        return effects

    def advance(self, seconds: float, *, silent: Collection[SessionId] = ()) -> list[ce.Effect]:
        """Lets time pass, timer by timer. Workers answer beats, except those that are silent."""
        return self.advance_to(self.now + seconds, silent=silent)

    def advance_to(self, end: float, *, silent: Collection[SessionId] = ()) -> list[ce.Effect]:
        effects: list[ce.Effect] = []
        for _ in range(_TOO_MANY_TIMERS):
            at = self.machine.next_deadline()
            if at is None or at > end:
                self.now = end
                return effects
            self.now = max(self.now, at)
            now_done = self.step(cv.TimePassed())
            effects += now_done
            for effect in of(ce.SendToWorker, now_done):
                if isinstance(effect.message, CoordinatorBeat) and effect.session_id not in silent:
                    effects += self.says(effect.session_id, WorkerBeat(self.status[effect.session_id]))
        raise AssertionError(f"the timers never come to rest at {self.now!r}")

    def settle(self) -> list[ce.Effect]:
        """Handles what is due now."""
        return self.advance(0)

    # Workers

    def joins(
        self,
        worker: str = "w1",
        *,
        credit: int | None = 4,
        status: WorkerStatus = ACCEPTING,
        incarnation: int = 1,
        kinds: frozenset[WorkKind] = ALL_KINDS,
        tenant: str = "default",
        slots: int = 1,
    ) -> SessionId:
        """A worker registers, and gives its credit if it has any to give."""
        self._sessions += 1
        session_id = SessionId(f"s{self._sessions}")
        self.status[session_id] = status
        worker_info = info(worker, incarnation=incarnation, kinds=kinds, tenant=tenant, slots=slots)
        self.step(cv.SessionOpened(session_id, Register(worker_info, status)))
        if credit is not None:
            self.says(session_id, CreditChanged(credit))
        return session_id

    def says(self, session_id: SessionId, *messages: WorkerMessage) -> list[ce.Effect]:
        effects: list[ce.Effect] = []
        for message in messages:
            if isinstance(message, WorkerBeat):
                self.status[session_id] = message.status
            elif isinstance(message, WorkRejected):
                self.status[session_id] = DRAINING if message.reason is RejectReason.DRAINING else PAUSED
            effects += self.step(cv.MessageReceived(session_id, message))
        return effects

    def loses(self, session_id: SessionId, why: LossReason = LossReason.CONNECTION_LOST) -> list[ce.Effect]:
        return self.step(cv.SessionLost(session_id, why, "the connection broke"))

    # Whoever asks

    def open_query(self, query: str = "q", *, wait_limit_s: float | None = None) -> QueryId:
        self.step(cv.QueryOpened(QueryId(query), wait_limit_s))
        return QueryId(query)

    def submit(self, *specs: WorkSpec) -> Work:
        """Submits works, opening their queries when needed; returns the first."""
        for spec in specs:
            if self.machine.ledger.query(spec.key.query_id) is None:
                self.open_query(spec.key.query_id)
            self.step(cv.WorkSubmitted(spec))
        return self.work(specs[0].key)

    def seal(self, query: str = "q") -> list[ce.Effect]:
        return self.step(cv.QuerySealed(QueryId(query)))

    def cancel(self, query: str = "q") -> list[ce.Effect]:
        return self.step(cv.QueryCancelRequested(QueryId(query), "the caller went away"))

    def cancel_work(self, work: Work) -> list[ce.Effect]:
        return self.step(cv.WorkCancelRequested(work.key))

    # One attempt after the other

    def accepts(self, work: Work) -> list[ce.Effect]:
        return self.says(self.session_of(work), WorkAccepted(work.current_id))

    def ready(self, work: Work) -> list[ce.Effect]:
        """The worker accepts it, if it has not, and says that the result is there."""
        if work.state == "assigned":
            self.accepts(work)
        return self.says(self.session_of(work), WorkReady(work.current_id, ARTIFACT))

    def ends(self, work: Work) -> list[ce.Effect]:
        """The worker accepts it, if it has not, and says that it is done and leaves nothing."""
        if work.state == "assigned":
            self.accepts(work)
        return self.says(self.session_of(work), WorkEnded(work.current_id))

    def fetched(self, attempt: AttemptId) -> list[ce.Effect]:
        return self.step(cv.FetchSucceeded(attempt))

    def done(self, work: Work) -> list[ce.Effect]:
        self.ready(work)
        return self.fetched(work.current_id)

    # Looking

    def work(self, work_key: WorkKey) -> Work:
        query = self.machine.ledger.query(work_key.query_id)
        assert query is not None
        return query.works[work_key]

    def session_of(self, work: Work) -> SessionId:
        assert work.current is not None
        return work.current.session.session_id

    def worker_of(self, work: Work) -> str:
        assert work.current is not None
        return work.current.worker_id

    def session(self, session_id: SessionId) -> CoordinatorSession:
        session = self.machine.roster.session(session_id)
        assert session is not None
        return session

    def sent(
        self, effects: Iterable[ce.Effect], session_id: SessionId | None = None
    ) -> list[CoordinatorMessage | Registered | Refused]:
        return [e.message for e in of(ce.SendToWorker, effects) if session_id in (None, e.session_id)]

    def assigned(self, effects: Iterable[ce.Effect], session_id: SessionId | None = None) -> list[str]:
        """The works that were assigned, by their names."""
        return [m.spec.key.work_id for m in of(AssignWork, self.sent(effects, session_id))]


class Mate:
    """A worker's machine, with coordinators that say what the test makes them say."""

    def __init__(
        self,
        *,
        slots: int = 1,
        queue_places: int = 3,
        kinds: frozenset[WorkKind] = ALL_KINDS,
        artifact_ttl_s: float = 600.0,
        artifact_linger_s: float = 30.0,
        drain_max_s: float = 300.0,
    ) -> None:
        worker = info(slots=slots, queue_places=queue_places, kinds=kinds)
        self.machine = WorkerMachine(WorkerConfig(worker, artifact_ttl_s, artifact_linger_s, drain_max_s))
        self.now = START
        self.log: list[we.Effect] = []
        self.confirming: set[SessionId] = set()
        """The sessions whose coordinators confirm credit at once."""

    # Time and events

    def step(self, event: wv.Event) -> list[we.Effect]:
        effects = self.machine.step(event, self.now)
        self.machine.check_invariants()
        self.log += effects
        for effect in of(we.SendToCoordinator, list(effects)):
            if isinstance(effect.message, CreditChanged) and effect.session_id in self.confirming:
                effects += self.hears(effect.session_id, CreditConfirmed(effect.message.credit))
        return effects

    def advance(self, seconds: float, *, silent: Collection[SessionId] = ()) -> list[we.Effect]:
        """Lets time pass, timer by timer. Coordinators answer beats, except those that are silent."""
        return self.advance_to(self.now + seconds, silent=silent)

    def advance_to(self, end: float, *, silent: Collection[SessionId] = ()) -> list[we.Effect]:
        effects: list[we.Effect] = []
        for _ in range(_TOO_MANY_TIMERS):
            at = self.machine.next_deadline()
            if at is None or at > end:
                self.now = end
                return effects
            self.now = max(self.now, at)
            now_done = self.step(wv.TimePassed())
            effects += now_done
            for effect in of(we.SendToCoordinator, now_done):
                if isinstance(effect.message, WorkerBeat) and effect.session_id not in silent:
                    effects += self.hears(effect.session_id, CoordinatorBeat())
        raise AssertionError(f"the timers never come to rest at {self.now!r}")

    # Coordinators

    def opens(self, session: str = "s1", *, confirming: bool = True) -> SessionId:
        session_id = SessionId(session)
        if confirming:
            self.confirming.add(session_id)
        coordinator = CoordinatorId(f"coordinator of {session}")
        self.step(wv.SessionOpened(Registered(session_id, coordinator, LivenessPolicy())))
        return session_id

    def hears(self, session_id: SessionId, *messages: CoordinatorMessage) -> list[we.Effect]:
        effects: list[we.Effect] = []
        for message in messages:
            effects += self.step(wv.MessageReceived(session_id, message))
        return effects

    def loses(self, session_id: SessionId, why: LossReason = LossReason.CONNECTION_LOST) -> list[we.Effect]:
        return self.step(wv.SessionLost(session_id, why))

    # One attempt after the other

    def assigned(self, spec: WorkSpec, session_id: SessionId, *, number: int = 1) -> WorkerAttempt:
        """A work is assigned and accepted."""
        self.hears(session_id, AssignWork(spec, number))
        return next(a for a in self.machine.attempts() if a.attempt_id == AttemptId(spec.key, number))

    def succeeds(self, attempt: WorkerAttempt) -> list[we.Effect]:
        return self.step(wv.ExecutionSucceeded(attempt.attempt_id, ARTIFACT))

    def ends(self, attempt: WorkerAttempt) -> list[we.Effect]:
        return self.step(wv.ExecutionEnded(attempt.attempt_id))

    def fails(self, attempt: WorkerAttempt) -> list[we.Effect]:
        return self.step(wv.ExecutionFailed(attempt.attempt_id, PASSING))

    def stops(self, attempt: WorkerAttempt) -> list[we.Effect]:
        return self.step(wv.ExecutionStopped(attempt.attempt_id))

    def evicts(self, attempt: WorkerAttempt) -> list[we.Effect]:
        return self.step(wv.ResultEvicted(attempt.attempt_id))

    def cancels(self, attempt: WorkerAttempt, session_id: SessionId) -> list[we.Effect]:
        return self.hears(session_id, CancelWork(attempt.attempt_id))

    def acknowledged(self, attempt: WorkerAttempt, session_id: SessionId) -> list[we.Effect]:
        return self.hears(session_id, ArtifactAck(attempt.attempt_id))

    # Looking

    def session(self, session_id: SessionId) -> WorkerSession:
        session = self.machine.session(session_id)
        assert session is not None
        return session

    def told(self, effects: Iterable[we.Effect], session_id: SessionId | None = None) -> list[WorkerMessage]:
        return [e.message for e in of(we.SendToCoordinator, effects) if session_id in (None, e.session_id)]


def only_end(effects: list[ce.Effect]) -> ce.EndQuery:
    (end,) = of(ce.EndQuery, effects)
    return end


def two_workers(bridge: Bridge, spec_key: str = "") -> tuple[Work, str, str]:
    """A work that is accepted by its home, the name of that worker, and the name of the other."""
    bridge.joins("w1")
    bridge.joins("w2")
    work = bridge.submit(leaf(affinity=spec_key))
    bridge.accepts(work)
    home = bridge.worker_of(work)
    return work, home, "w2" if home == "w1" else "w1"

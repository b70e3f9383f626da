"""What peers may not say. Whoever does is counted and loses its session; nobody else is touched.

The pairs come from the tables: every state that a peer's message can find an attempt in, times every message that would
move it. What is legal in any state by contract is pinned here too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan

import pytest

from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator.records import Work
from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WorkerState, WorkState, WorkTrigger
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    ArtifactLost,
    AssignWork,
    CancelQuery,
    CancelWork,
    CoordinatorMessage,
    CreditChanged,
    CreditConfirmed,
    RecallWork,
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
from quarterdeck.core.workcoord.model import AttemptId, WorkerStatus, WorkSpec
from quarterdeck.core.workcoord.worker import effects as we
from quarterdeck.core.workcoord.worker.records import WorkerAttempt
from quarterdeck.core.workcoord.worker.tables import AttemptState
from tests.core.workcoord.harness import (
    ACCEPTING,
    ARTIFACT,
    DRAINING,
    FINAL,
    LEAF,
    PASSING,
    PAUSED,
    SCAN,
    Bridge,
    Mate,
    key,
    leaf,
    of,
)

W, A = WorkState, AttemptState


# A coordinator, and what a worker says of an attempt


MESSAGE_OF: dict[WorkTrigger, Callable[[AttemptId], WorkerMessage]] = {
    WorkTrigger.ACCEPT: WorkAccepted,
    WorkTrigger.REJECT: lambda a: WorkRejected(a, RejectReason.NOT_ACCEPTING),
    WorkTrigger.RETURN: WorkReturned,
    WorkTrigger.READY: lambda a: WorkReady(a, ARTIFACT),
    WorkTrigger.FAIL: lambda a: WorkFailed(a, PASSING),
    WorkTrigger.ARTIFACT_LOST: lambda a: ArtifactLost(a, "evicted"),
}
ON_A_SESSION = (W.ASSIGNED, W.ACCEPTED, W.READY)


@dataclass
class Scene:
    """A work of `mary` in some state, and another worker, `anne`, who must not notice anything."""

    bridge: Bridge
    mary: SessionId
    anne: SessionId
    attempt: AttemptId
    bystander: Work

    def assert_only_mary_was_sent_away(self, effects: list[ce.Effect]) -> None:
        assert self.bridge.machine.counters["protocol_errors"] == 1
        (closed,) = of(ce.CloseSession, effects)
        assert (closed.session_id, closed.reason) == (self.mary, ce.CloseReason.PROTOCOL)
        assert closed.detail
        assert self.bridge.machine.roster.session(self.mary) is None
        self.assert_anne_noticed_nothing()

    def assert_nobody_was_sent_away(self, effects: list[ce.Effect]) -> None:
        assert self.bridge.machine.counters["protocol_errors"] == 0
        assert not of(ce.CloseSession, effects)
        assert self.bridge.machine.roster.session(self.mary) is not None
        self.assert_anne_noticed_nothing()

    def assert_anne_noticed_nothing(self) -> None:
        assert self.bystander.state is W.ACCEPTED
        assert self.bridge.session_of(self.bystander) == self.anne
        assert self.bridge.session(self.anne).state is WorkerState.PAUSED


def _scene(state: WorkState) -> Scene:
    bridge = Bridge()
    anne = bridge.joins("anne")
    bystander = bridge.submit(leaf("bystander", "other query"))
    bridge.accepts(bystander)
    bridge.says(anne, WorkerBeat(PAUSED))
    mary = bridge.joins("mary")
    work = bridge.submit(leaf())
    assert bridge.session_of(work) == mary
    attempt = work.current_id
    match state:
        case W.PENDING:
            bridge.says(mary, WorkRejected(attempt, RejectReason.NOT_ACCEPTING))
        case W.ASSIGNED:
            pass
        case W.ACCEPTED:
            bridge.accepts(work)
        case W.READY:
            bridge.ready(work)
        case W.DONE:
            bridge.done(work)
        case W.CANCELED:
            bridge.cancel_work(work)
        case W.FAILED:
            bridge.accepts(work)
            bridge.says(mary, WorkFailed(attempt, FINAL))
    assert work.state is state
    return Scene(bridge, mary, anne, attempt, bystander)


def _nothing_scene(state: WorkState) -> Scene:
    """The same with a work that leaves nothing, as far as it gets."""
    bridge = Bridge()
    anne = bridge.joins("anne")
    bystander = bridge.submit(leaf("bystander", "other query"))
    bridge.accepts(bystander)
    bridge.says(anne, WorkerBeat(PAUSED))
    mary = bridge.joins("mary")
    work = bridge.submit(leaf(leaves_nothing=True))
    attempt = work.current_id
    match state:
        case W.ACCEPTED:
            bridge.accepts(work)
        case W.DONE:
            bridge.ends(work)
        case W.CANCELED:
            bridge.cancel_work(work)
        case _:
            pass
    assert work.state is state
    return Scene(bridge, mary, anne, attempt, bystander)


@pytest.mark.parametrize("state", [W.ASSIGNED, W.DONE])
def test_an_end_of_what_does_not_run_costs_the_session(state: WorkState) -> None:
    scene = _nothing_scene(state)
    scene.assert_only_mary_was_sent_away(scene.bridge.says(scene.mary, WorkEnded(scene.attempt)))


def test_an_end_of_what_was_canceled_returns_its_credit_once() -> None:
    scene = _nothing_scene(W.CANCELED)
    assert scene.bridge.says(scene.mary, WorkEnded(scene.attempt)) == []
    assert (scene.bridge.session(scene.mary).outstanding, scene.bridge.session(scene.mary).closing) == (0, {})
    scene.assert_only_mary_was_sent_away(scene.bridge.says(scene.mary, WorkEnded(scene.attempt)))


def test_a_work_that_was_to_leave_an_artifact_does_not_end_without_one() -> None:
    scene = _scene(W.ACCEPTED)
    effects = scene.bridge.says(scene.mary, WorkEnded(scene.attempt))
    scene.assert_only_mary_was_sent_away(effects)
    assert not of(ce.DeliverEnd, effects)
    (closed,) = of(ce.CloseSession, effects)
    assert "which was to leave an artifact" in closed.detail


def test_a_work_that_leaves_nothing_has_no_artifact() -> None:
    scene = _nothing_scene(W.ACCEPTED)
    effects = scene.bridge.says(scene.mary, WorkReady(scene.attempt, ARTIFACT))
    scene.assert_only_mary_was_sent_away(effects)
    assert not of(ce.FetchArtifact, effects)


def _is_legal(state: WorkState, trigger: WorkTrigger) -> bool:
    if state is W.CANCELED:
        return True  # the attempt is closing: whatever it says crossed our cancel
    if trigger is WorkTrigger.ARTIFACT_LOST and state not in ON_A_SESSION:
        return True  # it may have crossed our acknowledgement
    return state in ON_A_SESSION and WORK_TABLE.allows(state, trigger)


PAIRS = [(state, trigger) for state in WorkState for trigger in MESSAGE_OF]


@pytest.mark.parametrize("state, trigger", [pair for pair in PAIRS if not _is_legal(*pair)])
def test_a_worker_that_says_what_is_not_legal_loses_its_session(state: WorkState, trigger: WorkTrigger) -> None:
    scene = _scene(state)
    effects = scene.bridge.says(scene.mary, MESSAGE_OF[trigger](scene.attempt))
    scene.assert_only_mary_was_sent_away(effects)


@pytest.mark.parametrize("state, trigger", [pair for pair in PAIRS if _is_legal(*pair)])
def test_a_worker_that_says_what_is_legal_keeps_its_session(state: WorkState, trigger: WorkTrigger) -> None:
    scene = _scene(state)
    effects = scene.bridge.says(scene.mary, MESSAGE_OF[trigger](scene.attempt))
    scene.assert_nobody_was_sent_away(effects)


def test_the_pairs_are_as_many_as_the_tables_say() -> None:
    illegal = [pair for pair in PAIRS if not _is_legal(*pair)]
    assert len(PAIRS) == len(WorkState) * len(MESSAGE_OF) == 42
    assert len(illegal) == 27


@pytest.mark.parametrize("state", [state for state in WorkState if state is not W.CANCELED])
def test_a_worker_that_cancels_what_nobody_canceled_loses_its_session(state: WorkState) -> None:
    scene = _scene(state)
    scene.assert_only_mary_was_sent_away(scene.bridge.says(scene.mary, WorkCanceled(scene.attempt)))


@pytest.mark.parametrize("state", [state for state in WorkState if state not in (*ON_A_SESSION, W.CANCELED)])
def test_a_worker_that_reports_progress_of_what_it_does_not_have_loses_its_session(state: WorkState) -> None:
    scene = _scene(state)
    scene.assert_only_mary_was_sent_away(scene.bridge.says(scene.mary, WorkProgressed(scene.attempt, 0.5)))


@pytest.mark.parametrize("state", ON_A_SESSION)
def test_progress_of_what_a_worker_has_is_passed_on(state: WorkState) -> None:
    scene = _scene(state)
    effects = scene.bridge.says(scene.mary, WorkProgressed(scene.attempt, 0.5))
    assert effects == [ce.ReportProgress(scene.attempt, 0.5)]


@pytest.mark.parametrize("end", [WorkTrigger.REJECT, WorkTrigger.RETURN, WorkTrigger.FAIL, WorkTrigger.ARTIFACT_LOST])
def test_any_end_of_an_attempt_that_was_given_up_returns_its_credit_once(end: WorkTrigger) -> None:
    scene = _scene(W.CANCELED)
    session = scene.bridge.session(scene.mary)
    assert session.outstanding == 1
    effects = scene.bridge.says(scene.mary, MESSAGE_OF[end](scene.attempt))
    assert effects == []
    assert (session.outstanding, session.closing) == (0, {})
    if end is not WorkTrigger.ARTIFACT_LOST:
        scene.assert_only_mary_was_sent_away(scene.bridge.says(scene.mary, MESSAGE_OF[end](scene.attempt)))


@pytest.mark.parametrize("news", [WorkTrigger.ACCEPT, WorkTrigger.READY])
def test_news_of_an_attempt_that_was_given_up_changes_nothing(news: WorkTrigger) -> None:
    scene = _scene(W.CANCELED)
    for message in (MESSAGE_OF[news](scene.attempt), WorkProgressed(scene.attempt, 0.5)):
        assert scene.bridge.says(scene.mary, message) == []
    assert scene.bridge.session(scene.mary).outstanding == 1
    scene.bridge.says(scene.mary, WorkCanceled(scene.attempt))
    assert scene.bridge.session(scene.mary).outstanding == 0


def test_a_lost_artifact_that_nobody_waits_for_is_counted() -> None:
    scene = _scene(W.DONE)
    assert scene.bridge.says(scene.mary, ArtifactLost(scene.attempt, "expired")) == []
    assert scene.bridge.machine.counters["artifact_lost_late"] == 1


@pytest.mark.parametrize("trigger", MESSAGE_OF)
def test_a_worker_cannot_speak_of_another_workers_attempt(trigger: WorkTrigger) -> None:
    scene = _scene(W.ACCEPTED)
    effects = scene.bridge.says(scene.mary, MESSAGE_OF[trigger](scene.bystander.current_id))
    if trigger is WorkTrigger.ARTIFACT_LOST:
        scene.assert_nobody_was_sent_away(effects)
    else:
        scene.assert_only_mary_was_sent_away(effects)


@pytest.mark.parametrize("trigger", [trigger for trigger in MESSAGE_OF if trigger is not WorkTrigger.ARTIFACT_LOST])
def test_a_worker_cannot_speak_of_an_attempt_that_never_was(trigger: WorkTrigger) -> None:
    scene = _scene(W.ACCEPTED)
    effects = scene.bridge.says(scene.mary, MESSAGE_OF[trigger](AttemptId(key("nothing"), 1)))
    scene.assert_only_mary_was_sent_away(effects)


# A coordinator, and what a worker says of itself


def _worker_in(state: WorkerState) -> Scene:
    scene = _scene(W.ACCEPTED)
    match state:
        case WorkerState.PAUSED:
            scene.bridge.says(scene.mary, WorkerBeat(PAUSED))
        case WorkerState.THROTTLED:
            scene.bridge.says(scene.mary, Throttled(5))
        case WorkerState.DRAINING:
            scene.bridge.says(scene.mary, WorkerBeat(DRAINING))
        case WorkerState.LATE:
            scene.bridge.advance(2, silent=[scene.mary])
        case WorkerState.ACCEPTING | WorkerState.ABSENT:
            pass
    assert scene.bridge.session(scene.mary).state is state
    return scene


PRESENT = [state for state in WorkerState if state is not WorkerState.ABSENT]
STATUSES = {"accepting": ACCEPTING, "paused": PAUSED, "draining": DRAINING}


@pytest.mark.parametrize("state", PRESENT)
@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_a_worker_may_say_any_status_unless_it_was_draining(state: WorkerState, status: WorkerStatus) -> None:
    scene = _worker_in(state)
    effects = scene.bridge.says(scene.mary, WorkerBeat(status))
    if state is WorkerState.DRAINING and not status.draining:
        scene.assert_only_mary_was_sent_away(effects)
    else:
        scene.assert_nobody_was_sent_away(effects)


def test_a_draining_worker_cannot_reject_for_another_reason() -> None:
    scene = _scene(W.ASSIGNED)
    scene.bridge.says(scene.mary, WorkerBeat(DRAINING))
    effects = scene.bridge.says(scene.mary, WorkRejected(scene.attempt, RejectReason.NOT_ACCEPTING))
    scene.assert_only_mary_was_sent_away(effects)


@pytest.mark.parametrize("state", PRESENT)
@pytest.mark.parametrize("for_s", [0.0, -1.0, inf, nan])
def test_a_throttle_must_be_a_time(state: WorkerState, for_s: float) -> None:
    scene = _worker_in(state)
    scene.assert_only_mary_was_sent_away(scene.bridge.says(scene.mary, Throttled(for_s)))


@pytest.mark.parametrize("state", PRESENT)
def test_a_throttle_is_legal_in_every_state(state: WorkerState) -> None:
    scene = _worker_in(state)
    scene.assert_nobody_was_sent_away(scene.bridge.says(scene.mary, Throttled(1)))


def test_a_credit_cannot_be_negative_and_may_be_none() -> None:
    scene = _scene(W.ACCEPTED)
    scene.assert_nobody_was_sent_away(scene.bridge.says(scene.mary, CreditChanged(0)))
    scene.assert_only_mary_was_sent_away(scene.bridge.says(scene.mary, CreditChanged(-1)))


def test_what_comes_on_a_session_that_is_gone_is_dropped() -> None:
    scene = _scene(W.ACCEPTED)
    scene.bridge.loses(scene.mary)
    assert scene.bridge.says(scene.mary, WorkReady(scene.attempt, ARTIFACT)) == []
    assert scene.bridge.machine.counters["messages_of_old_sessions"] == 1
    assert scene.bridge.loses(scene.mary) == []
    assert scene.bridge.machine.counters["sessions_lost"] == 1


# A worker, and what a coordinator says


@dataclass
class Cabin:
    """A worker with an attempt of `mary`'s in some state, and `anne`, another coordinator, who must not notice."""

    mate: Mate
    mary: SessionId
    anne: SessionId
    attempt: WorkerAttempt
    bystander: WorkerAttempt

    def assert_only_mary_was_sent_away(self, effects: list[we.Effect]) -> None:
        assert self.mate.machine.counters["protocol_errors"] == 1
        (closed,) = of(we.CloseSession, effects)
        assert closed.session_id == self.mary
        assert "protocol" in closed.detail
        assert [session.session_id for session in self.mate.machine.sessions()] == [self.anne]
        self.assert_anne_noticed_nothing()

    def assert_nobody_was_sent_away(self, effects: list[we.Effect]) -> None:
        assert self.mate.machine.counters["protocol_errors"] == 0
        assert not of(we.CloseSession, effects)
        assert len(list(self.mate.machine.sessions())) == 2
        self.assert_anne_noticed_nothing()

    def assert_anne_noticed_nothing(self) -> None:
        assert self.bystander.state is A.RUNNING
        assert self.bystander.session is self.mate.session(self.anne)


def _cabin(state: AttemptState) -> Cabin:
    mate = Mate(slots=1 if state is A.QUEUED else 2, queue_places=6)
    anne, mary = mate.opens("anne"), mate.opens("mary")
    bystander = mate.assigned(leaf("bystander", "other query"), anne)
    attempt = mate.assigned(leaf(), mary)
    if state is A.STOPPING:
        mate.cancels(attempt, mary)
    if state in (A.READY, A.LINGERING):
        mate.succeeds(attempt)
    if state is A.LINGERING:
        mate.acknowledged(attempt, mary)
    if state is A.ENDED:
        mate.fails(attempt)
    assert attempt.state is state
    return Cabin(mate, mary, anne, attempt, bystander)


@pytest.mark.parametrize("state", AttemptState)
def test_only_a_result_can_be_acknowledged(state: AttemptState) -> None:
    cabin = _cabin(state)
    effects = cabin.mate.hears(cabin.mary, ArtifactAck(cabin.attempt.attempt_id))
    if state in (A.READY, A.LINGERING, A.ENDED):  # it may have crossed the loss of the result, or come twice
        cabin.assert_nobody_was_sent_away(effects)
        assert cabin.mate.machine.counters["late_acks"] == (state is not A.READY)
    else:
        cabin.assert_only_mary_was_sent_away(effects)


@pytest.mark.parametrize("state", AttemptState)
def test_anything_can_be_canceled_at_any_time(state: AttemptState) -> None:
    for message in (CancelWork, CancelQuery):
        cabin = _cabin(state)
        attempt_id = cabin.attempt.attempt_id
        said = CancelWork(attempt_id) if message is CancelWork else CancelQuery(attempt_id.key.query_id)
        cabin.assert_nobody_was_sent_away(cabin.mate.hears(cabin.mary, said))
        assert cabin.attempt.state in (state if state is A.LINGERING else A.ENDED, A.STOPPING)


@pytest.mark.parametrize("state", AttemptState)
def test_anything_can_be_recalled_at_any_time_and_only_what_has_not_begun_is_handed_back(
    state: AttemptState,
) -> None:
    cabin = _cabin(state)
    effects = cabin.mate.hears(cabin.mary, RecallWork(cabin.attempt.attempt_id))
    cabin.assert_nobody_was_sent_away(effects)
    returned = of(WorkReturned, cabin.mate.told(effects, cabin.mary))
    assert returned == ([WorkReturned(cabin.attempt.attempt_id)] if state is A.QUEUED else [])
    assert cabin.attempt.state is (A.ENDED if state is A.QUEUED else state)
    assert cabin.mate.machine.counters["late_recalls"] == (state is not A.QUEUED)


def test_a_late_cancel_is_counted() -> None:
    cabin = _cabin(A.ENDED)
    assert cabin.mate.hears(cabin.mary, CancelWork(cabin.attempt.attempt_id)) == []
    assert cabin.mate.machine.counters["late_cancels"] == 1


@pytest.mark.parametrize("state", [state for state in AttemptState if state is not A.ENDED])
def test_an_attempt_cannot_be_assigned_twice(state: AttemptState) -> None:
    cabin = _cabin(state)
    cabin.assert_only_mary_was_sent_away(cabin.mate.hears(cabin.mary, AssignWork(cabin.attempt.spec, 1)))


def test_a_coordinator_cannot_touch_anothers_attempts() -> None:
    cabin = _cabin(A.READY)
    stranger = cabin.bystander.attempt_id
    effects = cabin.mate.hears(cabin.mary, CancelWork(stranger), CancelQuery(stranger.key.query_id))
    effects += cabin.mate.hears(cabin.mary, ArtifactAck(stranger))
    assert effects == []
    cabin.assert_nobody_was_sent_away(effects)
    cabin.assert_only_mary_was_sent_away(cabin.mate.hears(cabin.mary, AssignWork(cabin.bystander.spec, 1)))


@pytest.mark.parametrize("credit", [-1, 0, 3, 4, 5])
def test_a_credit_that_was_not_given_cannot_be_confirmed(credit: int) -> None:
    cabin = _cabin(A.RUNNING)
    assert cabin.mate.session(cabin.mary).granted == 4  # and confirmed already
    cabin.assert_only_mary_was_sent_away(cabin.mate.hears(cabin.mary, CreditConfirmed(credit)))


def test_credits_are_confirmed_in_the_order_in_which_they_were_given() -> None:
    mate = Mate(slots=1, queue_places=5)
    mary = mate.opens("mary", confirming=False)
    anne = mate.opens("anne", confirming=False)
    assert list(mate.session(mary).grants) == [0, 6, 3]
    assert of(we.CloseSession, mate.hears(mary, CreditConfirmed(6))) == []
    assert of(we.CloseSession, mate.hears(mary, CreditConfirmed(6)))
    assert [session.session_id for session in mate.machine.sessions()] == [anne]


def test_work_beyond_the_credit_breaks_the_protocol() -> None:
    mate = Mate(slots=1, queue_places=1)
    session = mate.opens()
    mate.assigned(leaf("a"), session)
    mate.assigned(leaf("b"), session)
    effects = mate.hears(session, AssignWork(leaf("c"), 1))
    assert mate.machine.counters["protocol_errors"] == 1
    assert of(we.CloseSession, effects)


def test_work_before_any_credit_breaks_the_protocol() -> None:
    mate = Mate(slots=1, queue_places=0)
    anne, mary = mate.opens("anne", confirming=False), mate.opens("mary", confirming=False)
    assert list(mate.session(mary).grants) == [0, 1]
    mate.hears(mary, AssignWork(leaf("a"), 1))  # what was given counts before it is confirmed
    effects = mate.hears(mary, AssignWork(leaf("b"), 1))
    assert of(we.CloseSession, effects)
    assert [session.session_id for session in mate.machine.sessions()] == [anne]


@pytest.mark.parametrize(
    "spec", [leaf(tenant="stranger"), leaf(kind=SCAN)], ids=["of another tenant", "of another kind"]
)
def test_work_that_the_worker_does_not_take_breaks_the_protocol(spec: WorkSpec) -> None:
    mate = Mate(kinds=frozenset({LEAF}))
    session = mate.opens()
    effects = mate.hears(session, AssignWork(spec, 1))
    assert mate.machine.counters["protocol_errors"] == 1
    assert of(we.CloseSession, effects)
    assert list(mate.machine.attempts()) == []


def test_what_comes_on_a_session_that_the_worker_lost_is_dropped() -> None:
    cabin = _cabin(A.RUNNING)
    cabin.mate.loses(cabin.mary)
    said: CoordinatorMessage = CancelWork(cabin.attempt.attempt_id)
    assert cabin.mate.hears(cabin.mary, said) == []
    assert cabin.mate.machine.counters["messages_of_old_sessions"] == 1
    assert cabin.mate.loses(cabin.mary) == []
    assert cabin.mate.machine.counters["sessions_lost"] == 1

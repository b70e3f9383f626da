"""One small story for every legal move of the three tables, told through public events only.

A scenario brings a machine to a state, lets happen what causes the move, and asserts the new state and what the outside
world gets to see of it. It must fail when its move is missing or leads elsewhere; `test_edges.py` makes sure of both.
"""

from collections.abc import Callable
from enum import StrEnum

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.records import Session, Work
from quarterdeck.core.workcoord.coordinator.tables import (
    WORK_TABLE,
    WORKER_TABLE,
    ReassignmentReason,
    WorkerState,
    WorkerTrigger,
    WorkState,
    WorkTrigger,
)
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    ArtifactLost,
    AssignWork,
    CancelWork,
    CreditChanged,
    RecallWork,
    RejectReason,
    Throttled,
    WorkAccepted,
    WorkCanceled,
    WorkEnded,
    WorkerBeat,
    WorkFailed,
    WorkReady,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import AttemptId
from quarterdeck.core.workcoord.worker import effects as we
from quarterdeck.core.workcoord.worker import events as wv
from quarterdeck.core.workcoord.worker.records import DropReason
from quarterdeck.core.workcoord.worker.tables import ATTEMPT_TABLE, AttemptState, AttemptTrigger
from tests.core.workcoord.harness import (
    ACCEPTING,
    ARTIFACT,
    DRAINING,
    PASSING,
    PAUSED,
    Bridge,
    Mate,
    leaf,
    of,
)

Edge = tuple[str, StrEnum, StrEnum]
Scenario = Callable[[], None]

SCENARIOS: dict[Edge, Scenario] = {}

W, T = WorkState, WorkTrigger
S, R = WorkerState, WorkerTrigger
A, X = AttemptState, AttemptTrigger


def edge(table: str, state: StrEnum, trigger: StrEnum) -> Callable[[Scenario], Scenario]:
    """Registers the scenario of one move. Each move has one."""

    def register(scenario: Scenario) -> Scenario:
        assert (table, state, trigger) not in SCENARIOS
        SCENARIOS[table, state, trigger] = scenario
        return scenario

    return register


def works(state: WorkState, trigger: WorkTrigger) -> Callable[[Scenario], Scenario]:
    return edge(WORK_TABLE.name, state, trigger)


def workers(state: WorkerState, trigger: WorkerTrigger) -> Callable[[Scenario], Scenario]:
    return edge(WORKER_TABLE.name, state, trigger)


def attempts(state: AttemptState, trigger: AttemptTrigger) -> Callable[[Scenario], Scenario]:
    return edge(ATTEMPT_TABLE.name, state, trigger)


# Works: the way through


@works(W.PENDING, T.ASSIGN)
def a_pending_work_is_assigned_to_a_worker_with_credit() -> None:
    bridge = Bridge()
    work = bridge.submit(leaf())
    assert work.state is W.PENDING
    session = bridge.joins(credit=None)
    effects = bridge.says(session, CreditChanged(1))
    assert of(AssignWork, bridge.sent(effects, session)) == [AssignWork(work.spec, 1)]
    assert work.state is W.ASSIGNED
    assert bridge.session(session).free == 0


@works(W.ASSIGNED, T.ACCEPT)
def an_assigned_work_is_accepted() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    assert bridge.accepts(work) == []
    assert work.state is W.ACCEPTED
    assert bridge.session(session).outstanding == 1


@works(W.ACCEPTED, T.READY)
def a_ready_work_is_fetched() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    effects = bridge.ready(work)
    assert work.state is W.READY
    assert effects == [ce.FetchArtifact(work.current_id, WorkerId("w1"), ARTIFACT)]
    assert bridge.session(session).outstanding == 1  # not the end


@works(W.READY, T.COMMIT)
def a_fetched_result_is_delivered_and_then_acknowledged() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.ready(work)
    effects = bridge.fetched(work.current_id)
    assert work.state is W.DONE
    assert effects == [ce.DeliverResult(work.current_id), ce.SendToWorker(session, ArtifactAck(work.current_id))]
    assert bridge.session(session).free == 4
    assert of(ce.EndQuery, bridge.seal()) == [ce.EndQuery(work.query.query_id, ce.Outcome.SUCCEEDED)]


@works(W.ACCEPTED, T.END)
def a_work_that_leaves_nothing_is_done_when_its_worker_says_so() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf(leaves_nothing=True))
    effects = bridge.ends(work)
    assert work.state is W.DONE
    assert effects == [ce.DeliverEnd(AttemptId(work.key, 1), WorkerId("w1"))]
    assert bridge.session(session).free == 4
    assert of(ce.EndQuery, bridge.seal()) == [ce.EndQuery(work.query.query_id, ce.Outcome.SUCCEEDED)]


# Works: back to the start


@works(W.ASSIGNED, T.REJECT)
def a_rejected_work_is_pending_again() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.says(session, WorkRejected(work.current_id, RejectReason.NOT_ACCEPTING))
    assert work.state is W.PENDING
    assert (work.failures, bridge.machine.pending, bridge.session(session).outstanding) == (0, 1, 0)


@works(W.ASSIGNED, T.RETURN)
def a_returned_work_is_pending_again() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.says(session, WorkerBeat(DRAINING), WorkReturned(work.current_id))
    assert work.state is W.PENDING
    assert (work.failures, bridge.machine.pending, bridge.session(session).outstanding) == (0, 1, 0)


@works(W.ASSIGNED, T.RECALL)
def a_recalled_work_is_pending_again_and_begins_elsewhere() -> None:
    bridge = Bridge()
    sessions = {bridge.joins("w1"), bridge.joins("w2")}
    long = bridge.submit(leaf("long"))
    bridge.accepts(long)
    work = bridge.submit(leaf("short"))
    busy = bridge.session_of(long)
    assert bridge.session_of(work) == busy
    assert of(RecallWork, bridge.sent(bridge.advance(0.11), busy)) == [RecallWork(work.current_id)]
    assert work.state is W.ASSIGNED
    for session in sessions - {busy}:
        bridge.says(session, WorkerBeat(PAUSED))
    bridge.says(busy, WorkerBeat(PAUSED), WorkReturned(work.current_id))
    assert work.state is W.PENDING
    assert (work.failures, bridge.machine.pending, bridge.session(busy).outstanding) == (0, 1, 1)


@works(W.ACCEPTED, T.FAIL)
def a_failed_work_is_pending_again() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.accepts(work)
    bridge.says(session, WorkerBeat(PAUSED), WorkFailed(work.current_id, PASSING))
    assert work.state is W.PENDING
    assert (work.failures, bridge.machine.pending, bridge.session(session).outstanding) == (1, 1, 0)


@works(W.READY, T.FETCH_FAIL)
def a_work_whose_fetch_failed_is_pending_again_and_its_attempt_canceled() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.ready(work)
    bridge.says(session, WorkerBeat(PAUSED))
    first = work.current_id
    effects = bridge.step(cv.FetchFailed(first, PASSING))
    assert work.state is W.PENDING
    assert effects == [
        ce.SendToWorker(session, CancelWork(first)),
        ce.ReportReassignment(first, ReassignmentReason.FETCH_FAILED),
    ]
    assert (work.failures, bridge.session(session).outstanding) == (1, 1)
    bridge.says(session, WorkCanceled(first))
    assert bridge.session(session).outstanding == 0


@works(W.READY, T.ARTIFACT_LOST)
def a_work_whose_artifact_was_lost_is_pending_again() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.ready(work)
    bridge.says(session, WorkerBeat(PAUSED), ArtifactLost(work.current_id, "evicted"))
    assert work.state is W.PENDING
    assert (work.failures, bridge.machine.pending, bridge.session(session).outstanding) == (1, 1, 0)


@works(W.ASSIGNED, T.LOSE)
def an_assigned_work_is_pending_again_when_its_worker_is_lost() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.loses(session)
    assert work.state is W.PENDING
    assert (work.failures, bridge.machine.pending) == (1, 1)


@works(W.ACCEPTED, T.LOSE)
def an_accepted_work_is_pending_again_when_its_worker_is_lost() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.accepts(work)
    bridge.loses(session)
    assert work.state is W.PENDING
    assert (work.failures, bridge.machine.pending) == (1, 1)


@works(W.READY, T.LOSE)
def a_ready_work_is_pending_again_when_its_worker_is_lost() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.ready(work)
    effects = bridge.loses(session)
    assert work.state is W.PENDING
    assert (work.failures, bridge.machine.pending) == (1, 1)
    assert not of(ce.CancelFetch, effects)  # the fetch may go on


# Works: a fetch that outlived its session


def _orphaned_fetch(bridge: Bridge) -> tuple[Work, AttemptId]:
    session = bridge.joins("w1")
    work = bridge.submit(leaf())
    bridge.ready(work)
    first = work.current_id
    bridge.loses(session)
    return work, first


@works(W.PENDING, T.COMMIT)
def an_orphaned_fetch_commits_a_pending_work() -> None:
    bridge = Bridge()
    work, first = _orphaned_fetch(bridge)
    effects = bridge.fetched(first)
    assert work.state is W.DONE
    assert effects == [ce.DeliverResult(first)]
    assert bridge.machine.pending == 0


@works(W.ASSIGNED, T.COMMIT)
def an_orphaned_fetch_commits_an_assigned_work() -> None:
    bridge = Bridge()
    work, first = _orphaned_fetch(bridge)
    session = bridge.joins("w2")
    assert work.state is W.ASSIGNED
    effects = bridge.fetched(first)
    assert work.state is W.DONE
    assert effects == [ce.DeliverResult(first), ce.SendToWorker(session, CancelWork(work.current_id))]


@works(W.ACCEPTED, T.COMMIT)
def an_orphaned_fetch_commits_an_accepted_work() -> None:
    bridge = Bridge()
    work, first = _orphaned_fetch(bridge)
    session = bridge.joins("w2")
    bridge.accepts(work)
    effects = bridge.fetched(first)
    assert work.state is W.DONE
    assert effects == [ce.DeliverResult(first), ce.SendToWorker(session, CancelWork(work.current_id))]


# Works: the ends that are not success


def _assert_canceled(bridge: Bridge, work: Work, effects: list[ce.Effect]) -> None:
    assert work.state is W.CANCELED
    assert work.query.unfinished == 0
    assert not of(ce.EndQuery, effects)
    assert of(ce.EndQuery, bridge.seal()) == [ce.EndQuery(work.query.query_id, ce.Outcome.SUCCEEDED)]


@works(W.PENDING, T.CANCEL)
def a_pending_work_is_canceled() -> None:
    bridge = Bridge()
    work = bridge.submit(leaf())
    effects = bridge.cancel_work(work)
    assert bridge.machine.pending == 0
    _assert_canceled(bridge, work, effects)


@works(W.ASSIGNED, T.CANCEL)
def an_assigned_work_is_canceled_on_its_worker() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    effects = bridge.cancel_work(work)
    assert effects == [ce.SendToWorker(session, CancelWork(work.current_id))]
    _assert_canceled(bridge, work, effects)


@works(W.ACCEPTED, T.CANCEL)
def an_accepted_work_is_canceled_on_its_worker() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.accepts(work)
    effects = bridge.cancel_work(work)
    assert effects == [ce.SendToWorker(session, CancelWork(work.current_id))]
    assert bridge.session(session).outstanding == 1
    bridge.says(session, WorkCanceled(work.current_id))
    assert bridge.session(session).outstanding == 0
    _assert_canceled(bridge, work, effects)


@works(W.READY, T.CANCEL)
def a_ready_work_is_canceled_with_its_fetch() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.ready(work)
    effects = bridge.cancel_work(work)
    assert effects == [ce.CancelFetch(work.current_id), ce.SendToWorker(session, CancelWork(work.current_id))]
    _assert_canceled(bridge, work, effects)


@works(W.PENDING, T.GIVE_UP)
def a_work_that_cannot_be_done_fails_its_query() -> None:
    bridge = Bridge(max_failures=1)
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.accepts(work)
    effects = bridge.says(session, WorkFailed(work.current_id, PASSING))
    assert work.state is W.FAILED
    (end,) = of(ce.EndQuery, effects)
    assert end.outcome is ce.Outcome.FAILED
    assert end.error is not None
    assert end.error.code == "attempts_exhausted"
    assert bridge.machine.pending == 0


# Workers, as a coordinator sees them


def _seen(bridge: Bridge, state: WorkerState) -> Session:
    """A worker that the coordinator sees in this state."""
    status = {S.PAUSED: PAUSED, S.DRAINING: DRAINING}.get(state, ACCEPTING)
    session_id = bridge.joins(status=status)
    session = bridge.session(session_id)
    if state is S.THROTTLED:
        bridge.says(session_id, Throttled(30))
    elif state is S.LATE:
        bridge.advance(2, silent=[session_id])
    assert session.state is state
    return session


def _is_given_work(bridge: Bridge, session: Session) -> bool:
    """Whether the worker is in rotation: it gets a work that is submitted."""
    return bool(bridge.assigned(bridge.step(cv.WorkSubmitted(leaf(f"probe at {bridge.now}"))), session.session_id))


@workers(S.ABSENT, R.JOIN)
def a_worker_joins_without_taking_work_yet() -> None:
    bridge = Bridge()
    work = bridge.submit(leaf())
    session = bridge.session(bridge.joins(status=PAUSED))
    assert session.state is S.PAUSED
    assert bridge.machine.moves == {(S.ABSENT, R.JOIN): 1}  # not by way of another state
    assert work.state is W.PENDING
    assert bridge.machine.next_deadline() == bridge.now + 1


@workers(S.PAUSED, R.OPEN)
def a_worker_that_begins_to_accept_gets_what_waits() -> None:
    bridge = Bridge()
    work = bridge.submit(leaf())
    session = _seen(bridge, S.PAUSED)
    effects = bridge.says(session.session_id, WorkerBeat(ACCEPTING))
    assert session.state is S.ACCEPTING
    assert bridge.assigned(effects) == [work.key.work_id]


def _closes(state: WorkerState) -> None:
    bridge = Bridge()
    bridge.open_query()
    session = _seen(bridge, state)
    bridge.says(session.session_id, WorkerBeat(PAUSED))
    assert session.state is S.PAUSED
    assert not _is_given_work(bridge, session)
    bridge.advance(60)
    assert session.state is S.PAUSED  # the throttle, if there was one, has no say any more


@workers(S.ACCEPTING, R.CLOSE)
def a_worker_that_stops_accepting_gets_nothing_new() -> None:
    _closes(S.ACCEPTING)


@workers(S.THROTTLED, R.CLOSE)
def a_throttled_worker_that_stops_accepting_gets_nothing_new() -> None:
    _closes(S.THROTTLED)


@workers(S.ACCEPTING, R.THROTTLE)
def a_throttled_worker_gets_nothing_for_a_while() -> None:
    bridge = Bridge()
    bridge.open_query()
    session = _seen(bridge, S.ACCEPTING)
    bridge.says(session.session_id, Throttled(5))
    assert session.state is S.THROTTLED
    assert not _is_given_work(bridge, session)


@workers(S.THROTTLED, R.THROTTLE)
def a_second_throttle_replaces_the_first() -> None:
    bridge = Bridge()
    session = _seen(bridge, S.ACCEPTING)
    bridge.says(session.session_id, Throttled(5))
    bridge.says(session.session_id, Throttled(10))
    assert session.state is S.THROTTLED
    bridge.advance(9.9)
    assert session.state is S.THROTTLED
    bridge.advance(0.1)
    assert session.state is S.ACCEPTING


@workers(S.PAUSED, R.THROTTLE)
def a_throttle_of_a_paused_worker_counts_once_it_accepts() -> None:
    bridge = Bridge()
    session = _seen(bridge, S.PAUSED)
    bridge.says(session.session_id, Throttled(5))
    assert session.state is S.PAUSED
    bridge.advance(1)
    bridge.says(session.session_id, WorkerBeat(ACCEPTING))
    assert session.state is S.THROTTLED
    bridge.advance(3.9)
    assert session.state is S.THROTTLED
    bridge.advance(0.1)
    assert session.state is S.ACCEPTING


@workers(S.DRAINING, R.THROTTLE)
def a_throttle_of_a_draining_worker_changes_nothing() -> None:
    bridge = Bridge()
    session = _seen(bridge, S.DRAINING)
    effects = bridge.says(session.session_id, Throttled(5))
    assert session.state is S.DRAINING
    assert effects == []


@workers(S.THROTTLED, R.THROTTLE_END)
def a_worker_gets_what_waits_when_its_throttle_ends() -> None:
    bridge = Bridge()
    session = _seen(bridge, S.THROTTLED)
    work = bridge.submit(leaf())
    bridge.advance(29.9)
    assert session.state is S.THROTTLED
    effects = bridge.advance(0.1, silent=[session.session_id])
    assert session.state is S.ACCEPTING
    assert bridge.assigned(effects) == [work.key.work_id]


def _misses(state: WorkerState) -> None:
    bridge = Bridge()
    bridge.open_query()
    session = _seen(bridge, state)
    bridge.advance(1.9, silent=[session.session_id])
    assert session.state is state
    effects = bridge.advance(0.1, silent=[session.session_id])
    assert session.state is S.LATE
    assert of(ce.WarnOfSilence, effects) == [ce.WarnOfSilence(session.session_id, WorkerId("w1"), 2.0)]
    assert not _is_given_work(bridge, session)


@workers(S.ACCEPTING, R.MISS)
def a_silent_worker_gets_nothing_new() -> None:
    _misses(S.ACCEPTING)


@workers(S.PAUSED, R.MISS)
def a_silent_paused_worker_is_late() -> None:
    _misses(S.PAUSED)


@workers(S.THROTTLED, R.MISS)
def a_silent_throttled_worker_is_late() -> None:
    _misses(S.THROTTLED)


@workers(S.DRAINING, R.MISS)
def a_silent_draining_worker_is_warned_of_and_stays_draining() -> None:
    bridge = Bridge()
    session = _seen(bridge, S.DRAINING)
    effects = bridge.advance(2, silent=[session.session_id])
    assert session.state is S.DRAINING
    assert of(ce.WarnOfSilence, effects) == [ce.WarnOfSilence(session.session_id, WorkerId("w1"), 2.0)]


@workers(S.LATE, R.BEAT)
def a_late_worker_that_is_heard_again_is_what_it_was() -> None:
    bridge = Bridge()
    session_id = bridge.joins(status=PAUSED)
    session = bridge.session(session_id)
    bridge.advance(2, silent=[session_id])
    assert session.state is S.LATE
    bridge.says(session_id, CreditChanged(2))
    assert session.state is S.PAUSED
    assert bridge.machine.moves == {(S.ABSENT, R.JOIN): 1, (S.PAUSED, R.MISS): 1, (S.LATE, R.BEAT): 1}
    bridge.says(session_id, WorkerBeat(ACCEPTING))
    bridge.advance(2, silent=[session_id])
    assert session.state is S.LATE
    bridge.says(session_id, CreditChanged(3))
    assert session.state is S.ACCEPTING


def _drains(state: WorkerState) -> None:
    bridge = Bridge()
    bridge.open_query()
    session = _seen(bridge, state)
    bridge.says(session.session_id, WorkerBeat(DRAINING))
    assert session.state is S.DRAINING
    assert not _is_given_work(bridge, session)
    bridge.advance(60)
    assert session.state is S.DRAINING


@workers(S.PAUSED, R.DRAIN)
def a_paused_worker_drains() -> None:
    _drains(S.PAUSED)


@workers(S.ACCEPTING, R.DRAIN)
def an_accepting_worker_drains() -> None:
    _drains(S.ACCEPTING)


@workers(S.THROTTLED, R.DRAIN)
def a_throttled_worker_drains() -> None:
    _drains(S.THROTTLED)


def _is_lost(state: WorkerState) -> None:
    bridge = Bridge()
    bridge.open_query()
    session = _seen(bridge, state)
    bridge.loses(session.session_id)
    assert session.state is S.ABSENT
    assert bridge.machine.roster.of_worker(WorkerId("w1")) is None
    assert not _is_given_work(bridge, session)
    assert bridge.machine.next_deadline() is None  # no timer of it is left


@workers(S.PAUSED, R.LOSE)
def a_paused_worker_is_lost() -> None:
    _is_lost(S.PAUSED)


@workers(S.ACCEPTING, R.LOSE)
def an_accepting_worker_is_lost() -> None:
    _is_lost(S.ACCEPTING)


@workers(S.THROTTLED, R.LOSE)
def a_throttled_worker_is_lost() -> None:
    _is_lost(S.THROTTLED)


@workers(S.LATE, R.LOSE)
def a_late_worker_is_lost() -> None:
    _is_lost(S.LATE)


@workers(S.DRAINING, R.LOSE)
def a_draining_worker_is_lost() -> None:
    _is_lost(S.DRAINING)


# Attempts, on the worker


@attempts(A.QUEUED, X.START)
def an_attempt_starts_when_a_slot_is_free() -> None:
    mate = Mate()
    session = mate.opens()
    effects = mate.hears(session, AssignWork(leaf(), 1))
    (attempt,) = mate.machine.attempts()
    assert attempt.state is A.RUNNING
    assert effects == [
        we.SendToCoordinator(session, WorkAccepted(attempt.attempt_id)),
        we.StartExecution(attempt.attempt_id, leaf()),
    ]


@attempts(A.QUEUED, X.CANCEL)
def a_queued_attempt_is_canceled_at_once() -> None:
    mate = Mate()
    session = mate.opens()
    mate.assigned(leaf("a"), session)
    queued = mate.assigned(leaf("b"), session)
    effects = mate.cancels(queued, session)
    assert queued.state is A.ENDED
    assert effects == [we.SendToCoordinator(session, WorkCanceled(queued.attempt_id))]
    assert (mate.session(session).outstanding, mate.machine.queued) == (1, 0)


@attempts(A.QUEUED, X.RETURN)
def a_queued_attempt_is_returned_by_a_drain() -> None:
    mate = Mate()
    session = mate.opens()
    mate.assigned(leaf("a"), session)
    queued = mate.assigned(leaf("b"), session)
    effects = mate.step(wv.DrainRequested())
    assert queued.state is A.ENDED
    assert mate.told(effects) == [WorkerBeat(DRAINING), WorkReturned(queued.attempt_id)]
    assert (mate.session(session).outstanding, mate.machine.queued) == (1, 0)


@attempts(A.QUEUED, X.RECALL)
def a_queued_attempt_is_returned_when_it_is_recalled() -> None:
    mate = Mate()
    session = mate.opens()
    mate.assigned(leaf("a"), session)
    queued = mate.assigned(leaf("b"), session)
    effects = mate.hears(session, RecallWork(queued.attempt_id))
    assert queued.state is A.ENDED
    assert effects == [we.SendToCoordinator(session, WorkReturned(queued.attempt_id))]
    assert (mate.session(session).outstanding, mate.machine.queued) == (1, 0)


@attempts(A.QUEUED, X.ORPHAN)
def a_queued_attempt_ends_with_its_session() -> None:
    mate = Mate()
    other = mate.opens("other")
    session = mate.opens()
    mate.assigned(leaf("a"), other)
    queued = mate.assigned(leaf("b"), session)
    effects = mate.loses(session)
    assert queued.state is A.ENDED
    assert we.ClearSession(session) in effects
    assert mate.machine.queued == 0


@attempts(A.RUNNING, X.SUCCEED)
def a_finished_attempt_is_ready_and_frees_its_slot() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    effects = mate.succeeds(attempt)
    assert attempt.state is A.READY
    assert effects == [we.SendToCoordinator(session, WorkReady(attempt.attempt_id, ARTIFACT))]
    assert (mate.machine.busy_slots, mate.session(session).outstanding) == (0, 1)


@attempts(A.RUNNING, X.END)
def an_attempt_that_leaves_nothing_ends_and_gives_back_its_slot_and_its_credit() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(leaves_nothing=True), session)
    effects = mate.ends(attempt)
    assert attempt.state is A.ENDED
    assert effects == [we.SendToCoordinator(session, WorkEnded(attempt.attempt_id))]
    assert (mate.machine.busy_slots, mate.session(session).outstanding) == (0, 0)


@attempts(A.RUNNING, X.FAIL)
def a_failed_attempt_ends() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    effects = mate.fails(attempt)
    assert attempt.state is A.ENDED
    assert effects == [we.SendToCoordinator(session, WorkFailed(attempt.attempt_id, PASSING))]
    assert (mate.machine.busy_slots, mate.session(session).outstanding) == (0, 0)


@attempts(A.RUNNING, X.CANCEL)
def a_running_attempt_is_told_to_stop_and_keeps_its_slot() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    effects = mate.cancels(attempt, session)
    assert attempt.state is A.STOPPING
    assert effects == [we.StopExecution(attempt.attempt_id)]
    assert (mate.machine.busy_slots, mate.session(session).outstanding) == (1, 1)


@attempts(A.RUNNING, X.ORPHAN)
def a_running_attempt_is_told_to_stop_when_its_session_is_gone() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    effects = mate.loses(session)
    assert attempt.state is A.STOPPING
    assert effects == [we.StopExecution(attempt.attempt_id)]
    assert mate.machine.busy_slots == 1


def _stopping(mate: Mate) -> None:
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.cancels(attempt, session)
    assert attempt.state is A.STOPPING


@attempts(A.STOPPING, X.SUCCEED)
def a_stopping_attempt_that_was_faster_is_canceled_and_its_result_dropped() -> None:
    mate = Mate()
    _stopping(mate)
    (attempt,) = mate.machine.attempts()
    effects = mate.succeeds(attempt)
    assert attempt.state is A.ENDED
    assert of(we.DropResult, effects) == [we.DropResult(attempt.attempt_id, DropReason.CANCELED)]
    assert mate.told(effects) == [WorkCanceled(attempt.attempt_id)]
    assert mate.machine.busy_slots == 0


@attempts(A.STOPPING, X.END)
def a_stopping_attempt_that_was_faster_and_leaves_nothing_is_canceled() -> None:
    mate = Mate()
    _stopping(mate)
    (attempt,) = mate.machine.attempts()
    effects = mate.ends(attempt)
    assert attempt.state is A.ENDED
    assert of(we.DropResult, effects) == []
    assert mate.told(effects) == [WorkCanceled(attempt.attempt_id)]
    assert mate.machine.busy_slots == 0


@attempts(A.STOPPING, X.FAIL)
def a_stopping_attempt_that_fails_is_canceled() -> None:
    mate = Mate()
    _stopping(mate)
    (attempt,) = mate.machine.attempts()
    effects = mate.fails(attempt)
    assert attempt.state is A.ENDED
    assert mate.told(effects) == [WorkCanceled(attempt.attempt_id)]
    assert mate.machine.busy_slots == 0


@attempts(A.STOPPING, X.STOP)
def a_stopping_attempt_that_stopped_is_canceled() -> None:
    mate = Mate()
    _stopping(mate)
    (attempt,) = mate.machine.attempts()
    effects = mate.stops(attempt)
    assert attempt.state is A.ENDED
    assert effects == [we.SendToCoordinator(next(mate.machine.sessions()).session_id, WorkCanceled(attempt.attempt_id))]
    assert mate.machine.busy_slots == 0


@attempts(A.STOPPING, X.CANCEL)
def a_stopping_attempt_is_not_told_twice() -> None:
    mate = Mate()
    _stopping(mate)
    (attempt,) = mate.machine.attempts()
    (session,) = mate.machine.sessions()
    assert mate.cancels(attempt, session.session_id) == []
    assert attempt.state is A.STOPPING


@attempts(A.STOPPING, X.ORPHAN)
def a_stopping_attempt_whose_session_is_gone_is_not_told_twice() -> None:
    mate = Mate()
    _stopping(mate)
    (attempt,) = mate.machine.attempts()
    (session,) = mate.machine.sessions()
    assert mate.loses(session.session_id) == []
    assert attempt.state is A.STOPPING
    assert mate.stops(attempt) == [we.ClearSession(session.session_id)]


@attempts(A.READY, X.ACK)
def an_acknowledged_artifact_lingers() -> None:
    mate = Mate(artifact_linger_s=30)
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.succeeds(attempt)
    effects = mate.acknowledged(attempt, session)
    assert attempt.state is A.LINGERING
    assert effects == [we.ReleaseResult(attempt.attempt_id)]
    assert (mate.session(session).outstanding, mate.session(session).attempts) == (0, {})
    assert of(we.DropResult, mate.advance(29.9)) == []
    assert of(we.DropResult, mate.advance(0.1)) == [we.DropResult(attempt.attempt_id, DropReason.ACKNOWLEDGED)]


@attempts(A.READY, X.CANCEL)
def a_ready_attempt_is_canceled_and_its_artifact_dropped() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.succeeds(attempt)
    effects = mate.cancels(attempt, session)
    assert attempt.state is A.ENDED
    assert effects == [
        we.DropResult(attempt.attempt_id, DropReason.CANCELED),
        we.SendToCoordinator(session, WorkCanceled(attempt.attempt_id)),
    ]


@attempts(A.READY, X.LOSE)
def a_ready_artifact_that_is_evicted_is_reported_lost() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.succeeds(attempt)
    effects = mate.evicts(attempt)
    assert attempt.state is A.ENDED
    assert mate.told(effects) == [ArtifactLost(attempt.attempt_id, "evicted")]
    assert of(we.DropResult, effects) == [we.DropResult(attempt.attempt_id, DropReason.EVICTED)]
    assert mate.session(session).outstanding == 0


@attempts(A.READY, X.ORPHAN)
def a_ready_artifact_lingers_when_its_session_is_gone() -> None:
    mate = Mate(artifact_linger_s=30)
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.succeeds(attempt)
    effects = mate.loses(session)
    assert attempt.state is A.LINGERING
    assert effects == [we.ReleaseResult(attempt.attempt_id), we.ClearSession(session)]
    assert of(we.DropResult, mate.advance(29.9)) == []
    assert of(we.DropResult, mate.advance(0.1)) == [we.DropResult(attempt.attempt_id, DropReason.CANCELED)]


@attempts(A.LINGERING, X.LOSE)
def a_lingering_artifact_that_is_evicted_is_dropped_and_nobody_told() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.succeeds(attempt)
    mate.acknowledged(attempt, session)
    effects = mate.evicts(attempt)
    assert attempt.state is A.ENDED
    assert effects == [we.DropResult(attempt.attempt_id, DropReason.ACKNOWLEDGED)]

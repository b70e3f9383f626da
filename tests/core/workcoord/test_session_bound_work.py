"""What a coordinator promises for work that is bound to a session: leaves and searches."""

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import QueryId, WorkerId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.tables import WorkerState, WorkState
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    ArtifactLost,
    AssignWork,
    CancelQuery,
    CancelWork,
    CreditChanged,
    DrainRequest,
    Goodbye,
    RejectReason,
    WorkAccepted,
    WorkCanceled,
    WorkerBeat,
    WorkFailed,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import AttemptId
from tests.core.workcoord.harness import (
    ACCEPTING,
    DRAINING,
    FINAL,
    PASSING,
    Bridge,
    Mate,
    key,
    leaf,
    of,
    only_end,
    two_workers,
)

W, S = WorkState, WorkerState


# READY is not the end, and what fails is tried elsewhere


def test_a_worker_lost_before_the_fetch_costs_an_attempt_and_not_the_query() -> None:
    bridge = Bridge()
    work, home, other = two_workers(bridge)
    bridge.ready(work)
    first = work.current_id
    effects = bridge.loses(bridge.session_of(work))
    assert not of(ce.EndQuery, effects)
    assert bridge.worker_of(work) == other != home
    assert (work.number, work.failures) == (2, 1)
    bridge.step(cv.FetchFailed(first, PASSING))  # of the attempt that is gone: it counts no second time
    assert (work.number, work.failures) == (2, 1)
    bridge.done(work)
    assert only_end(bridge.seal()).outcome is ce.Outcome.SUCCEEDED


def test_failed_work_is_tried_on_another_worker() -> None:
    bridge = Bridge()
    work, _, other = two_workers(bridge)
    bridge.says(bridge.session_of(work), WorkFailed(work.current_id, PASSING))
    assert (work.state, bridge.worker_of(work), work.number) == (W.ASSIGNED, other, 2)


def test_work_whose_fetch_failed_is_tried_on_another_worker_and_the_old_artifact_dropped() -> None:
    bridge = Bridge()
    work, _, other = two_workers(bridge)
    bridge.ready(work)
    first, session = work.current_id, bridge.session_of(work)
    effects = bridge.step(cv.FetchFailed(first, PASSING))
    assert bridge.worker_of(work) == other
    assert CancelWork(first) in bridge.sent(effects, session)


def test_a_lost_artifact_is_made_again_elsewhere_while_its_fetch_may_still_win() -> None:
    bridge = Bridge()
    work, _, other = two_workers(bridge)
    bridge.ready(work)
    first = work.current_id
    bridge.says(bridge.session_of(work), ArtifactLost(first, "evicted"))
    assert bridge.worker_of(work) == other
    assert of(ce.DeliverResult, bridge.fetched(first)) == [ce.DeliverResult(first)]


def test_work_returns_to_where_it_failed_when_nobody_else_is_there() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    work = bridge.submit(leaf())
    bridge.accepts(work)
    bridge.says(session, WorkFailed(work.current_id, PASSING))
    assert (bridge.worker_of(work), work.number) == ("w1", 2)


def test_work_does_not_return_to_where_it_failed_even_when_the_other_is_busy() -> None:
    bridge = Bridge()
    work, home, other = two_workers(bridge)
    busy = next(s for s in bridge.machine.roster.sessions() if s.worker_id == other)
    bridge.says(busy.session_id, CreditChanged(0))
    bridge.says(bridge.session_of(work), WorkFailed(work.current_id, PASSING))
    assert work.state is W.PENDING
    bridge.advance(5)
    assert work.state is W.PENDING  # it does not spill over to the one that it failed on either
    bridge.says(busy.session_id, CreditChanged(1))
    assert bridge.worker_of(work) == other != home


def test_attempts_are_exhausted_after_as_many_failures_as_the_policy_allows() -> None:
    bridge = Bridge(max_failures=3)
    session = bridge.joins()
    work = bridge.submit(leaf())
    for _ in range(2):
        bridge.accepts(work)
        assert not of(ce.EndQuery, bridge.says(session, WorkFailed(work.current_id, PASSING)))
    bridge.accepts(work)
    end = only_end(bridge.says(session, WorkFailed(work.current_id, PASSING)))
    assert end.outcome is ce.Outcome.FAILED
    assert end.error is not None
    assert (end.error.code, end.error.retryable) == ("attempts_exhausted", True)
    assert end.error.message == "work a failed 3 times, the last time: the disk was busy"
    assert bridge.machine.counters["queries failed"] == 1


def test_losses_count_as_failures_and_name_the_worker() -> None:
    bridge = Bridge(max_failures=2)
    work = bridge.submit(leaf())
    bridge.loses(bridge.joins("w1"))
    assert work.failures == 1
    end = only_end(bridge.loses(bridge.joins("w2")))
    assert end.error is not None
    assert end.error.message.endswith("worker w2 was lost: the connection broke")


def test_rejections_and_returns_are_nobodys_failure() -> None:
    bridge = Bridge(max_failures=1)
    work = bridge.submit(leaf())
    for _ in range(5):
        session = bridge.joins()
        bridge.says(session, WorkRejected(work.current_id, RejectReason.NOT_ACCEPTING))
        bridge.says(session, WorkerBeat(ACCEPTING))
        bridge.says(session, WorkerBeat(DRAINING), WorkReturned(work.current_id))
        bridge.loses(session)
    assert (work.failures, work.number, work.avoid) == (0, 10, ())
    assert bridge.machine.counters["rejected"] == 5


def test_an_error_that_retrying_cannot_cure_is_final_at_once() -> None:
    bridge = Bridge()
    work, _, _ = two_workers(bridge)
    session = bridge.session_of(work)
    end = only_end(bridge.says(session, WorkFailed(work.current_id, FINAL)))
    assert (end.outcome, end.error) == (ce.Outcome.FAILED, FINAL)
    assert work.number == 1
    assert bridge.session(session).outstanding == 0


def test_a_failed_query_cancels_its_other_works_wherever_they_are() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=2)
    first = bridge.submit(leaf("a"), leaf("b"), leaf("c"))
    bridge.accepts(first)
    effects = bridge.says(session, WorkFailed(first.current_id, FINAL))
    assert bridge.sent(effects, session) == [CancelQuery(QueryId("q"))]
    assert bridge.machine.pending == 0
    bridge.says(session, WorkAccepted(AttemptId(key("b"), 1)), WorkCanceled(AttemptId(key("b"), 1)))
    assert bridge.session(session).free == 2


def test_a_lost_artifact_counts_as_a_failure_and_says_whose_it_was() -> None:
    bridge = Bridge(max_failures=1)
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.ready(work)
    end = only_end(bridge.says(session, ArtifactLost(work.current_id, "evicted")))
    assert end.error is not None
    assert end.error.message.endswith("worker w1 lost the result: evicted")


def test_a_fetch_of_an_earlier_attempt_that_fails_does_no_harm_to_the_one_that_is_ready() -> None:
    bridge = Bridge()
    work, _, _ = two_workers(bridge)
    bridge.ready(work)
    first = work.current_id
    bridge.loses(bridge.session_of(work))
    bridge.ready(work)
    assert bridge.step(cv.FetchFailed(first, PASSING)) == []
    assert (work.state, work.number) == (W.READY, 2)


def test_a_lost_session_that_ends_one_query_moves_the_works_of_others() -> None:
    bridge = Bridge(max_failures=1)
    session = bridge.joins()
    bridge.submit(leaf("a"), leaf("b"), leaf("c", "other"))
    assert [end.query_id for end in of(ce.EndQuery, bridge.loses(session))] == ["q"]
    assert bridge.work(key("c", "other")).state is W.PENDING


def test_a_query_that_lives_long_keeps_nothing_of_what_has_ended_but_its_name() -> None:
    bridge = Bridge()
    bridge.joins("w1", credit=9)
    dropped, finished = bridge.submit(leaf("dropped"), leaf("finished")), bridge.work(key("finished"))
    bridge.cancel_work(dropped)
    bridge.done(finished)
    query = finished.query
    assert (query.works, query.live, query.fetches) == ({}, {}, {})
    assert query.finished == {key("dropped"), key("finished")}


def test_a_lost_session_that_ends_a_query_takes_its_other_works_along() -> None:
    bridge = Bridge(max_failures=1)
    session = bridge.joins("w1")
    bridge.submit(leaf("a"), leaf("b"))
    other = bridge.work(key("b"))
    effects = bridge.loses(session)
    assert [end.outcome for end in of(ce.EndQuery, effects)] == [ce.Outcome.FAILED]
    assert bridge.sent(effects) == []
    assert (other.state, other.current) == (W.CANCELED, None)


# One result


def test_the_first_completion_is_delivered_and_later_ones_are_dropped() -> None:
    bridge = Bridge()
    work, _, _ = two_workers(bridge)
    bridge.ready(work)
    first = work.current_id
    bridge.loses(bridge.session_of(work))
    bridge.ready(work)
    second, session = work.current_id, bridge.session_of(work)
    effects = bridge.fetched(second)
    assert effects[0] == ce.DeliverResult(second)
    assert of(ce.CancelFetch, effects) == [ce.CancelFetch(first)]
    assert bridge.sent(effects, session) == [ArtifactAck(second)]
    assert bridge.fetched(first) == [ce.DropResult(first)]  # the cancel came too late
    assert bridge.fetched(second) == [ce.DropResult(second)]
    assert bridge.machine.counters["results_dropped"] == 2
    bridge.seal()
    assert bridge.fetched(first) == [ce.DropResult(first)]


def test_a_fetch_that_outlives_its_session_counts_and_cancels_the_second_attempt_and_its_fetch() -> None:
    bridge = Bridge()
    work, _, _ = two_workers(bridge)
    bridge.ready(work)
    first = work.current_id
    bridge.loses(bridge.session_of(work))
    bridge.ready(work)
    second, session = work.current_id, bridge.session_of(work)
    effects = bridge.fetched(first)
    assert effects == [
        ce.DeliverResult(first),
        ce.CancelFetch(second),
        ce.SendToWorker(session, CancelWork(second)),
    ]
    assert bridge.step(cv.FetchFailed(second, PASSING)) == []
    assert bridge.session(session).outstanding == 1
    bridge.says(session, WorkCanceled(second))
    assert bridge.session(session).outstanding == 0
    assert only_end(bridge.seal()).outcome is ce.Outcome.SUCCEEDED


def test_a_result_is_not_fetched_for_a_query_that_has_ended() -> None:
    bridge = Bridge()
    work, _, _ = two_workers(bridge)
    bridge.ready(work)
    effects = bridge.cancel()
    assert of(ce.CancelFetch, effects) == [ce.CancelFetch(work.current_id)]
    assert bridge.step(cv.FetchFailed(work.current_id, PASSING)) == []
    assert bridge.fetched(work.current_id) == [ce.DropResult(work.current_id)]


def test_the_result_of_one_work_acknowledges_its_credit_to_the_next() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=1)
    first = bridge.submit(leaf("a"), leaf("b"))
    effects = bridge.done(first)
    assert bridge.sent(effects, session) == [ArtifactAck(first.current_id), AssignWork(leaf("b"), 1)]


# Rejection and draining


def test_a_rejecting_worker_is_out_of_rotation_until_it_says_that_it_accepts() -> None:
    bridge = Bridge()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.says(session, WorkRejected(work.current_id, RejectReason.NOT_ACCEPTING))
    assert bridge.session(session).state is S.PAUSED
    bridge.submit(leaf("b"))
    bridge.says(session, CreditChanged(9))
    bridge.advance(30)
    assert (work.state, work.number) == (W.PENDING, 1)  # no ping-pong
    effects = bridge.says(session, WorkerBeat(ACCEPTING))
    assert bridge.assigned(effects) == ["a", "b"]


def test_a_worker_that_rejects_because_it_drains_is_draining() -> None:
    bridge = Bridge()
    work, home, other = two_workers(bridge)
    second = bridge.submit(leaf("b"))
    assert bridge.worker_of(second) == home
    session = bridge.session_of(second)
    bridge.says(session, WorkRejected(second.current_id, RejectReason.DRAINING))
    assert bridge.session(session).state is S.DRAINING
    assert bridge.worker_of(second) == other
    assert bridge.worker_of(work) == home


def test_drained_work_moves_at_once_and_running_work_finishes() -> None:
    bridge = Bridge()
    running, home, other = two_workers(bridge)
    queued = bridge.submit(leaf("b"))
    session = bridge.session_of(queued)
    effects = bridge.says(session, WorkerBeat(DRAINING), WorkReturned(queued.current_id))
    assert bridge.assigned(effects) == ["b"]
    assert bridge.worker_of(queued) == other
    assert bridge.worker_of(running) == home
    assert bridge.submit(leaf("c")).current is not None
    assert bridge.worker_of(bridge.work(key("c"))) == other
    bridge.done(running)
    assert bridge.session(session).attempts == {}


def test_whoever_asks_may_have_a_worker_drained() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    effects = bridge.step(cv.DrainRequested(WorkerId("w1")))
    assert effects == [ce.SendToWorker(session, DrainRequest())]
    assert bridge.session(session).state is S.ACCEPTING  # the worker says when
    assert bridge.step(cv.DrainRequested(WorkerId("nobody"))) == []


# Cancelling


def test_canceling_a_query_reaches_every_worker_that_has_a_part_of_it_and_no_other() -> None:
    bridge = Bridge()
    one, two, three = bridge.joins("w1", credit=1), bridge.joins("w2", credit=1), bridge.joins("w3", credit=0)
    first = bridge.submit(leaf("a"))
    bridge.says(one if bridge.session_of(first) == two else two, CreditChanged(1))
    second = bridge.submit(leaf("b"), leaf("c"))
    bridge.advance(1)
    assert second.state is W.ASSIGNED
    bridge.log.clear()
    bridge.submit(leaf("x", "other"))
    effects = bridge.cancel()
    told = of(ce.SendToWorker, effects)
    assert {each.session_id for each in told} == {one, two}
    assert [each.message for each in told] == [CancelQuery(QueryId("q"))] * 2
    assert bridge.session(three).outstanding == 0
    end = only_end(effects)
    assert end.outcome is ce.Outcome.CANCELED
    assert end.error is not None
    assert (end.error.code, end.error.message) == ("canceled", "the caller went away")
    assert not end.error.retryable
    assert bridge.machine.pending == 1  # that of the other query
    assert bridge.cancel() == []  # it has ended


def test_credit_of_a_canceled_query_comes_back_with_the_ends_of_its_attempts() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=1)
    work = bridge.submit(leaf("a"), leaf("b", "other"))
    bridge.cancel()
    assert bridge.session(session).free == 0
    effects = bridge.says(session, WorkAccepted(work.current_id), WorkCanceled(work.current_id))
    assert bridge.assigned(effects) == ["b"]


def test_a_canceled_work_is_no_longer_waited_for() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=1)
    first = bridge.submit(leaf("a"), leaf("b"))
    second = bridge.work(key("b"))
    assert bridge.step(cv.WorkCancelRequested(key("never"))) == []
    bridge.seal()
    bridge.cancel_work(second)
    assert bridge.cancel_work(second) == []  # once is enough
    assert bridge.machine.pending == 0
    end = only_end(bridge.done(first))
    assert end.outcome is ce.Outcome.SUCCEEDED
    assert bridge.session(session).free == 1


def test_canceling_the_last_work_ends_a_sealed_query() -> None:
    bridge = Bridge()
    bridge.joins()
    work = bridge.submit(leaf())
    bridge.seal()
    assert only_end(bridge.cancel_work(work)).outcome is ce.Outcome.SUCCEEDED
    assert bridge.step(cv.WorkCancelRequested(key())) == []
    assert bridge.step(cv.WorkCancelRequested(key("never"))) == []


def test_a_query_that_is_not_sealed_waits_for_more() -> None:
    bridge = Bridge()
    bridge.joins()
    assert not of(ce.EndQuery, bridge.done(bridge.submit(leaf())))
    assert only_end(bridge.seal()).outcome is ce.Outcome.SUCCEEDED
    assert bridge.seal() == []


def test_a_work_comes_too_late_for_a_query_that_is_sealed_or_ended_or_has_it() -> None:
    bridge = Bridge()
    bridge.submit(leaf("a"))
    (again,) = of(ce.RefuseWork, bridge.step(cv.WorkSubmitted(leaf("a"))))
    assert again == ce.RefuseWork(key("a"), "it was submitted before")
    bridge.seal()
    assert bridge.step(cv.WorkSubmitted(leaf("b"))) == [ce.RefuseWork(key("b"), "its query was sealed")]
    bridge.cancel()
    assert bridge.step(cv.WorkSubmitted(leaf("c"))) == [ce.RefuseWork(key("c"), "its query has ended")]
    assert bridge.machine.pending == 0


def test_a_query_id_is_used_once() -> None:
    bridge = Bridge()
    bridge.open_query()
    with pytest.raises(ValueError, match="query q is open already"):
        bridge.open_query()


# Shutdown


def test_a_query_that_is_asked_during_a_shutdown_ends_at_once() -> None:
    bridge = Bridge()
    bridge.step(cv.ShutdownRequested("a new version"))
    (end,) = of(ce.EndQuery, bridge.step(cv.QueryOpened(QueryId("late"))))
    assert end.outcome is ce.Outcome.CANCELED
    assert end.error is not None
    assert "shutting down: a new version" in end.error.message
    assert (end.error.code, end.error.retryable) == (ErrorCode.UNAVAILABLE, True)


def test_a_coordinator_that_shuts_down_cancels_its_queries_says_goodbye_and_takes_no_session() -> None:
    bridge = Bridge()
    session = bridge.joins()
    bridge.submit(leaf("a"))
    bridge.open_query("empty")
    effects = bridge.step(cv.ShutdownRequested("a new version"))
    ends = of(ce.EndQuery, effects)
    assert [(end.query_id, end.outcome) for end in ends] == [(q, ce.Outcome.CANCELED) for q in ("q", "empty")]
    for end in ends:
        assert end.error is not None
        assert end.error.message == "the coordinator is shutting down: a new version"
    assert bridge.sent(effects, session) == [CancelQuery(QueryId("q")), Goodbye("a new version")]
    assert of(ce.CloseSession, effects) == [ce.CloseSession(session, ce.CloseReason.GOODBYE, "a new version")]
    bridge.log.clear()
    late = bridge.joins("w2", credit=None)
    assert of(ce.CloseSession, bridge.log) == [
        ce.CloseSession(late, ce.CloseReason.REFUSED, "this coordinator is shutting down: a new version")
    ]
    assert len(bridge.machine.roster) == 0


# Figures


def test_what_happens_is_counted() -> None:
    bridge = Bridge()
    for name in ("w1", "w2"):
        session = bridge.joins(name)
        work = bridge.submit(leaf(name, name))
        bridge.done(work)
        bridge.says(session, ArtifactLost(work.current_id, "expired"))
        bridge.seal(name)
        bridge.loses(session)
    counted = {
        "sessions_opened": 2,
        "assigned_at_home": 2,
        "accepted": 2,
        "artifact_lost_late": 2,
        "queries succeeded": 2,
        "sessions_lost": 2,
    }
    assert bridge.machine.counters == counted


def test_every_move_is_counted() -> None:
    bridge = Bridge()
    bridge.joins()
    for name in "ab":
        bridge.done(bridge.submit(leaf(name)))
    moves = {trigger: number for (state, trigger), number in bridge.machine.moves.items() if isinstance(state, W)}
    assert moves == {"assign": 2, "accept": 2, "ready": 2, "commit": 2}
    mate = Mate()
    session = mate.opens()
    for name in "ab":
        mate.fails(mate.assigned(leaf(name), session))
    assert {trigger: number for (_, trigger), number in mate.machine.moves.items()} == {"start": 2, "fail": 2}

"""What a coordinator promises for work that is bound to a session: leaves and searches."""

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import QueryId, SessionId, WorkerId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.records import Work
from quarterdeck.core.workcoord.coordinator.tables import WorkerState, WorkState
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    ArtifactLost,
    AssignWork,
    CancelQuery,
    CancelWork,
    CreditChanged,
    CreditConfirmed,
    DrainRequest,
    Goodbye,
    Refused,
    Registered,
    RejectReason,
    Throttled,
    WorkAccepted,
    WorkCanceled,
    WorkerBeat,
    WorkFailed,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import AttemptId, LivenessPolicy, WorkerStatus
from tests.core.workcoord.harness import (
    ACCEPTING,
    DRAINING,
    FINAL,
    LEAF,
    OTHER,
    PASSING,
    PAUSED,
    SCAN,
    Bridge,
    Mate,
    key,
    leaf,
    of,
)

W, S = WorkState, WorkerState


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


# Who is there


def test_an_older_incarnation_is_refused() -> None:
    bridge = Bridge()
    session = bridge.joins(incarnation=2)
    bridge.log.clear()
    late = bridge.joins(incarnation=1, credit=None)
    refused, closed = bridge.log
    assert isinstance(refused, ce.SendToWorker)
    assert isinstance(refused.message, Refused)
    assert refused.session_id == late
    assert "w1" in refused.message.reason
    assert isinstance(closed, ce.CloseSession)
    assert (closed.session_id, closed.reason) == (late, ce.CloseReason.REFUSED)
    assert [s.session_id for s in bridge.machine.roster.sessions()] == [session]
    assert bridge.machine.counters["registrations_refused"] == 1
    assert bridge.machine.counters["sessions_opened"] == 1


@pytest.mark.parametrize("incarnation", [1, 2])
def test_a_newer_session_replaces_the_older_one_of_the_same_worker(incarnation: int) -> None:
    bridge = Bridge()
    old = bridge.joins(incarnation=1)
    work = bridge.submit(leaf())
    bridge.log.clear()
    new = bridge.joins(incarnation=incarnation)
    (closed,) = of(ce.CloseSession, bridge.log)
    assert (closed.session_id, closed.reason) == (old, ce.CloseReason.REPLACED)
    assert [s.session_id for s in bridge.machine.roster.sessions()] == [new]
    assert (bridge.session_of(work), work.number) == (new, 2)


def test_a_session_begins_with_the_rules_it_is_held_to() -> None:
    liveness = LivenessPolicy(interval_s=5)
    bridge = Bridge(liveness=liveness)
    session = bridge.joins(credit=3)
    welcome, confirmed = bridge.sent(bridge.log, session)
    assert isinstance(welcome, Registered)
    assert (welcome.session_id, welcome.coordinator_id) == (session, "c1")
    assert welcome.liveness == liveness
    assert confirmed == CreditConfirmed(3)


def test_a_worker_that_says_goodbye_is_gone() -> None:
    bridge = Bridge()
    session = bridge.joins()
    effects = bridge.says(session, Goodbye("drained"))
    assert effects == [ce.CloseSession(session, ce.CloseReason.GOODBYE, "drained")]
    assert len(bridge.machine.roster) == 0


# Silence


def test_a_silent_worker_gets_nothing_new_after_two_beats_and_is_lost_after_three() -> None:
    bridge = Bridge()
    silent = bridge.joins("w1")
    work = bridge.submit(leaf())
    assert not of(ce.WarnOfSilence, bridge.advance(1.99, silent=[silent]))
    effects = bridge.advance(0.02, silent=[silent])
    assert of(ce.WarnOfSilence, effects) == [ce.WarnOfSilence(silent, WorkerId("w1"), 2.0)]
    second = bridge.submit(leaf("b"))
    assert second.state is W.PENDING
    assert work.state is W.ASSIGNED  # what it has, it keeps
    effects = bridge.advance(0.98, silent=[silent])
    assert not of(ce.CloseSession, effects)
    assert not of(ce.WarnOfSilence, effects)
    effects = bridge.advance(0.02, silent=[silent])
    assert of(ce.CloseSession, effects) == [
        ce.CloseSession(silent, ce.CloseReason.SILENT, "nothing heard for 3.0 s"),
    ]
    assert work.state is W.PENDING


def test_beats_go_out_at_the_interval_and_any_word_counts_as_one() -> None:
    bridge = Bridge()
    session = bridge.joins(status=PAUSED)
    beats = 0
    for tenth in range(100):
        effects = bridge.advance(0.1, silent=[session])
        beats += len(bridge.sent(effects, session))
        if tenth % 15 == 0:
            bridge.says(session, Throttled(1))
    assert beats == 10
    assert not of(ce.WarnOfSilence, bridge.log)


@pytest.mark.parametrize("asleep_s", [1.5, 10.0, 1000.0])
def test_a_coordinator_that_was_paused_itself_blames_nobody(asleep_s: float) -> None:
    bridge = Bridge()
    session = bridge.joins()
    bridge.submit(leaf())
    due = bridge.machine.next_deadline()
    assert due is not None
    bridge.now = due + asleep_s  # nobody woke it
    effects = bridge.settle()
    assert not of(ce.CloseSession, effects)
    assert bridge.machine.counters["own_pauses"] >= 1
    bridge.says(session, WorkerBeat(ACCEPTING))
    assert bridge.session(session).state is S.ACCEPTING


def test_after_a_pause_of_its_own_a_coordinator_waits_the_whole_time_again() -> None:
    bridge = Bridge()
    session = bridge.joins()
    due = bridge.machine.next_deadline()
    assert due is not None
    bridge.now = due + 60
    bridge.advance(1.9, silent=[session])
    assert bridge.machine.counters["own_pauses"] == 1
    assert bridge.session(session).state is S.ACCEPTING
    bridge.advance(0.2, silent=[session])
    assert bridge.session(session).state is S.LATE
    bridge.advance(1, silent=[session])
    assert bridge.machine.roster.session(session) is None


def test_a_timer_that_is_late_by_no_more_than_a_beat_is_no_pause() -> None:
    bridge = Bridge()
    session = bridge.joins()
    bridge.advance(1, silent=[session])
    bridge.now += 2.0  # due was 1 s ago
    bridge.advance(0, silent=[session])
    assert bridge.machine.counters["own_pauses"] == 0
    assert len(bridge.machine.roster) == 0


def test_time_that_is_not_due_changes_nothing() -> None:
    bridge = Bridge()
    assert bridge.step(cv.TimePassed()) == []
    bridge.joins()
    assert bridge.step(cv.TimePassed()) == []


def test_a_clock_that_goes_backwards_stands_still() -> None:
    bridge = Bridge()
    session = bridge.joins()
    bridge.now -= 500
    bridge.says(session, WorkerBeat(ACCEPTING))
    assert bridge.machine.next_deadline() == bridge.now + 501
    bridge.now += 500
    bridge.advance(1.5, silent=[session])
    assert bridge.session(session).state is S.ACCEPTING


@pytest.mark.parametrize("beginning", [0.0, 0.1, 0.30000000000000004, 1000.0])
def test_silence_is_found_at_any_time_of_day(beginning: float) -> None:
    """A sum of times that was rounded up and a difference that was rounded down once left a timer due for ever."""
    for step in range(800):
        bridge = Bridge()
        bridge.now = beginning + step * 0.7310585786300049
        session = bridge.joins()
        bridge.advance(3.5, silent=[session])
        assert len(bridge.machine.roster) == 0


# No worker


def test_work_without_a_worker_waits_and_fails_with_a_clear_error_after_the_limit() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    bridge.submit(leaf(tenant="acme"))
    bridge.joins("w1")
    bridge.joins("w2", tenant="acme", kinds=frozenset({OTHER}))
    bridge.joins("w3", tenant="acme", status=PAUSED)
    assert not of(ce.EndQuery, bridge.advance(4.99))
    end = only_end(bridge.advance(0.01))
    assert end.outcome is ce.Outcome.FAILED
    assert end.error is not None
    assert (end.error.code, end.error.retryable) == ("no_worker", True)
    assert end.error.message == (
        "no worker takes leaf work of tenant 'acme', waited 5 s; connected: 2 accepting, 1 paused; "
        "start a worker that takes it, or ask again later"
    )
    assert bridge.machine.pending == 0


def test_the_error_says_when_nobody_is_connected_at_all() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=0.5)
    bridge.submit(leaf())
    end = only_end(bridge.advance(0.5))
    assert end.error is not None
    assert "no worker is connected" in end.error.message


def test_a_worker_that_comes_in_time_saves_the_query() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    work = bridge.submit(leaf())
    bridge.advance(4.9)
    bridge.joins(credit=None)  # it takes the work as soon as it has room: that is not waiting for nobody
    assert not of(ce.EndQuery, bridge.advance(60))
    assert work.state is W.PENDING
    assert not of(ce.EndQuery, bridge.log)


def test_nobody_waits_for_a_worker_while_another_is_there() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    bridge.joins("w1", credit=0)
    leaving = bridge.joins("w2", credit=0)
    bridge.submit(leaf())
    bridge.loses(leaving)
    assert not of(ce.EndQuery, bridge.advance(60))


def test_the_wait_begins_when_the_last_worker_leaves() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    session = bridge.joins(credit=0)
    bridge.submit(leaf())
    bridge.advance(60)
    bridge.says(session, WorkerBeat(PAUSED))
    assert not of(ce.EndQuery, bridge.advance(4.9))
    bridge.submit(leaf("b"))  # another work does not make it longer
    assert of(ce.EndQuery, bridge.advance(0.1))


def test_a_query_without_a_limit_waits_for_ever_and_one_that_got_its_work_done_does_not_fail() -> None:
    bridge = Bridge()
    bridge.submit(leaf("a", "patient"))
    bridge.open_query("hasty", wait_limit_s=5)
    hasty = bridge.submit(leaf("a", "hasty"))
    bridge.cancel_work(hasty)
    assert not of(ce.EndQuery, bridge.advance(10_000))
    assert bridge.machine.next_deadline() is None


def test_each_kind_and_tenant_waits_for_itself() -> None:
    bridge = Bridge()
    bridge.joins(kinds=frozenset({LEAF}))
    bridge.open_query(wait_limit_s=5)
    bridge.submit(leaf("a"), leaf("b", kind=SCAN))
    end = only_end(bridge.advance(5))
    assert end.error is not None
    assert "scan work" in end.error.message


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


# What a review found


def test_a_late_worker_that_says_goodbye_is_given_nothing_first() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    bridge.advance(2.0, silent=[session])
    assert bridge.session(session).state == "late"
    work = bridge.submit(leaf())
    effects = bridge.says(session, Goodbye("drained"))
    assert bridge.assigned(effects) == []
    assert (work.state, work.failures) == (W.PENDING, 0)


@pytest.mark.parametrize("status", [DRAINING, PAUSED])
def test_a_late_worker_that_comes_back_without_taking_work_is_given_nothing_first(status: WorkerStatus) -> None:
    """Seeds 502554 and 107066."""
    bridge = Bridge()
    session = bridge.joins("w1")
    bridge.advance(2.0, silent=[session])
    work = bridge.submit(leaf())
    assert bridge.assigned(bridge.says(session, WorkerBeat(status))) == []
    assert bridge.session(session).state is (S.DRAINING if status.draining else S.PAUSED)
    assert work.number == 0


def test_a_late_worker_that_comes_back_with_less_credit_or_a_throttle_is_given_no_more_than_it_takes() -> None:
    bridge = Bridge()
    fewer, throttled = bridge.joins("w1", credit=4), bridge.joins("w2", credit=4)
    bridge.advance(2.0, silent=[fewer, throttled])
    bridge.submit(*(leaf(name) for name in "abcdef"))
    assert len(bridge.assigned(bridge.says(fewer, CreditChanged(1)))) == 1
    assert bridge.assigned(bridge.says(throttled, Throttled(1.0))) == []
    assert len(bridge.assigned(bridge.advance(1.0))) == 4


def test_a_late_worker_that_rejects_what_it_had_is_given_nothing_first() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    work = bridge.submit(leaf())
    bridge.advance(2.0, silent=[session])
    bridge.submit(leaf("b"))
    rejected = WorkRejected(work.current_id, RejectReason.NOT_ACCEPTING)
    assert bridge.assigned(bridge.says(session, rejected)) == []
    assert bridge.session(session).state is S.PAUSED


def test_a_wait_limit_that_ended_while_the_coordinator_did_not_run_gets_some_grace() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    bridge.submit(leaf())
    bridge.now += 60  # stopped for a minute
    assert of(ce.EndQuery, bridge.settle()) == []
    assert of(ce.EndQuery, bridge.advance(2.9)) == []
    assert len(of(ce.EndQuery, bridge.advance(0.2))) == 1


def _waits_where_it_failed(bridge: Bridge) -> tuple[SessionId, Work]:
    first = bridge.joins("w1", credit=1)
    work = bridge.submit(leaf("a"))
    bridge.accepts(work)
    bridge.says(first, CreditChanged(0), WorkFailed(work.current_id, PASSING))
    assert (work.state, work.avoid) == (W.PENDING, ("w1",))
    return first, work


def test_a_work_that_waits_where_it_failed_goes_to_another_that_comes() -> None:
    bridge = Bridge()
    _, work = _waits_where_it_failed(bridge)
    second = bridge.joins("w2", credit=1)
    assert bridge.session_of(work) == second


def test_a_work_that_waits_where_it_failed_moves_on_when_its_turn_comes_and_there_is_another() -> None:
    bridge = Bridge()
    first, work = _waits_where_it_failed(bridge)
    second = bridge.joins("w2", credit=0)
    bridge.says(first, CreditChanged(1))
    assert work.state is W.PENDING  # w1 has credit, but it is not for this one
    bridge.says(second, CreditChanged(1))
    assert bridge.session_of(work) == second


def test_a_work_that_failed_on_the_only_worker_goes_there_again() -> None:
    bridge = Bridge()
    first, work = _waits_where_it_failed(bridge)
    bridge.says(first, CreditChanged(1))
    assert bridge.session_of(work) == first


def _fails_where_it_is(bridge: Bridge, work: Work) -> str:
    worker = bridge.worker_of(work)
    bridge.accepts(work)
    bridge.says(bridge.session_of(work), WorkFailed(work.current_id, PASSING))
    return worker


def test_a_work_tries_every_worker_before_it_tries_one_again() -> None:
    bridge = Bridge(max_failures=20)
    workers = {f"w{n}" for n in range(5)}
    for worker in sorted(workers):
        bridge.joins(worker)
    work = bridge.submit(leaf("a"))
    assert {_fails_where_it_is(bridge, work) for _ in range(5)} == workers
    for _ in range(10):  # it failed everywhere: at least not where it failed last
        last = _fails_where_it_is(bridge, work)
        assert bridge.worker_of(work) != last


def test_a_work_that_failed_everywhere_waits_for_any_but_where_it_failed_last() -> None:
    bridge = Bridge()
    sessions = {worker: bridge.joins(worker, credit=1) for worker in ("w1", "w2")}
    work = bridge.submit(leaf("a"))
    first = _fails_where_it_is(bridge, work)
    second = bridge.worker_of(work)
    bridge.says(sessions[first], CreditChanged(0))
    _fails_where_it_is(bridge, work)
    assert work.state is W.PENDING
    bridge.says(sessions[second], CreditChanged(2))
    assert work.state is W.PENDING
    bridge.says(sessions[first], CreditChanged(1))
    assert bridge.worker_of(work) == first


def test_a_work_that_failed_does_not_wait_for_its_new_home_while_another_worker_is_idle() -> None:
    bridge = Bridge()
    for worker in ("w1", "w2", "w3"):
        bridge.joins(worker, credit=1)
    work = bridge.submit(leaf("x"))
    second = _second_home(bridge, work)
    keeper = next(name for n in range(100) if _home_of(bridge, name := f"k{n}") == second)
    busy = bridge.submit(leaf("busy", affinity=keeper))
    assert bridge.worker_of(busy) == second
    failed_on = _fails_where_it_is(bridge, work)
    assert bridge.worker_of(work) not in (failed_on, second)


def _second_home(bridge: Bridge, work: Work) -> str:
    placement = work.lane.placement(work.spec.placement)
    return str(placement.choose(work.spec.affinity_key, [WorkerId(bridge.worker_of(work))]))


def _home_of(bridge: Bridge, affinity: str) -> str:
    lane = bridge.machine.ledger.dispatch.lane_for(leaf("any"))
    return str(lane.placement(leaf("any").placement).choose(affinity, []))


def test_a_choosy_work_is_found_behind_one_that_is_choosy_about_just_this_worker() -> None:
    bridge = Bridge()
    one, two = bridge.joins("w1", credit=1), bridge.joins("w2", credit=1)
    works = [
        bridge.submit(leaf("a", affinity=_affine(bridge, "w1"))),
        bridge.submit(leaf("b", affinity=_affine(bridge, "w2"))),
    ]
    for session, work in zip((one, two), works, strict=True):
        bridge.accepts(work)
        bridge.says(session, CreditChanged(0))
    for session, work in zip((one, two), works, strict=True):
        bridge.says(session, WorkFailed(work.current_id, PASSING))
    assert [work.state for work in works] == [W.PENDING, W.PENDING]
    bridge.says(one, CreditChanged(1))
    assert bridge.session_of(works[1]) == one
    assert works[0].state is W.PENDING


def _affine(bridge: Bridge, worker: str) -> str:
    return next(name for n in range(100) if _home_of(bridge, name := f"k{n}") == worker)


def test_a_work_that_has_ended_is_not_taken_again_and_only_its_name_is_kept() -> None:
    bridge = Bridge()
    bridge.joins("w1")
    work = bridge.submit(leaf("a"), leaf("b"))
    query = work.query
    bridge.done(work)
    assert list(query.works) == [leaf("b").key]
    (refused,) = of(ce.RefuseWork, bridge.step(cv.WorkSubmitted(leaf("a"))))
    assert refused.reason == "it was submitted before"


def test_a_work_that_came_back_is_the_next_of_its_query() -> None:
    bridge = Bridge()
    lost = bridge.joins("w1", credit=1)
    specs = [leaf(f"{n}") for n in range(9)]
    first = bridge.submit(*specs)
    other = bridge.joins("w2", credit=1)
    bridge.advance(0.2)
    assert bridge.session_of(first) == lost
    bridge.loses(lost)
    assert first.state is W.PENDING
    (running,) = [work for spec in specs if (work := bridge.work(spec.key)).current is not None]
    bridge.done(running)
    assert bridge.session_of(first) == other


def test_a_choosy_work_keeps_no_worker_from_what_comes_after_it() -> None:
    bridge = Bridge()
    first, work = _waits_where_it_failed(bridge)
    bridge.joins("w2", credit=0)
    bridge.says(first, CreditChanged(2))
    other = bridge.submit(leaf("b", affinity="b"))
    bridge.advance(0.2)
    assert bridge.session_of(other) == first
    assert work.state is W.PENDING


def test_choosy_works_wait_at_home_too_whoever_is_before_them() -> None:
    bridge = Bridge()
    first, second = bridge.joins("w1", credit=1), bridge.joins("w2", credit=1)
    works = [bridge.submit(leaf(name, affinity=name)) for name in "abcdefgh"]
    on_first = next(work for work in works if work.current and bridge.session_of(work) == first)
    on_second = next(work for work in works if work.current and bridge.session_of(work) == second)
    for work in works:
        if work not in (on_first, on_second):
            bridge.cancel_work(work)
    for session, work in ((first, on_first), (second, on_second)):
        bridge.accepts(work)
        bridge.says(session, CreditChanged(0))
    bridge.says(first, WorkFailed(on_first.current_id, PASSING))  # waits for w2, first of the choosy
    bridge.says(second, WorkFailed(on_second.current_id, PASSING))  # waits for w1
    bridge.says(first, CreditChanged(1))
    assert bridge.session_of(on_second) == first
    assert on_first.state is W.PENDING


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

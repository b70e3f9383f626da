"""What both machines promise for durable work: epochs and fragments outlive sessions, leaders and leases."""

import pytest

from quarterdeck.core.ids import Fence, WorkerId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.tables import WorkState
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    ArtifactLost,
    AssignWork,
    CancelWork,
    CreditChanged,
    Deposed,
    Holdings,
    RejectReason,
    WorkAccepted,
    WorkCanceled,
    WorkFailed,
    WorkProgressed,
    WorkReady,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import AttemptId, Binding, HeldState, Holding, WorkKind, WorkPolicy, WorkSpec
from quarterdeck.core.workcoord.worker import effects as we
from quarterdeck.core.workcoord.worker import events as wv
from quarterdeck.core.workcoord.worker.tables import AttemptState
from tests.core.workcoord.harness import ARTIFACT, PASSING, Bridge, Mate, epoch, fragment, key, leaf, of

W, A = WorkState, AttemptState


def reports(effects: list[ce.Effect]) -> list[tuple[int, WorkState, str | None]]:
    return [(r.attempt.number, r.state, r.worker_id) for r in of(ce.ReportDurable, effects)]


# The owner's side


def test_the_owner_is_told_of_every_step_and_of_an_assignment_before_it_is_sent() -> None:
    bridge = Bridge(fence=1)
    bridge.joins("w1")
    work = bridge.submit(epoch())
    bridge.done(work)
    assert reports(bridge.log) == [(1, W.ASSIGNED, "w1"), (1, W.ACCEPTED, "w1"), (1, W.SERVING, "w1")]
    told = [isinstance(e, ce.ReportDurable) for e in bridge.log if "AssignWork" in str(e) or "ASSIGNED" in repr(e)]
    assert told[0]


def test_a_work_that_moves_is_reported_pending_and_then_with_its_new_worker() -> None:
    bridge = Bridge(fence=1)
    bridge.joins("w1")
    bridge.joins("w2")
    work = bridge.submit(epoch())
    home = bridge.worker_of(work)
    other = "w2" if home == "w1" else "w1"
    bridge.accepts(work)
    effects = bridge.says(bridge.session_of(work), WorkFailed(work.current_id, PASSING))
    assert reports(effects) == [(1, W.PENDING, None), (2, W.ASSIGNED, other)]


def test_a_work_that_failed_for_good_and_one_that_is_done_are_reported() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(fragment())
    effects = bridge.done(work)
    assert reports(effects) == [(1, W.DONE, None)]
    other = bridge.submit(fragment("b", "other"))
    error = PASSING.__class__("work_failed", "no such table", retryable=False)
    bridge.accepts(other)
    effects = bridge.says(session, WorkFailed(other.current_id, error))
    assert reports(effects) == [(1, W.FAILED, None)]


def test_session_bound_work_is_not_reported() -> None:
    bridge = Bridge(fence=1)
    bridge.joins()
    bridge.done(bridge.submit(leaf()))
    assert reports(bridge.log) == []


def test_a_fragment_stays_unreachable_for_ever_and_is_resumed_when_its_worker_is_back() -> None:
    bridge = Bridge(fence=1)
    bridge.joins("w2")
    session = bridge.joins("w1", credit=1)
    work = bridge.submit(fragment(worker="w1"))
    bridge.accepts(work)
    bridge.loses(session)
    bridge.advance(5000)
    assert work.state is W.UNREACHABLE
    back = bridge.joins("w1", credit=1, holdings=(Holding(work.current_id, HeldState.RUNNING),))
    assert (work.state, work.number) == (W.ACCEPTED, 1)
    assert bridge.session(back).free == 1
    bridge.says(back, WorkProgressed(work.current_id, 0.5))
    assert of(ce.ReportProgress, bridge.log) == [ce.ReportProgress(work.current_id, 0.5)]


def test_a_fragment_goes_to_its_worker_again_when_that_came_back_without_it() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(fragment(worker="w1"))
    bridge.accepts(work)
    bridge.loses(session)
    back = bridge.joins("w1", incarnation=2)
    assert (bridge.session_of(work), work.number, work.failures) == (back, 2, 1)


def test_a_durable_work_that_gets_on_has_no_failures_behind_it() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(fragment(worker="w1"))
    for incarnation in range(2, 30):  # more often than the policy lets it fail
        bridge.accepts(work)
        bridge.says(session, WorkProgressed(work.current_id, 0.1))
        bridge.loses(session)
        session = bridge.joins("w1", incarnation=incarnation)
        assert work.failures == 1
    epochs = bridge.submit(epoch("e", "epochs"))
    for _ in range(20):
        bridge.done(epochs)
        assert epochs.failures == 0
        bridge.says(bridge.session_of(epochs), ArtifactLost(epochs.current_id, "evicted"))


def test_a_durable_work_that_takes_its_worker_down_every_time_fails_at_last() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(fragment("a", worker="w1"), fragment("b", worker="w1"))
    for incarnation in range(2, 9):
        bridge.accepts(work)
        bridge.loses(session)
        session = bridge.joins("w1", incarnation=incarnation)
        assert work.state is W.ASSIGNED
    bridge.loses(session)
    bridge.log.clear()
    bridge.joins("w1", incarnation=9)
    (end,) = of(ce.EndQuery, bridge.log)
    assert end.error is not None
    assert "came back without it" in end.error.message
    assert list(bridge.machine.ledger.unreachable()) == []


def test_a_resident_work_takes_credit_only_until_it_is_accepted() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1", credit=1)
    first = bridge.submit(fragment("a"), fragment("b"))
    assert bridge.session(session).free == 0
    effects = bridge.accepts(first)
    assert bridge.assigned(effects) == ["b"]


def test_an_epoch_whose_lease_ends_is_loaded_elsewhere_and_the_old_holder_told_to_let_go() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch())
    bridge.done(work)
    bridge.loses(session)
    other = bridge.joins("w2")
    bridge.advance(9.99)
    assert work.state is W.UNREACHABLE
    bridge.advance(0.01)
    assert (bridge.session_of(work), work.number, work.failures) == (other, 2, 1)
    bridge.done(work)
    bridge.log.clear()
    old = AttemptId(work.key, 1)
    back = bridge.joins("w1", holdings=(Holding(old, HeldState.SERVING),))
    assert of(CancelWork, bridge.sent(bridge.log, back)) == [CancelWork(old)]
    assert bridge.machine.counters["holdings_canceled"] == 1
    assert bridge.session(back).free == 4
    bridge.says(back, WorkCanceled(old))
    assert bridge.session(back).closing == {}
    assert bridge.session_of(work) == other


def test_an_epoch_that_its_worker_came_back_without_is_placed_anew_at_once() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch())
    bridge.done(work)
    bridge.loses(session)
    back = bridge.joins("w1", incarnation=2)
    assert (bridge.session_of(work), work.number) == (back, 2)
    bridge.accepts(work)
    bridge.advance(60)
    assert work.number == 2  # the lease of the first attempt has no say


def test_a_fetch_of_a_held_result_counts_only_while_it_is_ready() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch())
    bridge.ready(work)
    bridge.loses(session)
    assert bridge.fetched(work.current_id) == [ce.DropResult(work.current_id)]
    back = bridge.joins("w1", holdings=(Holding(work.current_id, HeldState.RUNNING),))
    effects = bridge.says(back, WorkReady(work.current_id, ARTIFACT))
    assert of(ce.FetchArtifact, effects)
    effects = bridge.fetched(work.current_id)
    assert work.state is W.SERVING
    assert of(ce.DeliverResult, effects)


def test_a_fetch_of_an_earlier_held_result_is_dropped() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch())
    bridge.ready(work)
    first = work.current_id
    bridge.says(session, ArtifactLost(first, "evicted"))
    bridge.ready(work)
    assert (work.state, work.number) == (W.READY, 2)
    assert bridge.fetched(first) == [ce.DropResult(first)]
    assert work.state is W.READY


def test_a_fetch_under_way_serves_the_same_attempt_after_a_reconnect() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch())
    bridge.ready(work)
    bridge.loses(session)
    back = bridge.joins("w1", holdings=(Holding(work.current_id, HeldState.RUNNING),))
    effects = bridge.says(back, WorkReady(work.current_id, ARTIFACT))
    assert not of(ce.FetchArtifact, effects)  # one is on its way
    assert bridge.sent(bridge.fetched(work.current_id), back) == [ArtifactAck(work.current_id)]
    assert work.state is W.SERVING


def test_canceling_a_query_with_unreachable_works_ends_it_and_its_leases() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch(), epoch("b"))
    bridge.done(work)
    bridge.loses(session)
    effects = bridge.cancel()
    assert of(ce.EndQuery, effects)
    assert bridge.sent(effects) == []
    assert work.state is W.CANCELED
    assert list(bridge.machine.ledger.unreachable()) == []
    assert bridge.machine.next_deadline() is None


def test_a_query_whose_work_fails_with_its_worker_takes_its_other_works_along() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    once = WorkPolicy(binding=Binding.DURABLE, max_failures=1, held=True)
    first = WorkSpec(key("a"), WorkKind.EPOCH, once)
    bridge.submit(first, epoch("b"))
    other = bridge.work(key("b"))
    bridge.loses(session)
    bridge.log.clear()
    bridge.joins("w1", incarnation=2)
    (end,) = of(ce.EndQuery, bridge.log)
    assert end.outcome is ce.Outcome.FAILED
    assert other.state is W.CANCELED
    assert list(bridge.machine.ledger.unreachable()) == []


def test_durable_work_and_work_of_a_session_do_not_mix_in_one_query() -> None:
    bridge = Bridge(fence=1)
    bridge.submit(epoch("a"))
    (refused,) = of(ce.RefuseWork, bridge.step(cv.WorkSubmitted(leaf("b"))))
    assert "do not mix" in refused.reason


def test_a_query_that_lives_long_keeps_no_record_of_what_has_ended() -> None:
    bridge = Bridge(fence=1)
    bridge.joins("w1", credit=9)
    dropped = bridge.submit(epoch("dropped"), fragment("finished"))
    finished = bridge.work(key("finished"))
    bridge.cancel_work(dropped)
    bridge.done(finished)
    query = bridge.machine.ledger.query(finished.query.query_id)
    assert query is not None
    assert query.works == {}


def test_a_held_result_is_delivered_once_even_if_its_acknowledgement_was_lost() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch())
    assert of(ce.DeliverResult, bridge.done(work)) == [ce.DeliverResult(work.current_id)]
    bridge.loses(session)
    back = bridge.joins("w1", holdings=(Holding(work.current_id, HeldState.RUNNING),))
    effects = bridge.done(work)
    assert (of(ce.DeliverResult, effects), of(ce.DropResult, effects)) == ([], [ce.DropResult(work.current_id)])
    assert of(ArtifactAck, bridge.sent(effects, back)) == [ArtifactAck(work.current_id)]
    assert work.state is W.SERVING


def test_a_lease_that_ended_while_the_coordinator_did_not_run_gets_some_grace() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch())
    bridge.done(work)
    bridge.loses(session)
    bridge.now += 60  # stopped for a minute
    bridge.settle()
    assert work.state is W.UNREACHABLE
    bridge.advance(2.9)
    assert work.state is W.UNREACHABLE
    bridge.advance(0.2)
    assert work.state is W.PENDING


def test_a_fetch_that_fails_while_its_work_is_out_of_reach_or_resumed_costs_nothing() -> None:
    bridge = Bridge(fence=1)
    session = bridge.joins("w1")
    work = bridge.submit(epoch())
    bridge.ready(work)
    bridge.loses(session)
    bridge.joins("w1", holdings=(Holding(work.current_id, HeldState.RUNNING),))
    assert bridge.step(cv.FetchFailed(work.current_id, PASSING)) == []
    assert (work.state, work.number, work.failures) == (W.ACCEPTED, 1, 0)


# A new leader


def test_a_new_leader_takes_up_what_its_workers_still_have() -> None:
    bridge = Bridge(fence=2)
    bridge.open_query()
    serving, running, gone = epoch("serving"), epoch("running"), epoch("gone")
    for number, spec in enumerate((serving, running, gone), 5):
        bridge.step(cv.WorkRestored(spec, WorkerId("w1"), number))
    holdings = (
        Holding(AttemptId(serving.key, 5), HeldState.SERVING),
        Holding(AttemptId(running.key, 6), HeldState.RUNNING),
    )
    session = bridge.joins("w1", credit=0, holdings=holdings)
    assert bridge.work(serving.key).state is W.SERVING
    assert bridge.work(running.key).state is W.ACCEPTED
    assert bridge.work(gone.key).state is W.PENDING
    effects = bridge.says(session, CreditChanged(1))
    assert of(AssignWork, bridge.sent(effects)) == [AssignWork(gone, 8)]


def test_a_new_leader_takes_up_pending_work_and_counts_its_attempts_on() -> None:
    bridge = Bridge(fence=2)
    bridge.open_query()
    bridge.step(cv.WorkRestored(epoch(), None, 5))
    session = bridge.joins("w1", credit=None)
    effects = bridge.says(session, CreditChanged(1))
    assert of(AssignWork, bridge.sent(effects)) == [AssignWork(epoch(), 6)]


def test_a_restored_work_whose_worker_does_not_come_is_given_to_another() -> None:
    bridge = Bridge(fence=2)
    bridge.open_query()
    bridge.step(cv.WorkRestored(epoch(), WorkerId("w1"), 5))
    other = bridge.joins("w2")
    bridge.advance(10)
    work = bridge.work(key())
    assert (bridge.session_of(work), work.number) == (other, 6)


def test_only_durable_work_is_restored_and_only_before_the_first_session() -> None:
    bridge = Bridge(fence=2)
    bridge.open_query()
    with pytest.raises(ValueError, match="only durable work is restored"):
        bridge.machine.step(cv.WorkRestored(leaf(), WorkerId("w1"), 1), bridge.now)
    fresh = Bridge(fence=2)
    fresh.open_query()
    fresh.joins()
    with pytest.raises(ValueError, match="before the first session"):
        fresh.step(cv.WorkRestored(epoch(), WorkerId("w1"), 1))


def test_a_work_is_not_restored_into_a_query_that_is_not_there() -> None:
    bridge = Bridge(fence=2)
    effects = bridge.step(cv.WorkRestored(epoch(), WorkerId("w1"), 1))
    assert effects == [ce.RefuseWork(key(), "its query has ended")]


def test_a_coordinator_that_does_not_lead_leaves_what_workers_hold_alone() -> None:
    bridge = Bridge(fence=0)
    session = bridge.joins("w1", holdings=(Holding(AttemptId(key(), 1), HeldState.SERVING),))
    assert of(CancelWork, bridge.sent(bridge.log, session)) == []


def test_a_coordinator_that_does_not_lead_refuses_durable_work() -> None:
    bridge = Bridge()
    bridge.open_query()
    (refused,) = of(ce.RefuseWork, bridge.step(cv.WorkSubmitted(epoch())))
    assert refused == ce.RefuseWork(key(), "it is durable, and this coordinator does not lead")
    assert of(ce.RefuseWork, bridge.step(cv.WorkSubmitted(leaf()))) == []


@pytest.mark.parametrize("told", ["by a rejection", "by a word"])
def test_a_leader_that_was_replaced_lets_its_durable_work_go_on_where_it_is(told: str) -> None:
    bridge = Bridge(fence=1)
    session, other = bridge.joins("w1", credit=1), bridge.joins("w2", credit=1)
    served = bridge.submit(epoch("a", group="g"), epoch("b", group="g"))
    assigned = bridge.work(key("b"))
    bridge.done(served)
    lost = bridge.joins("w3")
    bridge.submit(fragment("c", worker="w3"))
    bridge.loses(lost)
    where = bridge.session_of(assigned)
    word = WorkRejected(assigned.current_id, RejectReason.FENCED) if told == "by a rejection" else Deposed(Fence(2))
    effects = bridge.says(where, word)
    (end,) = of(ce.EndQuery, effects)
    assert end.outcome is ce.Outcome.FAILED
    assert end.error is not None
    assert "obeys another leader" in end.error.message
    assert bridge.sent(effects) == []  # nothing is canceled, nothing is given to others
    assert bridge.machine.counters["depositions"] == 1
    assert {bridge.session(s).outstanding for s in (session, other)} == {0}
    assert list(bridge.machine.ledger.unreachable()) == []
    back = bridge.joins("w4", holdings=(Holding(AttemptId(key("x"), 1), HeldState.SERVING),))
    assert bridge.session(back).closing == {}
    bridge.open_query("again")
    (refused,) = of(ce.RefuseWork, bridge.step(cv.WorkSubmitted(epoch("a", "again"))))
    assert "does not lead" in refused.reason
    assert bridge.session(where).state == "accepting"  # it takes other work


def test_what_a_worker_still_says_of_work_that_was_let_go_does_no_harm() -> None:
    bridge = Bridge(fence=1)
    session, other = bridge.joins("w1"), bridge.joins("w2")
    work = bridge.submit(fragment("a", worker="w1"))
    bridge.accepts(work)
    bridge.says(other, Deposed(Fence(2)))
    assert bridge.says(session, WorkProgressed(work.current_id, 0.5), WorkReady(work.current_id, ARTIFACT)) == []
    assert bridge.says(session, WorkFailed(work.current_id, PASSING)) == []
    assert bridge.session(session).closing == {}
    assert bridge.machine.counters["protocol_errors"] == 0


# The worker's side


def test_durable_work_goes_on_without_its_session_and_reports_to_the_next_leader() -> None:
    mate = Mate(slots=2)
    old = mate.opens("old", fence=1)
    running, ready = mate.assigned(epoch("running"), old), mate.assigned(epoch("ready"), old)
    effects = mate.loses(old)
    assert of(we.StopExecution, effects) == []
    assert of(we.ClearSession, effects) == [we.ClearSession(old)]
    assert mate.succeeds(ready) == []  # nobody to tell
    assert mate.machine.holdings() == (
        Holding(running.attempt_id, HeldState.RUNNING),
        Holding(ready.attempt_id, HeldState.RUNNING),
    )
    mate.log.clear()
    new = mate.opens("new", fence=2)
    assert WorkReady(ready.attempt_id, ARTIFACT) in mate.told(mate.log, new)  # sent again
    mate.acknowledged(ready, new)
    assert ready.state is A.SERVING
    assert mate.machine.holdings()[1] == Holding(ready.attempt_id, HeldState.SERVING)
    assert mate.told(mate.fails(running), new) == [WorkFailed(running.attempt_id, PASSING)]


def test_a_new_leader_takes_durable_work_over_from_an_old_one_that_is_still_there() -> None:
    mate = Mate(slots=1, queue_places=5)
    old = mate.opens("old", fence=1)
    attempt = mate.assigned(epoch(), old)
    assert mate.session(old).outstanding == 1
    new = mate.opens("new", fence=2)
    assert (mate.session(old).outstanding, mate.session(old).attempts) == (0, {})
    assert mate.hears(old, CancelWork(attempt.attempt_id)) == []  # it has no say any more
    assert attempt.state is A.RUNNING
    assert mate.told(mate.succeeds(attempt)) == [WorkReady(attempt.attempt_id, ARTIFACT)]
    assert mate.session(new).outstanding == 0
    assert mate.told(mate.hears(new, CancelWork(attempt.attempt_id)), new) == [WorkCanceled(attempt.attempt_id)]


def test_an_old_leader_is_fenced_for_durable_work_and_not_for_other_work() -> None:
    mate = Mate()
    old, new = mate.opens("old", fence=1), mate.opens("new", fence=2)
    effects = mate.hears(old, AssignWork(epoch(), 1))
    assert mate.told(effects) == [WorkRejected(AttemptId(key(), 1), RejectReason.FENCED)]
    assert mate.told(mate.hears(old, AssignWork(leaf("b"), 1))) == [WorkAccepted(AttemptId(key("b"), 1))]
    assert mate.told(mate.hears(new, AssignWork(epoch("c"), 1))) == [WorkAccepted(AttemptId(key("c"), 1))]


def test_durable_work_is_taken_from_anybody_as_long_as_no_leader_was_seen() -> None:
    mate = Mate()
    session = mate.opens()
    assert mate.assigned(epoch(), session).state is A.RUNNING


def test_an_old_leader_that_comes_back_gets_nothing_reported() -> None:
    mate = Mate()
    new = mate.opens("new", fence=2)
    attempt = mate.assigned(epoch(), new)
    mate.opens("old", fence=1)
    mate.opens("no leader")
    assert attempt.session is mate.session(new)
    mate.succeeds(attempt)
    mate.acknowledged(attempt, new)
    mate.log.clear()
    again = mate.opens("again", fence=2)  # the same leader, on another session
    assert of(WorkReady, mate.told(mate.log)) == []  # what it serves, its leader has had
    assert mate.session(again).coordinator_id == "coordinator of again"
    assert attempt.session is mate.session(again)


def test_a_resident_work_runs_beside_the_slots() -> None:
    mate = Mate(slots=1, queue_places=0)
    session = mate.opens(fence=1)
    fragments = [mate.assigned(fragment(f"{n}"), session) for n in range(3)]
    work = mate.assigned(leaf(), session)
    assert {each.state for each in [*fragments, work]} == {A.RUNNING}
    assert (mate.machine.busy_slots, mate.session(session).outstanding) == (1, 1)
    assert mate.fails(fragments[0])
    assert mate.machine.busy_slots == 1


def test_an_attempt_that_is_over_for_its_owner_is_no_holding() -> None:
    mate = Mate()
    session = mate.opens(fence=1)
    stopping, lingering = mate.assigned(fragment("stopping"), session), mate.assigned(fragment("lingering"), session)
    mate.cancels(stopping, session)
    mate.succeeds(lingering)
    mate.acknowledged(lingering, session)
    assert (stopping.state, lingering.state) == (A.STOPPING, A.LINGERING)
    mate.loses(session)
    assert mate.machine.holdings() == ()
    back = mate.opens("back", fence=1)
    assert mate.session(back).attempts == {}
    assert mate.hears(back, CancelWork(lingering.attempt_id)) == []


def test_a_queued_durable_work_starts_after_its_session_is_gone() -> None:
    mate = Mate(slots=1)
    session = mate.opens(fence=1)
    first, second = mate.assigned(epoch("a"), session), mate.assigned(epoch("b"), session)
    mate.loses(session)
    assert of(we.StartExecution, mate.fails(first)) == [we.StartExecution(second.attempt_id, second.spec)]
    assert mate.machine.busy_slots == 1


def test_a_held_result_does_not_expire_and_can_be_evicted_without_a_leader() -> None:
    mate = Mate(artifact_ttl_s=5)
    session = mate.opens(fence=1)
    attempt = mate.assigned(epoch(), session)
    mate.succeeds(attempt)
    assert of(we.DropResult, mate.advance(60)) == []
    mate.loses(session)
    effects = mate.evicts(attempt)
    assert effects == [we.DropResult(attempt.attempt_id)]
    assert mate.step(wv.ResultEvicted(attempt.attempt_id)) == []  # it is gone
    assert mate.machine.holdings() == ()


def test_a_running_work_has_nothing_to_evict() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    assert mate.evicts(attempt) == []
    assert attempt.state is A.RUNNING


def test_a_drain_does_not_wait_for_durable_work_and_hands_back_all_that_has_not_begun() -> None:
    mate = Mate(slots=1, queue_places=5)
    session = mate.opens(fence=1)
    running = mate.assigned(epoch("running"), session)
    specs = (leaf("b", kind=WorkKind.EPOCH), epoch("c"), leaf("d", kind=WorkKind.EPOCH))
    queued = [mate.assigned(spec, session) for spec in specs]
    effects = mate.step(wv.DrainRequested())
    assert of(WorkReturned, mate.told(effects)) == [WorkReturned(each.attempt_id) for each in queued]
    assert of(we.FinishDrain, effects) == [we.FinishDrain(clean=True)]
    assert of(we.StopExecution, effects) == [we.StopExecution(running.attempt_id)]
    assert of(we.DropResult, effects) == []  # there is nothing to drop yet
    assert mate.machine.status.draining


def test_an_old_leader_hears_that_another_leads() -> None:
    mate = Mate()
    old, bystander = mate.opens("old", fence=1), mate.opens("bystander")
    mate.log.clear()
    new = mate.opens("new", fence=2)
    assert of(Deposed, mate.told(mate.log, old)) == [Deposed(Fence(2))]
    assert of(Deposed, mate.told(mate.log, bystander)) == of(Deposed, mate.told(mate.log, new)) == []
    mate.loses(old)
    mate.log.clear()
    back = mate.opens("back", fence=1)
    assert of(Deposed, mate.told(mate.log, back)) == [Deposed(Fence(2))]
    assert of(Holdings, mate.told(mate.log, back)) == []
    again, follower = mate.opens("again", fence=2), mate.opens("follower")
    assert of(Deposed, mate.told(mate.log, again)) == of(Deposed, mate.told(mate.log, follower)) == []


def test_what_is_lost_between_a_registration_and_its_answer_is_not_told_as_held() -> None:
    """Found by the simulator: a coordinator that was paused answered a registration seconds later, and believed for
    ever that an epoch was served which had been evicted meanwhile."""
    mate = Mate()
    session = mate.opens("old", fence=1)
    attempt = mate.assigned(epoch(), session)
    mate.succeeds(attempt)
    mate.acknowledged(attempt, session)
    mate.loses(session)
    mate.machine.registration()  # sent, and not answered yet
    mate.evicts(attempt)
    mate.log.clear()
    answered = mate.opens("new", fence=1)
    assert of(Holdings, mate.told(mate.log, answered)) == [Holdings(())]


def test_the_credit_of_work_that_was_let_go_is_for_those_who_wait() -> None:
    """Found by the simulator, seed 6843: a leader that was replaced had spent a worker's last credit on a fragment, got
    it back when it heard of its replacement, and left an interactive query waiting for it."""
    bridge = Bridge(fence=1)
    session = bridge.joins("w1", credit=1)
    bridge.submit(fragment("a", "continuous", worker="w1"))
    waiting = bridge.submit(leaf("b", kind=WorkKind.FRAGMENT))  # another kind would have a place of its own
    assert waiting.state is W.PENDING
    bridge.says(session, Deposed(Fence(2)))
    assert bridge.session_of(waiting) == session


def test_a_leader_that_was_told_of_a_work_as_running_is_not_told_again_when_it_begins() -> None:
    """It had waited for a place when the leader changed; what a worker holds is told as running."""
    mate = Mate(slots=1)
    old = mate.opens("old", fence=1)
    first, second = mate.assigned(epoch("a"), old), mate.assigned(epoch("b"), old)
    assert (first.state, second.state) == (A.RUNNING, A.QUEUED)
    new = mate.opens("new", fence=2)
    effects = mate.succeeds(first)
    assert second.state is A.RUNNING
    assert of(WorkAccepted, mate.told(effects, new)) == []
    assert of(we.StartExecution, effects) == [we.StartExecution(second.attempt_id, second.spec)]

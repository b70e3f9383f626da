"""What a worker's machine promises: sessions, slots, credit, artifacts, draining."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.ids import CoordinatorId, SessionId
from quarterdeck.core.workcoord.liveness import PeerWatch
from quarterdeck.core.workcoord.messages import (
    ArtifactLost,
    AssignWork,
    CancelQuery,
    CancelWork,
    CoordinatorBeat,
    CreditChanged,
    CreditConfirmed,
    DrainRequest,
    Goodbye,
    RejectReason,
    Throttled,
    WorkAccepted,
    WorkCanceled,
    WorkerBeat,
    WorkProgressed,
    WorkReady,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import AttemptId, LivenessPolicy
from quarterdeck.core.workcoord.peer import CloseReason
from quarterdeck.core.workcoord.worker import effects as we
from quarterdeck.core.workcoord.worker import events as wv
from quarterdeck.core.workcoord.worker.credit import divide
from quarterdeck.core.workcoord.worker.records import DropReason, WorkerSession
from quarterdeck.core.workcoord.worker.tables import AttemptState
from tests.core.workcoord.harness import ACCEPTING, ARTIFACT, DRAINING, LEAF, PAUSED, Mate, key, leaf, of

A = AttemptState


def grants(mate: Mate, session_id: SessionId) -> list[int]:
    return list(mate.session(session_id).grants)


# Slots


def test_works_run_in_the_order_in_which_they_came_and_no_more_than_there_are_slots() -> None:
    mate = Mate(slots=2, queue_places=3)
    session = mate.opens()
    attempts = [mate.assigned(leaf(name), session) for name in "abcde"]
    assert [each.state for each in attempts] == [A.RUNNING] * 2 + [A.QUEUED] * 3
    assert (mate.machine.busy_slots, mate.machine.queued) == (2, 3)
    begun = [WorkAccepted(each.attempt_id) for each in attempts[:2]]
    assert of(WorkAccepted, mate.told(mate.log, session)) == begun  # what waits is not accepted yet
    effects = mate.succeeds(attempts[1])
    assert effects == [
        we.SendToCoordinator(session, WorkReady(attempts[1].attempt_id, ARTIFACT)),
        we.SendToCoordinator(session, WorkAccepted(attempts[2].attempt_id)),
        we.StartExecution(attempts[2].attempt_id, attempts[2].spec),
    ]
    mate.cancels(attempts[3], session)
    effects = mate.fails(attempts[0])
    assert of(we.StartExecution, effects) == [we.StartExecution(attempts[4].attempt_id, attempts[4].spec)]
    assert mate.machine.queued == 0


def test_a_slot_is_free_again_only_when_a_canceled_work_has_stopped() -> None:
    mate = Mate(slots=1)
    session = mate.opens()
    first, second = mate.assigned(leaf("a"), session), mate.assigned(leaf("b"), session)
    mate.cancels(first, session)
    assert second.state is A.QUEUED
    mate.stops(first)
    assert second.state is A.RUNNING


def test_works_that_are_canceled_while_they_wait_leave_nothing_behind() -> None:
    mate = Mate(slots=1, queue_places=3)
    session = mate.opens()
    mate.assigned(leaf("running"), session)
    waits = mate.assigned(leaf("waits"), session)
    for n in range(200):
        mate.cancels(mate.assigned(leaf(f"{n}"), session), session)
        assert mate.machine.queued == 1
    assert waits.state is A.QUEUED


def test_progress_is_told_while_the_work_runs_and_not_after_it_was_told_to_stop() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    progress = wv.ExecutionProgressed(attempt.attempt_id, 0.25)
    assert mate.told(mate.step(progress), session) == [WorkProgressed(attempt.attempt_id, 0.25)]
    mate.cancels(attempt, session)
    assert mate.step(progress) == []


# Sessions


def test_a_session_begins_with_credit_and_the_status_of_now() -> None:
    mate = Mate(slots=2, queue_places=3)
    session = mate.opens()
    assert mate.told(mate.log, session) == [CreditChanged(5), WorkerBeat(ACCEPTING)]
    assert mate.machine.registration().status == ACCEPTING
    assert mate.machine.registration().worker == mate.machine.config.info


def test_a_worker_registers_again_only_when_everything_of_the_lost_session_has_stopped() -> None:
    mate = Mate(slots=3, queue_places=5)
    session, other = mate.opens("s1"), mate.opens("other")
    foreign = mate.assigned(leaf("foreign", "other"), other)
    running, stopping = mate.assigned(leaf("a"), session), mate.assigned(leaf("b"), session)
    queued = mate.assigned(leaf("c"), session)
    mate.cancels(stopping, session)
    effects = mate.loses(session)
    assert of(we.StopExecution, effects) == [we.StopExecution(running.attempt_id)]
    assert queued.state is A.ENDED
    assert not of(we.ClearSession, effects)
    assert not of(we.ClearSession, mate.stops(stopping))
    assert not of(we.ClearSession, mate.succeeds(foreign))
    effects = mate.succeeds(running)
    assert effects == [we.DropResult(running.attempt_id, DropReason.CANCELED), we.ClearSession(session)]


def test_losing_a_coordinator_cancels_all_that_its_session_owned_and_nothing_else() -> None:
    mate = Mate(slots=2, queue_places=4)
    session, other = mate.opens("s1"), mate.opens("other")
    mine, foreign = mate.assigned(leaf("a"), session), mate.assigned(leaf("b", "other"), other)
    waits = mate.assigned(leaf("c", "other"), other)
    mate.loses(session)
    assert (mine.state, foreign.state, waits.state) == (A.STOPPING, A.RUNNING, A.QUEUED)
    mate.stops(mine)
    assert waits.state is A.RUNNING


def test_a_lost_session_gives_its_queued_works_places_to_others() -> None:
    mate = Mate(slots=1, queue_places=5)
    session, other = mate.opens("s1"), mate.opens("other")
    ready = mate.assigned(leaf("a"), session)
    mate.assigned(leaf("b"), session)
    waits = mate.assigned(leaf("c", "other"), other)
    mate.succeeds(ready)  # b runs now
    assert waits.state is A.QUEUED
    mate.loses(session)
    assert waits.state is A.QUEUED
    (b,) = [each for each in mate.machine.attempts() if each.state is A.STOPPING]
    mate.stops(b)
    assert waits.state is A.RUNNING


def test_a_canceled_query_is_canceled_in_every_state_and_on_this_session_alone() -> None:
    mate = Mate(slots=2, queue_places=8)
    session, other = mate.opens("s1"), mate.opens("other")
    ready, running = mate.assigned(leaf("a"), session), mate.assigned(leaf("b"), session)
    mate.succeeds(ready)
    foreign = mate.assigned(leaf("c"), other)  # the same query id, by chance, of another coordinator
    queued, unrelated = mate.assigned(leaf("d"), session), mate.assigned(leaf("e", "unrelated"), session)
    effects = mate.hears(session, CancelQuery(key().query_id))
    assert [each.state for each in (ready, running, queued)] == [A.ENDED, A.STOPPING, A.ENDED]
    assert [each.state for each in (foreign, unrelated)] == [A.RUNNING, A.QUEUED]
    assert mate.told(effects) == [WorkCanceled(ready.attempt_id), WorkCanceled(queued.attempt_id)]
    assert of(we.StopExecution, effects) == [we.StopExecution(running.attempt_id)]


def test_a_coordinator_that_says_goodbye_is_gone() -> None:
    mate = Mate()
    session = mate.opens()
    effects = mate.hears(session, Goodbye("a new version"))
    assert effects == [we.CloseSession(session, CloseReason.GOODBYE, "a new version"), we.ClearSession(session)]
    assert list(mate.machine.sessions()) == []


# Silence


def test_a_silent_coordinator_is_lost_after_three_beats() -> None:
    mate = Mate()
    session = mate.opens()
    effects = mate.advance(2.99, silent=[session])
    assert mate.told(effects) == [WorkerBeat(ACCEPTING)] * 2
    effects = mate.advance(0.01, silent=[session])
    assert of(we.CloseSession, effects) == [we.CloseSession(session, CloseReason.SILENT, "nothing heard for 3.0 s")]
    assert list(mate.machine.sessions()) == []
    assert mate.machine.next_deadline() is None


def test_a_worker_beats_at_the_interval_and_any_word_of_the_coordinator_counts() -> None:
    mate = Mate()
    session = mate.opens()
    beats = 0
    for tenth in range(100):
        beats += len(mate.told(mate.advance(0.1, silent=[session])))
        if tenth % 25 == 0:
            mate.hears(session, CancelWork(AttemptId(key(), 1)))
    assert beats == 10


def test_a_worker_that_was_paused_itself_blames_nobody() -> None:
    mate = Mate()
    session = mate.opens()
    mate.now += 100
    assert of(we.CloseSession, mate.advance(0, silent=[session])) == []
    assert mate.machine.counters["own_pauses"] == 1
    assert of(we.CloseSession, mate.advance(2.9, silent=[session])) == []
    assert of(we.CloseSession, mate.advance(0.1, silent=[session]))


def test_a_worker_woken_late_by_no_more_than_a_beat_was_not_paused() -> None:
    mate = Mate()
    session = mate.opens()
    mate.advance(2.5, silent=[session])
    mate.now += 1.5  # due was 3.0
    assert of(we.CloseSession, mate.advance(0, silent=[session]))
    assert mate.machine.counters["own_pauses"] == 0


def test_a_clock_that_goes_backwards_stands_still() -> None:
    mate = Mate()
    session = mate.opens()
    mate.now -= 500
    mate.hears(session, CoordinatorBeat())
    mate.now += 500
    assert of(we.CloseSession, mate.advance(2.9, silent=[session])) == []


def test_time_that_is_not_due_changes_nothing() -> None:
    mate = Mate()
    assert mate.step(wv.TimePassed()) == []
    mate.opens()
    assert mate.step(wv.TimePassed()) == []


# Status


def test_every_coordinator_hears_of_a_change_of_status_and_of_pressure() -> None:
    mate = Mate()
    sessions = [mate.opens("s1"), mate.opens("s2")]
    effects = mate.step(wv.AcceptingChanged(accepting=False))
    assert effects == [we.SendToCoordinator(session, WorkerBeat(PAUSED)) for session in sessions]
    assert mate.step(wv.AcceptingChanged(accepting=False)) == []  # no change
    effects = mate.step(wv.PressureRose(2.5))
    assert effects == [we.SendToCoordinator(session, Throttled(2.5)) for session in sessions]
    effects = mate.step(wv.AcceptingChanged(accepting=True))
    assert effects == [we.SendToCoordinator(session, WorkerBeat(ACCEPTING)) for session in sessions]


def test_a_worker_that_does_not_accept_rejects_and_keeps_what_it_has() -> None:
    mate = Mate()
    session = mate.opens()
    running = mate.assigned(leaf("a"), session)
    mate.step(wv.AcceptingChanged(accepting=False))
    effects = mate.hears(session, AssignWork(leaf("b"), 1))
    assert mate.told(effects) == [WorkRejected(AttemptId(key("b"), 1), RejectReason.NOT_ACCEPTING)]
    assert running.state is A.RUNNING
    assert mate.session(session).outstanding == 1


# Artifacts


def test_a_result_that_nobody_acknowledges_expires() -> None:
    mate = Mate(artifact_ttl_s=600)
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.succeeds(attempt)
    assert of(we.DropResult, mate.advance(599.9)) == []
    effects = mate.advance(0.1)
    assert of(we.DropResult, effects) == [we.DropResult(attempt.attempt_id, DropReason.EXPIRED)]
    assert of(ArtifactLost, mate.told(effects)) == [ArtifactLost(attempt.attempt_id, "expired")]
    assert mate.machine.counters["artifacts_expired"] == 1
    assert mate.session(session).outstanding == 0


def test_a_result_that_was_acknowledged_or_orphaned_lingers_for_a_fetch_under_way() -> None:
    mate = Mate(slots=2, artifact_linger_s=30)
    session = mate.opens()
    acknowledged, orphaned = mate.assigned(leaf("a"), session), mate.assigned(leaf("b"), session)
    mate.succeeds(acknowledged)
    mate.succeeds(orphaned)
    mate.acknowledged(acknowledged, session)
    mate.advance(10)
    mate.loses(session)
    mate.advance(19.9)
    assert of(we.DropResult, mate.log) == []
    mate.advance(0.1)
    assert of(we.DropResult, mate.log) == [we.DropResult(acknowledged.attempt_id, DropReason.ACKNOWLEDGED)]
    mate.advance(9.9)
    assert len(of(we.DropResult, mate.log)) == 1
    mate.advance(0.1)
    assert of(we.DropResult, mate.log)[1:] == [we.DropResult(orphaned.attempt_id, DropReason.CANCELED)]
    assert list(mate.machine.attempts()) == []


# Draining


def test_a_drain_hands_back_what_has_not_begun_and_lets_what_runs_finish() -> None:
    mate = Mate(slots=1, queue_places=3)
    session = mate.opens()
    running, *queued = [mate.assigned(leaf(name), session) for name in "abc"]
    effects = mate.step(wv.DrainRequested())
    assert mate.told(effects) == [WorkerBeat(DRAINING), *(WorkReturned(each.attempt_id) for each in queued)]
    assert (mate.machine.status, mate.machine.queued, running.state) == (DRAINING, 0, A.RUNNING)
    effects = mate.hears(session, AssignWork(leaf("d"), 1))
    assert mate.told(effects) == [WorkRejected(AttemptId(key("d"), 1), RejectReason.DRAINING)]
    mate.step(wv.AcceptingChanged(accepting=True))
    assert mate.machine.status == DRAINING
    assert mate.step(wv.DrainRequested()) == []
    assert mate.machine.counters["drains"] == 1
    assert of(we.FinishDrain, mate.succeeds(running)) == []  # not before the result is fetched
    effects = mate.acknowledged(running, session)
    assert mate.told(effects) == [Goodbye("drained")]
    assert of(we.CloseSession, effects) == [we.CloseSession(session, CloseReason.GOODBYE, "drained")]
    assert effects[-1] == we.FinishDrain(clean=True)
    assert mate.advance(1000) == []


def test_a_coordinator_may_ask_for_a_drain_and_every_other_hears_of_it() -> None:
    mate = Mate()
    session, other = mate.opens("s1"), mate.opens("other")
    attempt = mate.assigned(leaf(), other)
    effects = mate.hears(session, DrainRequest())
    assert effects == [we.SendToCoordinator(each, WorkerBeat(DRAINING)) for each in (session, other)]
    assert of(we.FinishDrain, mate.fails(attempt)) == [we.FinishDrain(clean=True)]


def test_an_idle_worker_has_drained_at_once() -> None:
    mate = Mate()
    mate.opens()
    assert of(we.FinishDrain, mate.step(wv.DrainRequested())) == [we.FinishDrain(clean=True)]


def test_a_worker_that_loses_its_last_coordinator_while_it_drains_waits_until_all_has_stopped() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.step(wv.DrainRequested())
    assert of(we.FinishDrain, mate.loses(session)) == []
    assert of(we.FinishDrain, mate.stops(attempt)) == [we.FinishDrain(clean=True)]


def test_a_result_that_nobody_fetches_holds_a_drain_up_until_its_coordinator_is_gone() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.succeeds(attempt)
    assert of(we.FinishDrain, mate.step(wv.DrainRequested())) == []
    effects = mate.loses(session)
    assert of(we.FinishDrain, effects) == [we.FinishDrain(clean=True)]
    assert of(we.DropResult, effects) == [we.DropResult(attempt.attempt_id, DropReason.CANCELED)]


def test_a_drain_that_takes_too_long_stops_what_runs() -> None:
    mate = Mate(drain_max_s=300)
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.step(wv.DrainRequested())
    assert of(we.FinishDrain, mate.advance(299.9)) == []
    effects = mate.advance(0.1)
    assert Goodbye("the time for draining ran out") in mate.told(effects)
    assert of(we.StopExecution, effects) == [we.StopExecution(attempt.attempt_id)]
    assert of(we.FinishDrain, effects) == [we.FinishDrain(clean=False)]
    assert of(we.FinishDrain, mate.stops(attempt)) == []  # it has been said


def test_a_drain_may_end_in_the_middle_of_canceling_a_query() -> None:
    mate = Mate(slots=2)
    session = mate.opens()
    ready, other = mate.assigned(leaf("a"), session), mate.assigned(leaf("b"), session)
    mate.succeeds(ready)
    mate.succeeds(other)
    assert of(we.FinishDrain, mate.step(wv.DrainRequested())) == []
    effects = mate.hears(session, CancelQuery(key().query_id))
    assert mate.told(effects) == [WorkCanceled(ready.attempt_id), WorkCanceled(other.attempt_id), Goodbye("drained")]
    dropped = [we.DropResult(one.attempt_id, DropReason.CANCELED) for one in (ready, other)]
    assert of(we.DropResult, effects) == dropped
    assert of(we.FinishDrain, effects) == [we.FinishDrain(clean=True)]


def test_what_runs_or_is_gone_has_nothing_to_evict() -> None:
    mate = Mate()
    attempt = mate.assigned(leaf(), mate.opens())
    assert mate.evicts(attempt) == []
    assert attempt.state is A.RUNNING
    mate.fails(attempt)
    assert mate.evicts(attempt) == []


# Credit


def test_room_is_divided_among_the_sessions() -> None:
    mate = Mate(slots=2, queue_places=5)
    one = mate.opens("one")
    assert grants(mate, one) == [7]
    two = mate.opens("two")
    assert (grants(mate, one), grants(mate, two)) == ([4], [3])
    three = mate.opens("three")
    assert [grants(mate, each) for each in (one, two, three)] == [[3], [2], [2]]
    mate.loses(one)
    assert [grants(mate, each) for each in (two, three)] == [[4], [3]]


def test_a_lowered_credit_counts_at_its_old_value_until_it_is_confirmed() -> None:
    mate = Mate(slots=2, queue_places=4)
    one = mate.opens("one", confirming=False)
    mate.hears(one, CreditConfirmed(6))
    mate.log.clear()
    two = mate.opens("two", confirming=False)
    assert (grants(mate, one), grants(mate, two)) == ([6, 3], [0])
    assert of(CreditChanged, mate.told(mate.log)) == [CreditChanged(3)]
    effects = mate.hears(one, CreditConfirmed(3))
    assert mate.told(effects) == [CreditChanged(3)]
    assert (grants(mate, one), grants(mate, two)) == ([3], [0, 3])


def test_credit_that_is_in_use_is_given_to_others_only_as_it_comes_back() -> None:
    mate = Mate(slots=1, queue_places=3)
    one = mate.opens("one")
    attempts = [mate.assigned(leaf(name), one) for name in "abcd"]
    two = mate.opens("two")
    assert (grants(mate, one), grants(mate, two)) == ([2], [0])
    mate.fails(attempts[0])
    assert grants(mate, two) == [1]
    mate.fails(attempts[1])
    assert grants(mate, two) == [2]
    mate.fails(attempts[2])
    assert (grants(mate, one), grants(mate, two)) == ([2], [2])


def test_what_one_session_leaves_is_shared_by_the_others_at_once() -> None:
    mate = Mate(slots=2, queue_places=4)
    one, two, three = mate.opens("one"), mate.opens("two"), mate.opens("three")
    mate.confirming.clear()
    mate.loses(one)
    assert (grants(mate, two), grants(mate, three)) == ([2, 3], [2, 3])


def test_every_session_has_at_least_one() -> None:
    mate = Mate(slots=1, queue_places=0)
    sessions = [mate.opens(f"s{n}") for n in range(5)]
    assert [grants(mate, each) for each in sessions] == [[1]] * 5


def test_nobody_is_told_of_a_credit_that_stays() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    assert mate.told(mate.fails(attempt)) != []
    assert of(CreditChanged, mate.told(mate.log)) == [CreditChanged(4)]


def _session(number: int) -> WorkerSession:
    watch = PeerWatch.begin(LivenessPolicy(), 0)
    return WorkerSession(SessionId(f"s{number}"), CoordinatorId("c"), watch)


@given(
    room=st.integers(1, 9),
    moves=st.lists(st.tuples(st.sampled_from(["join", "leave", "confirm", "use", "end"]), st.integers(0, 4))),
)
def test_what_coordinators_may_believe_in_is_never_more_than_the_room(room: int, moves: list[tuple[str, int]]) -> None:
    sessions: list[WorkerSession] = []
    most = room  # every session has at least one, so many sessions make the room larger, until they have confirmed less
    for number, (move, place) in enumerate(moves):
        session = sessions[place % len(sessions)] if sessions else None
        match move, session:
            case "join", _:
                sessions.append(_session(number))
            case "leave", WorkerSession():
                sessions.remove(session)
            case "confirm", WorkerSession() if len(session.grants) > 1:
                session.grants.popleft()
            case "use", WorkerSession() if session.outstanding < max(session.grants):
                session.load.add(LEAF)
            case "end", WorkerSession() if session.outstanding:
                session.load.remove(LEAF)
            case _:
                continue
        for changed, credit in divide(room, sessions):
            assert credit != changed.granted
            assert credit >= 0
            changed.grants.append(credit)
        most = max(most, len(sessions))
        assert sum(each.exposure for each in sessions) <= most
    for _ in range(len(sessions) + 1):  # once everybody has confirmed and nothing is in use, all have their share
        for each in sessions:
            each.load.clear()
            while len(each.grants) > 1:
                each.grants.popleft()
        for changed, credit in divide(room, sessions):
            changed.grants.append(credit)
    shares = [each.granted for each in sessions]
    assert sum(shares) == (max(room, len(sessions)) if sessions else 0)
    assert not shares or max(shares) - min(shares) <= 1


@pytest.mark.parametrize("beginning", [0.0, 1000.0])
def test_a_silent_coordinator_is_found_at_any_time_of_day(beginning: float) -> None:
    for step in range(800):
        mate = Mate()
        mate.now = beginning + step * 0.7310585786300049
        session = mate.opens()
        mate.advance(3.5, silent=[session])
        assert list(mate.machine.sessions()) == []


def test_a_session_that_opens_after_the_drain_has_ended_is_told_goodbye() -> None:
    mate = Mate()
    mate.step(wv.DrainRequested())
    mate.log.clear()
    late = mate.opens("late")
    assert mate.told(mate.log, late) == [Goodbye("drained")]
    assert of(we.CloseSession, mate.log) == [we.CloseSession(late, CloseReason.GOODBYE, "drained")]
    assert list(mate.machine.sessions()) == []


def test_progress_of_an_attempt_that_is_over_is_ignored() -> None:
    mate = Mate()
    session = mate.opens()
    attempt = mate.assigned(leaf(), session)
    mate.fails(attempt)
    assert mate.step(wv.ExecutionProgressed(attempt.attempt_id, 0.5)) == []

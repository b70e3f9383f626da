"""Works that wait on a worker behind a long one are taken back and given to one that can begin them."""

from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator.records import Work
from quarterdeck.core.workcoord.coordinator.tables import ReassignmentReason, WorkState
from quarterdeck.core.workcoord.messages import (
    CreditChanged,
    RecallWork,
    WorkCanceled,
    WorkerBeat,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.messages import RejectReason as Why
from quarterdeck.core.workcoord.model import AttemptId
from tests.core.workcoord.harness import ACCEPTING, LEAF, PAUSED, Bridge, key, leaf, of

W = WorkState


def crew(
    bridge: Bridge, *, slots: int = 1, waiting: int = 1, credit: int = 8, others: int = 1
) -> tuple[SessionId, list[SessionId], list[Work]]:
    """A worker with a long work that runs and light ones behind it, and others that have nothing to do yet."""
    sessions = [bridge.joins(f"w{number}", credit=credit, slots=slots) for number in range(others + 1)]
    longs = [bridge.submit(leaf(f"long {number}", "long", affinity="same")) for number in range(slots)]
    for long in longs:
        bridge.accepts(long)
    works = [bridge.submit(leaf(f"{number}", f"light {number}", affinity="same")) for number in range(waiting)]
    busy = bridge.session_of(longs[0])
    assert {bridge.session_of(work) for work in (*longs, *works)} == {busy}
    return busy, [session for session in sessions if session != busy], works


def recalled(bridge: Bridge, effects: list[ce.Effect], session: SessionId) -> list[str]:
    return [message.attempt.key.work_id for message in of(RecallWork, bridge.sent(effects, session))]


def test_what_waits_behind_a_long_work_is_taken_back_after_a_moment_and_begins_on_an_idle_worker() -> None:
    bridge = Bridge()
    busy, (idle,), (work,) = crew(bridge)
    assert recalled(bridge, bridge.advance(0.09), busy) == []
    assert recalled(bridge, bridge.advance(0.02), busy) == ["0"]
    effects = bridge.says(busy, WorkReturned(work.current_id))
    assert bridge.assigned(effects, idle) == ["0"]
    attempt = AttemptId(work.key, 1)
    assert of(ce.ReportReassignment, effects) == [ce.ReportReassignment(attempt, ReassignmentReason.RECALLED)]
    assert (work.number, work.failures, work.recalls) == (2, 0, 1)
    assert bridge.machine.counters["recalled"] == 1


def test_nothing_is_taken_back_while_nobody_could_begin_it() -> None:
    bridge = Bridge()
    busy, (other,), _ = crew(bridge)
    mine = bridge.submit(leaf("other long", "other long", affinity="same", kind=LEAF))
    bridge.cancel("other long")
    bridge.says(busy, WorkCanceled(mine.current_id))
    bridge.says(other, CreditChanged(0))
    assert recalled(bridge, bridge.advance(5), busy) == []


def test_a_worker_that_gets_idle_later_draws_what_waits_elsewhere() -> None:
    bridge = Bridge()
    busy, (other,), (work,) = crew(bridge)
    bridge.says(other, WorkerBeat(PAUSED))
    assert recalled(bridge, bridge.advance(5), busy) == []
    bridge.status[other] = bridge.status[busy]
    effects = bridge.says(other, WorkerBeat(bridge.status[busy]))
    effects += bridge.settle()
    assert recalled(bridge, effects, busy) == ["0"]
    assert work.state is W.ASSIGNED


def test_no_more_is_taken_back_than_the_idle_can_begin() -> None:
    bridge = Bridge()
    busy, _, _ = crew(bridge, slots=2, waiting=5)
    assert recalled(bridge, bridge.advance(0.11), busy) == ["0", "1"]


def test_a_work_that_does_not_come_back_is_recalled_once_and_others_after_it() -> None:
    bridge = Bridge()
    busy, _, _ = crew(bridge, waiting=3)
    assert recalled(bridge, bridge.advance(1.0), busy) == ["0", "1", "2"]


def test_a_recall_that_crosses_the_start_changes_nothing() -> None:
    bridge = Bridge()
    _, _, (work,) = crew(bridge)
    bridge.advance(0.11)
    bridge.done(work)
    assert work.state is W.DONE
    assert bridge.machine.counters["protocol_errors"] == 0


def test_a_recall_that_crosses_a_cancel_ends_the_attempt_once() -> None:
    bridge = Bridge()
    busy, _, (work,) = crew(bridge)
    bridge.advance(0.11)
    attempt = work.current_id
    bridge.cancel("light 0")
    assert bridge.session(busy).closing == {attempt: LEAF}
    bridge.says(busy, WorkReturned(attempt))
    assert (bridge.session(busy).closing, bridge.session(busy).outstanding) == ({}, 1)
    assert bridge.machine.counters["protocol_errors"] == 0


def test_a_recall_that_crosses_the_loss_of_the_session_costs_nothing() -> None:
    bridge = Bridge()
    busy, (idle,), (work,) = crew(bridge)
    bridge.advance(0.11)
    bridge.loses(busy)
    assert bridge.session_of(work) == idle
    assert (work.failures, work.deaths) == (0, ())


def test_a_recall_that_crosses_a_rejection_is_fine() -> None:
    bridge = Bridge()
    busy, (idle,), (work,) = crew(bridge)
    bridge.advance(0.11)
    bridge.says(busy, WorkRejected(work.current_id, Why.NOT_ACCEPTING))
    assert bridge.session_of(work) == idle


def test_what_comes_back_goes_home_again_when_the_idle_one_has_other_work_by_now() -> None:
    bridge = Bridge()
    busy, (idle,), (work,) = crew(bridge)
    bridge.advance(0.11)
    bridge.says(idle, WorkerBeat(PAUSED))
    bridge.says(busy, WorkReturned(work.current_id))
    assert bridge.session_of(work) == busy


def test_a_work_is_taken_back_twice_at_most_and_does_not_go_to_and_fro() -> None:
    bridge = Bridge()
    busy, (idle,), (work,) = crew(bridge)
    for _ in range(20):
        bridge.says(idle, WorkerBeat(PAUSED))
        bridge.advance(0.2)
        bridge.says(idle, WorkerBeat(bridge.status[busy]))
        bridge.advance(0.2)
        if work.current is not None and work.current.is_recalled:
            bridge.says(idle, WorkerBeat(PAUSED))  # so that it comes home
            bridge.says(busy, WorkReturned(work.current_id))
    assert (work.recalls, work.number) == (2, 3)
    assert bridge.session_of(work) == busy


def test_what_has_begun_is_never_taken_back() -> None:
    bridge = Bridge()
    busy, _, (work,) = crew(bridge)
    bridge.accepts(work)
    assert recalled(bridge, bridge.advance(5), busy) == []


def test_a_suspect_is_not_taken_back_for_a_worker_that_has_another_suspect() -> None:
    bridge = Bridge()
    first = bridge.joins("first", slots=2, credit=8)
    suspects = [bridge.submit(leaf(name, f"query {name}")) for name in "ab"]
    for work in suspects:
        bridge.accepts(work)
    bridge.joins("w1", credit=8, slots=2)
    bridge.joins("w2", credit=8, slots=2)
    bridge.loses(first)
    sessions = [bridge.session_of(work) for work in suspects]
    assert len(set(sessions)) == 2
    effects = bridge.advance(5)
    assert [recalled(bridge, effects, session) for session in sessions] == [[], []]


def test_a_work_that_waits_for_anothers_coordinator_is_taken_back_too() -> None:
    """The worker looks idle from here: what runs there is somebody else's."""
    bridge = Bridge()
    sessions = [bridge.joins(f"w{number}") for number in range(2)]
    work = bridge.submit(leaf())
    stuck = bridge.session_of(work)
    (idle,) = set(sessions) - {stuck}
    assert recalled(bridge, bridge.advance(0.11), stuck) == ["a"]
    assert bridge.assigned(bridge.says(stuck, WorkReturned(work.current_id)), idle) == ["a"]


def test_a_step_takes_back_a_batch_at_most() -> None:
    bridge = Bridge()
    bridge.joins("w0", credit=2000, slots=1)
    bridge.accepts(bridge.submit(leaf("long", affinity="same")))
    for number in range(600):
        bridge.submit(leaf(f"{number}", affinity="same"))
    busy = bridge.session_of(bridge.work(key("long")))
    other = bridge.joins("w1", credit=2000, slots=2000)
    bridge.advance(0.09)
    bridge.now += 0.02
    effects = bridge.settle()
    while not of(ce.SendToWorker, effects):
        effects = bridge.advance(0.1)
    assert len(recalled(bridge, effects, busy)) == 256
    assert bridge.session(other).outstanding == 0


def test_a_lane_that_nobody_is_left_in_recalls_nothing() -> None:
    bridge = Bridge()
    busy, (idle,), (work,) = crew(bridge)
    bridge.says(idle, WorkerBeat(PAUSED))
    bridge.says(busy, WorkerBeat(PAUSED))
    assert recalled(bridge, bridge.advance(2), busy) == []
    assert bridge.session_of(work) == busy


def test_what_waits_on_a_worker_is_still_taken_back_after_all_workers_were_out_of_rotation_for_a_while() -> None:
    bridge = Bridge()
    busy, (idle,), (work,) = crew(bridge)
    for session in (busy, idle):
        bridge.says(session, WorkerBeat(PAUSED))
    for session in (busy, idle):
        bridge.says(session, WorkerBeat(ACCEPTING))
    assert recalled(bridge, bridge.advance(0.5), busy) == ["0"]
    assert bridge.assigned(bridge.says(busy, WorkReturned(work.current_id)), idle) == ["0"]


def test_a_lane_goes_when_nobody_is_in_it_and_the_last_attempt_has_ended() -> None:
    bridge = Bridge()
    session = bridge.joins("w0", kinds=frozenset({LEAF}))
    work = bridge.submit(leaf())
    bridge.says(session, WorkerBeat(PAUSED))
    lanes = bridge.machine.ledger.dispatch.lanes
    assert len(list(lanes())) == 1
    bridge.done(work)
    assert list(lanes()) == []


def test_what_ends_after_its_lane_went_leaves_the_new_lane_alone() -> None:
    bridge = Bridge()
    session = bridge.joins("w0", kinds=frozenset({LEAF}))
    work = bridge.submit(leaf())
    bridge.accepts(work)
    bridge.says(session, WorkerBeat(PAUSED))
    other = bridge.joins("w1", kinds=frozenset({LEAF}))
    bridge.done(work)
    assert bridge.session_of(bridge.submit(leaf("b"))) == other

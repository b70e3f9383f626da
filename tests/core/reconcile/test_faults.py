"""Whatever is lost or dies only delays: workers, sessions, messages."""

import pytest

from quarterdeck.core.ids import Fence, Incarnation, SessionId, WorkerId
from quarterdeck.core.invariants import InvariantError
from quarterdeck.core.reconcile.holder import HolderConfig, HolderMachine
from quarterdeck.core.reconcile.holder import effects as he
from quarterdeck.core.reconcile.holder import events as hv
from quarterdeck.core.reconcile.leader import events as lv
from quarterdeck.core.reconcile.messages import (
    DropThing,
    HoldingsReported,
    HoldThing,
    LeaderAnnounced,
    ReportWanted,
)
from quarterdeck.core.reconcile.model import HeldId, Holding, Report, Revision, ThingId
from quarterdeck.core.reconcile.tables import HoldingState, ThingState
from tests.core.reconcile.world import EPOCH, FINAL, FRAGMENT, PASSING, World, spec

# Workers and sessions


def test_a_worker_that_was_killed_gets_what_it_held_again():
    world = World(["w1"]).crew_up()
    world.declare(spec("a", pinned_to="w1"), spec("b"))
    world.settle()
    world.kill("w1")
    world.wait(3)
    assert world.store.state("a") is ThingState.HELD, "its lease is not over"
    world.connect(world.captain, world.hand("w1"))
    world.settle()
    world.check_converged()
    assert len(world.held("w1")) == 2


def test_what_a_worker_lost_is_committed_as_missing_before_it_is_asked_for_again():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    world.break_down("w1", "a", PASSING)
    (line,) = world.lines.values()
    world.deliver(line, to_worker=False)
    assert not line.to_worker
    world.answer(world.captain)
    assert world.store.state("a") is ThingState.PLACED
    assert [type(message) for message in line.to_worker] == [HoldThing]
    world.settle()
    world.check_converged()


def test_a_worker_that_keeps_what_it_holds_through_a_broken_session_is_told_nothing():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    world.cut_off("w1")
    world.wait(2)
    line = world.connect(world.captain, world.hand("w1"))
    while line.to_captain or world.captain.asked:
        world.answer(world.captain) if world.captain.asked else world.deliver(line, to_worker=False)
    assert not [message for message in line.to_worker if not isinstance(message, LeaderAnnounced)]
    world.settle()
    world.check_converged()


def test_an_epoch_moves_when_the_lease_of_its_worker_is_over():
    world = World(["w1", "w2"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    first = world.store.thing("a").worker_id
    assert first is not None
    world.cut_off(first)
    world.wait(world.config.lease_s - 1)
    assert world.store.thing("a").worker_id == first
    world.wait(2)
    second = world.store.thing("a")
    assert second.worker_id != first
    assert second.state is ThingState.HELD
    assert len(world.held(first)) == 1, "nobody could tell it"
    world.connect(world.captain, world.hand(first))
    world.settle()
    world.check_converged()


def test_an_epoch_that_nobody_else_can_hold_waits_and_is_not_said_to_be_held():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    world.cut_off("w1")
    world.wait(world.config.lease_s + 1)
    assert world.store.state("a") is ThingState.PLACED
    world.connect(world.captain, world.hand("w1"))
    world.settle()
    world.check_converged()


def test_a_fragment_waits_for_its_worker_and_is_not_cleared_without_it():
    world = World(["w1", "w2"]).crew_up()
    world.declare(spec("f", pinned_to="w1", kind=FRAGMENT))
    world.settle()
    world.cut_off("w1")
    world.wait(100)
    assert (world.store.thing("f").worker_id, world.store.state("f")) == ("w1", ThingState.PLACED)
    world.withdraw("f")
    world.wait(100)
    assert world.store.state("f") is ThingState.WITHDRAWN
    world.connect(world.captain, world.hand("w1"))
    world.settle()
    assert not world.store.things
    world.check_converged()


def test_an_epoch_is_cleared_when_the_lease_of_its_worker_is_over_and_what_comes_back_is_stopped():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    world.cut_off("w1")
    world.withdraw("a")
    world.settle()
    assert world.store.state("a") is ThingState.WITHDRAWN
    world.wait(world.config.lease_s + 1)
    assert not world.store.things
    assert not list(world.captain.machine.workers)
    assert len(world.held("w1")) == 1
    world.connect(world.captain, world.hand("w1"))
    world.settle()
    world.check_converged()


def test_nothing_is_said_to_a_worker_that_is_away():
    world = World(["w1"]).crew_up()
    world.declare(spec("a", pinned_to="w1"))
    world.answer(world.captain)
    world.answer(world.captain)
    world.cut_off("w1")
    world.wait(60)
    assert not world.captain.retries


def test_a_command_that_is_lost_is_said_again():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.answer(world.captain)
    world.answer(world.captain)
    (line,) = world.lines.values()
    line.to_worker.clear()
    world.wait(1)
    world.check_converged()
    assert [retry.command for retry in world.captain.retries] == ["hold"]
    world.withdraw("a")
    world.answer(world.captain)
    line.to_worker.clear()
    world.wait(1)
    world.check_converged()
    assert [retry.command for retry in world.captain.retries] == ["hold", "drop"]


def test_a_command_that_comes_twice_does_nothing_more():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    (line,) = world.lines.values()
    thing = world.store.thing("a")
    fence = world.captain.machine.fence
    assert fence is not None
    hold = hv.MessageReceived(line.session_id, HoldThing(fence, thing.held_id, thing.spec))
    assert not world.tell_hand(world.hand("w1"), hold)
    drop = hv.MessageReceived(line.session_id, DropThing(fence, thing.held_id))
    assert he.Release(thing.held_id, thing.spec) in world.tell_hand(world.hand("w1"), drop)
    assert not world.tell_hand(world.hand("w1"), drop)


def test_a_worker_says_of_what_it_never_had_that_it_is_gone():
    world = World(["w1"]).crew_up()
    world.declare(spec("a", pinned_to="w1"))
    world.answer(world.captain)
    world.answer(world.captain)
    (line,) = world.lines.values()
    line.to_worker.clear()
    world.withdraw("a")
    world.settle()
    assert not world.store.things


def test_a_change_before_the_first_full_report_is_not_enough():
    world = World(["w1"]).crew_up()
    (line,) = world.lines.values()
    world.cut(line)
    line = world.connect(world.captain, world.hand("w1"))
    line.to_captain.popleft()
    world.tell_hand(world.hand("w1"), hv.DrainRequested())
    world.deliver(line, to_worker=False)
    assert world.captain.machine.counters["reports_missed"] == 1
    world.settle()
    assert world.captain.machine.is_settled


def test_a_drop_is_answered_also_without_anything_to_drop():
    world = World(["w1"]).crew_up()
    (line,) = world.lines.values()
    fence = world.captain.machine.fence
    assert fence is not None
    held_id = HeldId(ThingId("x"), Revision(1))
    effects = world.tell_hand(world.hand("w1"), hv.MessageReceived(line.session_id, DropThing(fence, held_id)))
    assert [effect.message.report.gone for effect in effects if isinstance(effect, he.SendToCoordinator)] == [
        (held_id,)
    ]


def test_a_lost_report_is_noticed_and_all_of_it_asked_for():
    world = World(["w1"]).crew_up()
    (line,) = world.lines.values()
    world.declare(spec("a"), spec("b"))
    world.answer(world.captain)
    world.answer(world.captain)
    world.deliver(line, to_worker=True)
    line.to_captain.clear()
    world.deliver(line, to_worker=True)
    world.deliver(line, to_worker=False)
    assert [type(message) for message in line.to_worker] == [ReportWanted]
    world.settle()
    world.check_converged()
    assert world.captain.machine.counters["reports_missed"] == 1


def test_what_went_in_a_report_that_was_lost_is_missing_from_the_whole():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"), spec("b"))
    world.settle()
    (line,) = world.lines.values()
    fence = world.captain.machine.fence
    assert fence is not None
    drop = DropThing(fence, world.store.thing("a").held_id)
    world.tell_hand(world.hand("w1"), hv.MessageReceived(line.session_id, drop))
    world.finish(world.hand("w1"), drop.held_id)
    line.to_captain.clear()
    world.tell_hand(world.hand("w1"), hv.DrainRequested())
    world.settle()
    assert world.captain.machine.counters["reports_missed"] == 1
    world.check_converged()


def test_an_announcement_that_is_lost_is_said_again():
    world = World(["w1"])
    line = world.connect(world.captain, world.hand("w1"))
    world.settle()
    world.lead(world.captain)
    line.to_worker.clear()
    world.declare(spec("a"))
    world.wait(2)
    world.check_converged()


def test_a_worker_that_never_reports_hears_nothing():
    world = World([])
    world.lead(world.captain)
    world.declare(spec("a", pinned_to="w9"))
    assert not world.tell(world.captain, lv.SessionOpened(SessionId("s"), WorkerId("w9"), Incarnation(1), "default"))
    world.wait(60)
    assert world.store.state("a") is ThingState.PLACED


def test_a_worker_that_drains_gets_nothing_new_and_epochs_leave_it():
    world = World(["w1", "w2"]).crew_up()
    world.declare(*(spec(f"a{i}") for i in range(6)), spec("f", pinned_to="w1"))
    world.settle()
    assert len(world.held("w1")) > 1
    world.tell_hand(world.hand("w1"), hv.DrainRequested())
    assert not world.tell_hand(world.hand("w1"), hv.DrainRequested())
    world.settle()
    assert set(world.held("w1")) == {"f"}
    world.check_converged()


def test_a_worker_that_fails_again_and_again_is_left_for_another():
    world = World(["w1", "w2"]).crew_up()
    world.declare(spec("a"))
    first = None
    for _ in range(world.config.tries_before_moving):
        while not any(hand.under_way for hand in world.hands):
            if not world.move():
                world.now = world.captain.machine.next_deadline() or 0.0
                world.pass_time()
        hand = next(hand for hand in world.hands if hand.under_way)
        assert first in (None, hand)
        first = hand
        world.finish(hand, world.store.thing("a").held_id, PASSING)
    world.settle()
    assert first is not None
    assert world.store.thing("a").worker_id not in (None, first.worker_id)
    world.check_converged()


def test_a_worker_that_is_full_fails_and_one_far_beyond_it_hears_nothing():
    world = World(["w1"], max_held=2).crew_up()
    world.declare(*(spec(f"a{i}") for i in range(6)))
    world.settle()
    assert sorted(world.held("w1").values()) == [HoldingState.FAILED] * 2 + [HoldingState.HELD] * 2
    assert world.hand("w1").machine.counters["commands_beyond_all_bounds"] == 2
    world.withdraw(*(f"a{i}" for i in range(4)))
    world.wait(60)
    world.check_converged()


def test_a_worker_that_does_not_hold_the_kind_says_so_and_does_not_keep_what_is_not_pinned():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"), spec("f", pinned_to="w1", kind=FRAGMENT))
    world.settle()
    world.kill("w1")
    world.kinds = frozenset((FRAGMENT,))
    world.kill("w1")
    world.hands += World(["w2"]).hands
    world.connect(world.captain, world.hand("w2"))
    world.connect(world.captain, world.hand("w1"))
    world.wait(5)
    assert world.store.thing("a").worker_id == "w2"
    world.check_converged()
    world.declare(spec("g", pinned_to="w1"))
    world.settle()
    holding = world.holding("w1", "g")
    assert holding is not None
    assert holding.error is not None
    assert "does not hold" in holding.error.message


def test_what_cannot_be_released_is_told_again_later():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    held_id = world.store.thing("a").held_id
    world.withdraw("a")
    while held_id not in world.hand("w1").under_way:
        world.move()
    world.finish(world.hand("w1"), held_id, PASSING)
    world.settle()
    assert world.held("w1") == {"a": HoldingState.FAILED}
    world.wait(1)
    assert not world.store.things
    world.check_converged()


def test_an_older_generation_goes_before_a_new_one_is_held():
    world = World(["w1", "w2"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    first = world.store.thing("a").worker_id
    assert first is not None
    second = next(hand.worker_id for hand in world.hands if hand.worker_id != first)
    old = world.store.thing("a").held_id
    world.cut_off(first)
    world.wait(world.config.lease_s + 1)  # now the other one has it
    world.kill(second)
    world.wait(world.config.lease_s + 1)
    line = world.connect(world.captain, world.hand(first))
    world.settle()
    world.check_converged()
    assert world.store.thing("a").worker_id == first
    assert world.store.thing("a").held_id != old
    # And a worker that is told otherwise waits for the older one to go.
    fence = world.captain.machine.fence
    assert fence is not None
    newer = HeldId(ThingId("a"), Revision(99))
    assert not world.tell_hand(
        world.hand(first), hv.MessageReceived(line.session_id, HoldThing(fence, newer, spec("a")))
    )


def test_a_newer_process_of_a_worker_replaces_the_older_and_an_older_one_is_not_heard():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    (old,) = world.lines.values()
    opened = lv.SessionOpened(SessionId("new"), WorkerId("w1"), Incarnation(2), "default")
    world.lines[SessionId("new")] = old
    world.tell(world.captain, opened)
    worker = world.captain.machine.workers.get(WorkerId("w1"))
    assert worker is not None
    assert worker.session_id == "new"
    world.tell(world.captain, lv.SessionOpened(SessionId("old"), WorkerId("w1"), Incarnation(1), "default"))
    assert worker.session_id == "new"
    full = HoldingsReported(Report(Fence(9), None, 1))
    assert not world.tell(world.captain, lv.MessageReceived(SessionId("old"), full))
    assert not world.tell(world.captain, lv.SessionLost(SessionId("old")))
    # One that never said what it holds is given up when its lease is over.
    world.tell(world.captain, lv.SessionLost(SessionId("new")))
    world.wait(world.config.lease_s + 1)
    assert world.store.state("a") is ThingState.PLACED


def test_what_a_session_that_is_gone_says_is_not_heard_by_the_worker():
    world = World(["w1"]).crew_up()
    assert not world.tell_hand(world.hand("w1"), hv.MessageReceived(SessionId("x"), ReportWanted()))


# Records


def test_the_records_of_a_leader_are_checked():
    world = World(["w1"]).crew_up()
    world.captain.machine.workers.known(WorkerId("w1")).holdings[HeldId(ThingId("x"), Revision(1))] = Holding(
        HeldId(ThingId("x"), Revision(1)), HoldingState.HELD
    )
    with pytest.raises(InvariantError, match="by thing"):
        world.captain.machine.check_invariants()


def test_the_records_of_a_holder_are_checked():
    machine = HolderMachine(HolderConfig(frozenset((EPOCH,))))
    machine.step(hv.SessionOpened(SessionId("s")), 0)
    held_id = HeldId(ThingId("a"), Revision(1))
    machine.step(hv.MessageReceived(SessionId("s"), HoldThing(Fence(1), held_id, spec("a"))), 0)
    machine.step(hv.HoldingFailed(held_id, FINAL), 0)
    machine.check_invariants()
    machine._records[held_id].error = None  # pyright: ignore[reportPrivateUsage] - nothing else breaks it
    with pytest.raises(InvariantError, match="with the error"):
        machine.check_invariants()
    assert machine.next_deadline() is None

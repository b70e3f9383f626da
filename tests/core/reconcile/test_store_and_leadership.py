"""A store that fails or forgets, and leaders that come and go: nothing is lost, and nobody is obeyed twice."""

import itertools

import pytest

from quarterdeck.core.ids import Fence, SessionId
from quarterdeck.core.reconcile.holder import effects as he
from quarterdeck.core.reconcile.holder import events as hv
from quarterdeck.core.reconcile.leader import effects as le
from quarterdeck.core.reconcile.leader import events as lv
from quarterdeck.core.reconcile.messages import (
    DropThing,
    HoldingsReported,
    LeaderAnnounced,
    LeaderMessage,
)
from quarterdeck.core.reconcile.model import HeldId, Holding, Report, Revision, ThingId
from quarterdeck.core.reconcile.tables import HoldingState
from tests.core.reconcile.world import World, spec

# The store


@pytest.mark.parametrize("effect", [True, False], ids=["after its effect", "before its effect"])
def test_a_store_whose_answer_is_lost_is_read_anew(*, effect: bool):
    world = World(["w1"]).crew_up()
    world.declare(spec("a"), spec("b", pinned_to="w1"))
    world.answer(world.captain)
    world.answer(world.captain, lose=True, effect=effect)
    assert world.captain.asked is None, "it rests a moment"
    assert not world.lines[SessionId("s1")].to_worker
    world.wait(1)
    world.check_converged()


def test_what_the_store_lost_is_forgotten_when_it_is_read_anew():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    world.withdraw("a")
    while not isinstance(world.captain.asked, le.Commit):
        world.answer(world.captain) if world.captain.asked else world.move()
    world.answer(world.captain, lose=True)
    assert not world.store.things
    assert len(world.captain.machine.declared) == 1
    world.wait(1)
    assert not len(world.captain.machine.declared)
    world.check_converged()


def test_a_store_that_fails_for_long_is_asked_more_and_more_rarely():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    asked_at: list[float] = []
    for _ in range(4):
        world.answer(world.captain, effect=False)
        world.now = world.captain.machine.next_deadline() or 0.0
        world.pass_time()
        asked_at.append(world.now)
    assert [later - earlier for earlier, later in itertools.pairwise(asked_at)] == [1.0, 2.0, 4.0]
    world.settle()
    world.check_converged()


def test_a_proposal_about_what_has_changed_is_refused_and_made_anew():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"), spec("b"))
    world.answer(world.captain)
    world.withdraw("a", hint=False)
    world.answer(world.captain)
    assert isinstance(world.captain.asked, le.Load)
    world.settle()
    assert list(world.store.things) == ["b"]
    world.check_converged()


def test_answers_to_nothing_are_passed_over():
    world = World(["w1"]).crew_up()
    for event in (
        lv.DeclaredLoaded(99, Revision(9), ()),
        lv.ChangesCommitted(99, ()),
        lv.ChangesRefused(99),
        lv.StoreFailed(99),
        lv.StoreDeposedUs(99, Fence(9)),
    ):
        assert not world.tell(world.captain, event)


# Leadership


def test_a_new_leader_goes_on_where_the_old_one_was():
    world = World(["w1", "w2"], captains=2).crew_up()
    old, new = world.captains
    world.declare(spec("a"), spec("b", pinned_to="w2"))
    world.answer(old)
    world.answer(old)
    world.kill_captain(old)
    world.lead(new)
    world.settle()
    world.check_converged()


def test_who_leads_no_more_is_not_obeyed_and_cannot_commit():
    world = World(["w1"], captains=2).crew_up()
    old, new = world.captains
    world.declare(spec("a", pinned_to="w1"))
    world.answer(old)
    world.answer(old)  # its command is on the way
    world.lead(new)
    line = world.line(new, world.hand("w1"))
    assert line is not None
    world.deliver(line, to_worker=True)
    stale = world.line(old, world.hand("w1"))
    assert stale is not None
    world.deliver(stale, to_worker=True)
    assert world.hand("w1").machine.counters["commands_refused"] == 1
    assert not world.held("w1")
    world.deliver(stale, to_worker=False)  # its own fence, from before
    while stale.to_captain:
        world.deliver(stale, to_worker=False)
    assert old.doubts == 1
    world.settle()
    world.check_converged()
    world.hint()
    world.settle()
    assert old.doubts == 1
    world.tell(old, lv.LeadershipLost())
    assert old.machine.fence is None
    assert not old.machine.is_settled


def test_a_store_that_has_seen_a_higher_fence_deposes():
    world = World(["w1"], captains=2).crew_up()
    old, new = world.captains
    world.declare(spec("a"), hint=False)
    world.lead(new)
    world.answer(new)
    world.tell(old, lv.DeclarationsChanged())
    world.answer(old)
    assert old.doubts == 1
    assert old.asked is None
    world.settle()
    world.check_converged()


def test_answers_of_the_store_to_an_earlier_leadership_are_nobodys():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    earlier = world.captain.asked
    assert earlier is not None
    world.lead(world.captain)
    assert not world.tell(world.captain, lv.DeclaredLoaded(earlier.number, Revision(5), ()))
    world.settle()
    world.check_converged()


def test_leadership_that_goes_and_comes_back_loses_nothing():
    world = World(["w1", "w2"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    world.tell(world.captain, lv.LeadershipLost())
    assert world.captain.machine.next_deadline() is None
    world.withdraw("a")
    world.declare(spec("b"))
    world.wait(100)
    world.lead(world.captain)
    world.settle()
    world.check_converged()
    assert list(world.store.things) == ["b"]


def test_leadership_lost_while_a_command_is_under_way_leaves_it_to_the_next_leader():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.answer(world.captain)
    world.answer(world.captain)
    world.tell(world.captain, lv.LeadershipLost())
    world.settle()
    world.lead(world.captain)
    world.settle()
    world.check_converged()


def test_a_new_leader_gives_workers_time_to_find_it():
    world = World(["w1", "w2"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    first = world.store.thing("a").worker_id
    assert first is not None
    other = next(hand for hand in world.hands if hand.worker_id != first)
    world.kill_captain(world.captain)
    world.lead(world.captain)
    world.connect(world.captain, other)
    world.wait(world.config.adopt_s - 1)
    assert world.store.thing("a").worker_id == first
    world.wait(2)
    assert world.store.thing("a").worker_id == other.worker_id


def test_a_follower_forgets_workers_that_are_gone():
    world = World(["w1", "w2"])
    world.connect(world.captain, world.hand("w1"))
    world.connect(world.captain, world.hand("w2"))
    world.settle()
    world.cut_off("w1")
    world.wait(world.config.lease_s + 1)
    assert [worker.worker_id for worker in world.captain.machine.workers] == ["w2"]
    world.cut_off("w2")
    world.lead(world.captain)
    world.wait(world.config.adopt_s + 1)
    assert not list(world.captain.machine.workers)


def test_a_worker_that_was_away_for_long_when_leadership_is_lost_is_forgotten():
    world = World(["w1"]).crew_up()
    world.declare(spec("a", pinned_to="w1"))
    world.settle()
    world.cut_off("w1")
    world.wait(world.config.lease_s + 1)
    assert list(world.captain.machine.workers)
    world.tell(world.captain, lv.LeadershipLost())
    assert not list(world.captain.machine.workers)


def test_a_leader_that_doubts_itself_is_not_deposed_twice():
    world = World(["w1"], captains=2).crew_up()
    old, new = world.captains
    world.declare(spec("a"), hint=False)
    world.tell(old, lv.DeclarationsChanged())
    world.lead(new)
    world.answer(new)
    line = world.line(old, world.hand("w1"))
    assert line is not None
    line.to_captain.append(HoldingsReported(Report(Fence(9), None, 0, world.kinds)))
    world.deliver(line, to_worker=False)
    assert old.doubts == 1
    world.answer(old)
    assert old.doubts == 1


@pytest.mark.parametrize("message", [LeaderAnnounced(Fence(1)), DropThing(Fence(1), HeldId(ThingId("a"), Revision(1)))])
def test_no_word_of_a_lower_fence_is_obeyed(message: LeaderMessage):
    world = World(["w1"]).crew_up()
    world.lead(world.captain)
    world.settle()
    (line,) = world.lines.values()
    effects = world.tell_hand(world.hand("w1"), hv.MessageReceived(line.session_id, message))
    assert effects[0] == he.RefuseCommand(line.session_id, Fence(1), Fence(2))
    assert world.hand("w1").machine.fence == 2


def test_a_worker_that_says_it_has_two_generations_is_told_to_drop_both():
    world = World(["w1"]).crew_up()
    (line,) = world.lines.values()
    ids = [HeldId(ThingId("a"), Revision(number)) for number in (1, 2)]
    holdings = tuple(Holding(held_id, HoldingState.HELD) for held_id in ids)
    fence = world.captain.machine.fence
    assert fence is not None
    world.tell(
        world.captain, lv.MessageReceived(line.session_id, HoldingsReported(Report(fence, None, 7, holdings=holdings)))
    )
    assert [message for message in line.to_worker if isinstance(message, DropThing)] == [
        DropThing(fence, each) for each in ids
    ]
    gone = HoldingsReported(Report(fence, 7, 8, gone=(ids[0],)))
    world.tell(world.captain, lv.MessageReceived(line.session_id, gone))

"""The life of declared things: placed, held, confirmed, withdrawn; nothing is told before it is committed."""

import itertools

import pytest

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.leader import LeaderConfig
from quarterdeck.core.reconcile.leader import effects as le
from quarterdeck.core.reconcile.messages import DropThing, HoldThing
from quarterdeck.core.reconcile.model import held_kind
from quarterdeck.core.reconcile.tables import HoldingState, ThingState
from tests.core.reconcile.world import FINAL, FRAGMENT, PASSING, POISON, START, World, spec


def test_what_is_declared_is_held_and_confirmed():
    world = World().crew_up()
    world.declare(spec("a"), spec("b", pinned_to="w2", kind=FRAGMENT))
    world.settle()
    world.check_converged()
    assert world.store.state("a") is ThingState.HELD
    assert world.store.thing("b").worker_id == "w2"
    assert world.captain.machine.is_settled


def test_nothing_is_told_before_it_is_committed():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.answer(world.captain)  # what is declared was read
    assert isinstance(world.captain.asked, le.Commit)
    assert not any(line.to_worker for line in world.lines.values())
    world.answer(world.captain)
    assert [type(message) for line in world.lines.values() for message in line.to_worker] == [HoldThing]


def test_what_is_withdrawn_is_dropped_and_then_forgotten():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    world.withdraw("a")
    world.answer(world.captain)
    assert [type(message) for line in world.lines.values() for message in line.to_worker] == [DropThing]
    assert world.store.state("a") is ThingState.WITHDRAWN
    world.settle()
    assert not world.store.things
    assert not world.held("w1")
    world.check_converged()


def test_what_is_withdrawn_before_it_had_a_place_is_forgotten_at_once():
    world = World([]).crew_up()
    world.declare(spec("a"))
    world.settle()
    assert world.store.state("a") is ThingState.DECLARED
    world.withdraw("a")
    world.settle()
    assert not world.store.things


def test_what_is_withdrawn_while_its_command_is_on_the_way_ends_only_when_the_worker_has_dropped_it():
    world = World(["w1"]).crew_up()
    world.declare(spec("a", pinned_to="w1"))
    world.answer(world.captain)
    world.answer(world.captain)  # placed: the command is on its way
    world.withdraw("a")
    world.answer(world.captain)
    assert world.captain.asked is None, "it may not be cleared yet"
    world.settle()
    assert not world.store.things
    assert not world.held("w1")


def test_a_thing_that_is_being_acquired_can_be_dropped():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    while not world.hand("w1").under_way:
        world.move()
    world.withdraw("a")
    world.settle()
    assert not world.store.things
    assert not world.hand("w1").resident


def test_without_a_hint_it_is_found_at_the_next_look():
    world = World().crew_up()
    world.declare(spec("a"), hint=False)
    world.settle()
    assert world.store.state("a") is ThingState.DECLARED
    world.wait(world.config.look_s)
    world.check_converged()


def test_it_waits_for_a_worker_that_can_hold_it():
    world = World([]).crew_up()
    world.declare(spec("a"))
    world.wait(20)
    assert world.store.state("a") is ThingState.DECLARED
    world.hands += World(["w1"]).hands
    world.connect(world.captain, world.hand("w1"))
    world.settle()
    world.check_converged()


def test_what_is_pinned_waits_for_its_worker():
    world = World(["w1", "w2"])
    world.lead(world.captain)
    world.connect(world.captain, world.hand("w1"))
    world.declare(spec("a", pinned_to="w2"))
    world.wait(100)
    assert world.store.state("a") is ThingState.PLACED
    world.connect(world.captain, world.hand("w2"))
    world.settle()
    world.check_converged()


def test_things_of_one_group_are_on_different_workers():
    world = World(["w1", "w2", "w3"]).crew_up()
    world.declare(*(spec(f"a{i}", "a") for i in range(3)))
    world.settle()
    assert {thing.worker_id for thing in world.store.things.values()} == {"w1", "w2", "w3"}


def test_a_replica_without_a_worker_of_its_own_gets_one_when_a_sibling_goes():
    world = World(["w1"]).crew_up()
    world.declare(spec("a1", "a"), spec("a2", "a"))
    world.settle()
    assert sorted(thing.state for thing in world.store.things.values()) == [ThingState.DECLARED, ThingState.HELD]
    (there,) = world.held("w1")
    world.withdraw(there)
    world.settle()
    world.check_converged()
    assert len(world.store.things) == 1


def test_a_tenant_has_workers_of_its_own_or_those_of_the_crew():
    world = World(["w1", "w2"])
    world.hand("w2").tenant = "other"
    world.crew_up()
    world.declare(
        *(spec(f"o{i}", tenant="other") for i in range(5)), *(spec(f"t{i}", tenant="third") for i in range(5))
    )
    world.settle()
    assert set(world.held("w2")) == {f"o{i}" for i in range(5)}
    assert set(world.held("w1")) == {f"t{i}" for i in range(5)}


def test_an_error_that_no_other_try_cures_rolls_back_the_whole_group():
    world = World(["w1", "w2", "w3"]).crew_up()
    world.declare(spec("a1", "a"), spec("a2", "a"), spec("b"))
    world.settle()
    world.declare(spec("a3", "a", payload=POISON))
    world.settle()
    assert [world.store.state(name) for name in ("a1", "a2", "a3", "b")] == [ThingState.FAILED] * 3 + [ThingState.HELD]
    assert world.store.thing("a1").error == FINAL
    world.check_converged()
    world.withdraw("a1", "a2", "a3")
    world.settle()
    assert list(world.store.things) == ["b"]


def test_what_never_had_a_place_fails_with_its_group():
    world = World(["w1"]).crew_up()
    world.declare(spec("a1", "a", payload=POISON), spec("a2", "a"))
    world.settle()
    assert {thing.state for thing in world.store.things.values()} == {ThingState.FAILED}


def test_a_group_that_is_rolled_back_can_be_withdrawn_meanwhile():
    world = World(["w1"]).crew_up()
    world.declare(spec("a", pinned_to="w1"))
    world.settle()
    world.break_down("w1", "a", FINAL)
    (line,) = world.lines.values()
    world.deliver(line, to_worker=False)
    world.answer(world.captain)
    assert world.store.state("a") is ThingState.FAILING
    world.withdraw("a")
    world.settle()
    assert not world.store.things
    assert not world.held("w1")


def test_more_changes_than_fit_into_one_proposal_go_one_after_the_other():
    world = World(["w1"], max_held=500).crew_up()
    world.declare(*(spec(f"a{i}") for i in range(300)))
    world.answer(world.captain)
    assert isinstance(world.captain.asked, le.Commit)
    assert len(world.captain.asked.changes) == 128
    world.settle()
    world.check_converged()


def test_a_kind_has_a_plain_name():
    assert held_kind("epoch") == "epoch"
    with pytest.raises(ValueError, match="names no kind of held thing"):
        held_kind("Epoch!")


def test_a_clock_that_went_backwards_counts_as_one_that_stands_still():
    world = World(config=LeaderConfig(look_s=5)).crew_up()
    world.now = START - 500
    world.declare(spec("a"))
    world.settle()
    world.check_converged()
    assert world.captain.machine.next_deadline() == START + 5
    assert world.store.thing("a").worker_id in (WorkerId("w1"), WorkerId("w2"))


def test_a_passing_failure_is_tried_again_with_longer_and_longer_waits():
    world = World(["w1"]).crew_up()
    world.declare(spec("a", pinned_to="w1"))
    begun: list[float] = []
    for _ in range(5):
        while not world.hand("w1").under_way:
            if not world.move():
                world.now = world.captain.machine.next_deadline() or 0.0
                world.pass_time()
        begun.append(world.now)
        world.finish(world.hand("w1"), world.store.thing("a").held_id, PASSING)
    waits = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert waits == [0.5, 1.0, 2.0, 4.0]
    world.wait(10)
    assert world.holding("w1", "a") is not None
    assert world.held("w1") == {"a": HoldingState.HELD}
    world.check_converged()
    assert [retry.attempt for retry in world.captain.retries][-1] == 6

"""Things of one group beside each other on a worker, and how a place of theirs gets free."""

from quarterdeck.core.reconcile.tables import ThingState
from tests.core.reconcile.world import World, spec


def test_a_worker_with_two_things_of_a_group_is_free_for_a_third_when_both_are_gone():
    world = World(["w1"]).crew_up()
    world.declare(spec("one", "g", pinned_to="w1"), spec("two", "g", pinned_to="w1"))
    world.settle()
    world.declare(spec("three", "g"))
    world.settle()
    assert set(world.held("w1")) == {"one", "two"}
    world.withdraw("one")
    world.settle()
    assert world.store.state("three") is ThingState.DECLARED
    world.withdraw("two")
    world.settle()
    assert set(world.held("w1")) == {"three"}
    world.check_converged()


def test_a_thing_that_ends_frees_its_worker_for_its_group_and_no_other():
    world = World(["w1", "w2"]).crew_up()
    world.declare(spec("one", "g"), spec("two", "g"), spec("three", "g"))
    world.settle()
    waiting = next(name for name in ("one", "two", "three") if world.store.state(name) is ThingState.DECLARED)
    first, second = (name for name in ("one", "two", "three") if name != waiting)
    freed, kept = world.store.thing(first).worker_id, world.store.thing(second).worker_id
    world.withdraw(first)
    world.settle()
    assert (world.store.thing(waiting).worker_id, world.store.thing(second).worker_id) == (freed, kept)
    assert freed != kept
    world.check_converged()

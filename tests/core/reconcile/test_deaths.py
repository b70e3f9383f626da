"""What takes its worker down every time fails at last, and nothing beside it pays for that."""

import pytest

from quarterdeck.core.ids import SessionId, WorkerId
from quarterdeck.core.invariants import InvariantError
from quarterdeck.core.reconcile.holder import effects as he
from quarterdeck.core.reconcile.holder import events as hv
from quarterdeck.core.reconcile.leader import LeaderConfig, LeaderMachine
from quarterdeck.core.reconcile.leader import events as lv
from quarterdeck.core.reconcile.leader.workers import Worker
from quarterdeck.core.reconcile.model import HeldId, Holding, Revision, ThingId
from quarterdeck.core.reconcile.tables import HoldingState, ThingState
from tests.core.reconcile.world import PASSING, World, spec

DEADLY = b"deadly"
"""The payload of what ends the process of a worker that begins to acquire it."""
STEADY_S = LeaderConfig().steady_s
ALLOWED = LeaderConfig().deaths_allowed


class DeadlyWorld(World):
    """In which a worker dies of what is deadly, and starts again after a while."""

    def __init__(self, workers: list[str], captains: int = 1, config: LeaderConfig | None = None) -> None:
        super().__init__(workers, captains, config)
        self.deaths = 0
        self.down_s = 0.5
        self.comes_back = True
        self.after_s: float | None = None
        """How long after it holds it a worker dies of it; None: before it holds it."""
        self.slow: dict[str, float] = {}
        """How long some things take to be acquired."""
        self.since: dict[HeldId, float] = {}

    def live(self, seconds: float) -> None:
        """Time passes in small steps, and whoever is told to acquire what is deadly dies and comes back."""
        until = self.now + seconds
        while self.now < until:
            while self.strike() or self.move():
                pass
            self.now = self.now + 0.25
            self.pass_time()
        self.settle()

    def move(self) -> bool:
        waiting = [
            (hand, held_id)
            for hand in self.hands
            for held_id, task in hand.under_way.items()
            if isinstance(task, he.Acquire)
            and self.now < self.since.setdefault(held_id, self.now) + self.slow.get(held_id.thing_id, 0.0)
        ]
        put_aside = [(hand, held_id, hand.under_way.pop(held_id)) for hand, held_id in waiting]
        moved = super().move()
        for hand, held_id, task in put_aside:
            if held_id in hand.resident:
                hand.under_way.setdefault(held_id, task)
        return moved

    def strike(self) -> bool:
        for hand in self.hands:
            if self.after_s is None:
                acts = any(isinstance(t, he.Acquire) and t.spec.payload == DEADLY for t in hand.under_way.values())
            else:
                acts = any(self._is_ripe(each.held_id) for each in hand.machine.holdings())
            if acts:
                self.deaths += 1
                self.die(hand.worker_id)
                return True
        return False

    def _is_ripe(self, held_id: HeldId) -> bool:
        thing = self.store.things.get(held_id.thing_id)
        assert self.after_s is not None
        is_deadly = thing is not None and thing.spec.payload == DEADLY and held_id in self.since
        return is_deadly and self.now >= self.since[held_id] + self.after_s

    def die(self, name: str) -> None:
        """Its process ends, and starts again after a while."""
        self.kill(name)
        self.since.clear()
        self.now += self.down_s
        self.pass_time()
        for captain in self.captains if self.comes_back else ():
            self.connect(captain, self.hand(name))

    def states(self) -> dict[str, ThingState]:
        return {str(name): thing.state for name, thing in self.store.things.items()}

    def up(self) -> "DeadlyWorld":
        self.crew_up()
        return self


def suspects(machine: LeaderMachine) -> list[ThingId]:
    """What may have ended a worker, and has not been acquitted."""
    return list(machine._deaths)  # pyright: ignore[reportPrivateUsage] - nothing else shows it


def innocents(count: int) -> list[str]:
    return [f"a{number}" for number in range(count)]


def test_a_pinned_thing_that_takes_its_worker_down_every_time_fails_at_last():
    world = DeadlyWorld(["w1"]).up()
    world.declare(spec("p", "g", pinned_to="w1", payload=DEADLY), spec("q", "g"))
    world.live(3 * STEADY_S)
    assert world.states() == {"p": ThingState.FAILED, "q": ThingState.FAILED}
    assert world.deaths <= 2 * ALLOWED
    error = world.store.thing("p").error
    assert error is not None
    assert (error.code, error.retryable) == ("quarantined", False)
    assert "p" in error.message
    assert "w1" in error.message
    assert world.captain.machine.is_settled
    assert suspects(world.captain.machine) == []
    world.check_converged()


def test_a_thing_that_goes_from_worker_to_worker_and_ends_each_of_them_fails_at_last():
    world = DeadlyWorld(["w1", "w2", "w3", "w4"]).up()
    world.down_s = world.config.lease_s + 1
    world.declare(spec("p", payload=DEADLY), *(spec(name) for name in innocents(3)))
    world.live(5 * STEADY_S)
    assert world.states() == {"p": ThingState.FAILED} | dict.fromkeys(innocents(3), ThingState.HELD)
    assert world.deaths <= 2 * ALLOWED
    error = world.store.thing("p").error
    assert error is not None
    assert len({name for name in ("w1", "w2", "w3", "w4") if name in error.message}) > 1
    world.check_converged()


@pytest.mark.parametrize("poisons", [["p"], ["p0", "p1"]])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_only_what_is_deadly_fails_and_all_beside_it_is_held(count: int, poisons: list[str]):
    world = DeadlyWorld(["w1"], config=LeaderConfig(max_said=7)).up()
    names = innocents(count)
    things = [spec(name, pinned_to="w1") for name in names]
    things[count // 2 : count // 2] = [spec(name, pinned_to="w1", payload=DEADLY) for name in poisons]
    world.declare(*things)
    world.live(6 * STEADY_S)
    assert world.states() == dict.fromkeys(names, ThingState.HELD) | dict.fromkeys(poisons, ThingState.FAILED)
    assert world.deaths <= 12 * len(poisons)
    world.check_converged()


def test_what_ends_its_worker_a_while_after_it_is_held_fails_too_and_nothing_beside_it():
    world = DeadlyWorld(["w1"]).up()
    world.after_s = 5.0
    world.declare(*(spec(name, pinned_to="w1") for name in innocents(5)), spec("p", pinned_to="w1", payload=DEADLY))
    world.live(20 * STEADY_S)
    assert world.states() == {"p": ThingState.FAILED} | dict.fromkeys(innocents(5), ThingState.HELD)
    world.check_converged()


def test_what_is_acquired_for_long_beside_something_deadly_does_not_pay_for_it():
    world = DeadlyWorld(["w1"]).up()
    world.after_s, world.slow = 5.0, {"a0": 20.0}
    world.declare(spec("a0", pinned_to="w1"), spec("p", pinned_to="w1", payload=DEADLY))
    world.live(20 * STEADY_S)
    assert world.states() == {"p": ThingState.FAILED, "a0": ThingState.HELD}
    world.check_converged()


def test_a_thing_that_ends_workers_which_never_come_back_fails_too():
    world = DeadlyWorld(["w1", "w2", "w3", "w4", "w5"]).up()
    world.comes_back = False
    world.declare(spec("p", payload=DEADLY))
    world.live(5 * STEADY_S)
    assert world.states() == {"p": ThingState.FAILED}
    assert world.deaths == ALLOWED


def test_a_thing_that_is_told_again_and_may_have_begun_can_be_the_cause():
    world = DeadlyWorld(["w1"]).up()
    world.declare(spec("a", pinned_to="w1"))
    while not world.hand("w1").under_way:
        world.move()
    world.finish(world.hand("w1"), world.store.thing("a").held_id, PASSING)
    world.settle()
    (line,) = world.lines.values()
    while not line.to_worker:
        world.now += 0.25
        world.pass_time()
    world.die("w1")
    assert world.captain.machine.counters["deaths_counted"] == 1


def test_a_worker_that_dies_without_a_thing_that_is_kept_away_clears_it():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 10.0}
    world.declare(spec("a", pinned_to="w1"), spec("b", pinned_to="w1"))
    world.live(STEADY_S + 11)
    for _ in range(ALLOWED - 1):
        world.die("w1")
        world.live(5)
    world.die("w1")
    world.live(5)
    machine = world.captain.machine
    assert machine._deaths.has_deaths(ThingId("a"))  # pyright: ignore[reportPrivateUsage] - as above
    assert set(world.held("w1")) == {"b"}, "the other one is kept away"
    world.live(STEADY_S - 10)
    world.cut_off("w1")  # a new session, of which it is not known since when it holds the other one
    world.connect(world.captain, world.hand("w1"))
    world.live(1)
    assert set(world.held("w1")) == {"b"}
    world.die("w1")
    assert suspects(machine) == []


def test_a_flapping_network_does_not_keep_anything_away_for_longer():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 10.0}
    world.declare(spec("a", pinned_to="w1"))
    for _ in range(ALLOWED - 1):
        world.live(1)
        world.die("w1")
    for _ in range(4):
        world.live(STEADY_S / 4 - 2)
        assert not world.held("w1")
        world.cut_off("w1")
        world.live(2)
        world.connect(world.captain, world.hand("w1"))
    world.live(2)
    assert world.held("w1") == {"a": HoldingState.ACQUIRING}


def test_beside_what_is_on_trial_alone_nothing_else_begins():
    worker = Worker(WorkerId("w1"))
    a, b = (HeldId(ThingId(name), Revision(1)) for name in "ab")
    sizes = {a: 1, b: 2}
    worker.in_line = {a: None, b: None}
    assert worker.begin_trials(sizes.__getitem__, is_urgent=False)
    assert list(worker.on_trial) == [a]
    assert not worker.begin_trials(sizes.__getitem__, is_urgent=True)


def test_the_first_trial_begins_when_nothing_else_is_on_its_way():
    worker = Worker(WorkerId("w1"))
    a, b = (HeldId(ThingId(name), Revision(1)) for name in "ab")
    worker.in_line = {a: None}
    worker.put(Holding(b, HoldingState.ACQUIRING))
    assert not worker.begin_trials(lambda _: 1, is_urgent=False)
    worker.put(Holding(b, HoldingState.HELD))
    assert worker.begin_trials(lambda _: 1, is_urgent=False)


def test_what_was_being_dropped_may_have_been_the_cause_too():
    world = DeadlyWorld(["w1"]).up()
    world.declare(spec("a", pinned_to="w1"))
    world.live(1)
    world.withdraw("a")
    world.declare(spec("b", pinned_to="w1"))
    while world.captain.asked:
        world.answer(world.captain)
    (line,) = world.lines.values()
    assert len(line.to_worker) == 2
    world.die("w1")
    assert world.captain.machine.counters["deaths_counted"] == 0
    world.live(1)
    world.check_converged()


def test_what_breaks_is_not_held_for_long():
    world = DeadlyWorld(["w1"]).up()
    world.declare(spec("a", pinned_to="w1"))
    world.live(1)
    world.die("w1")
    world.live(STEADY_S - 20)
    world.break_down("w1", "a", PASSING)
    world.live(30)
    assert world.states() == {"a": ThingState.HELD}
    assert suspects(world.captain.machine) == ["a"]
    world.live(STEADY_S)
    assert suspects(world.captain.machine) == []


def test_what_is_given_up_is_not_told_before_that_is_committed():
    world = DeadlyWorld(["w1"], config=LeaderConfig(deaths_allowed=1)).up()
    world.declare(spec("p", pinned_to="w1", payload=DEADLY))
    while not world.hand("w1").under_way:
        world.move()
    world.die("w1")
    (line,) = world.lines.values()
    for _ in range(10):  # the store takes its time
        while line.to_captain or line.to_worker:
            world.deliver(line, to_worker=bool(line.to_worker))
        world.now += STEADY_S
        world.pass_time()
    assert not world.held("w1")
    world.live(1)
    assert world.states() == {"p": ThingState.FAILED}


def test_a_session_in_which_nothing_was_said_does_not_hide_what_was_on_its_way_before():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 100.0}
    world.declare(spec("a", pinned_to="w1"))
    world.live(1)
    world.cut_off("w1")
    world.connect(world.captain, world.hand("w1"))
    world.die("w1")
    assert world.captain.machine.counters["deaths_counted"] == 1


def test_a_flapping_network_is_no_death():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 1000.0}
    world.declare(spec("a", pinned_to="w1"))
    for away_s in (1.0, 3.0, world.config.lease_s + 5) * ALLOWED:
        world.live(1)
        world.cut_off("w1")
        world.live(away_s)
        assert world.held("w1") == {"a": HoldingState.ACQUIRING}
        world.connect(world.captain, world.hand("w1"))
    world.live(1000)
    assert world.states() == {"a": ThingState.HELD}
    world.check_converged()


def test_a_death_that_was_none_is_taken_back_also_when_it_was_the_last():
    world = DeadlyWorld(["w1", "w2"], config=LeaderConfig(deaths_allowed=1)).up()
    world.slow = {"a": 30.0}
    world.declare(spec("a"))
    world.live(1)
    first = world.store.thing("a").worker_id
    assert first is not None
    world.cut_off(first)
    world.now += world.config.lease_s + 1
    world.pass_time()
    world.answer(world.captain, effect=False)  # the proposal that it fails
    world.connect(world.captain, world.hand(first))
    world.live(100)
    assert world.states() == {"a": ThingState.HELD}
    world.check_converged()


def test_a_worker_that_is_killed_again_and_again_while_it_holds_things_for_long_fails_nothing():
    world = DeadlyWorld(["w1"]).up()
    world.declare(*(spec(name, pinned_to="w1") for name in innocents(3)))
    for _ in range(3 * ALLOWED):
        world.live(STEADY_S + 1)
        world.die("w1")
        world.live(1)
    assert world.states() == dict.fromkeys(innocents(3), ThingState.HELD)
    world.check_converged()


@pytest.mark.parametrize("every_s", [2.0, 15.0, 45.0])
@pytest.mark.parametrize("count", [1, 3])
def test_a_worker_that_is_killed_by_something_else_all_the_time_fails_nothing(count: int, every_s: float):
    world = DeadlyWorld(["w1"]).up()
    world.slow = dict.fromkeys(innocents(count), 10.0)
    world.declare(*(spec(name, pinned_to="w1") for name in innocents(count)))
    for _ in range(60):
        world.live(every_s)
        world.die("w1")
    world.live(2 * STEADY_S * count + STEADY_S)
    assert world.states() == dict.fromkeys(innocents(count), ThingState.HELD)
    world.check_converged()


def test_a_worker_that_drains_ends_by_itself():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 100.0}
    world.declare(spec("a", pinned_to="w1"))
    for _ in range(3 * ALLOWED):
        world.live(1)
        world.tell_hand(world.hand("w1"), hv.DrainRequested())
        world.live(1)
        world.die("w1")
    world.live(101)
    assert world.captain.machine.counters["deaths_counted"] == 0
    assert world.states() == {"a": ThingState.HELD}
    world.check_converged()


def test_what_has_been_held_for_long_begins_anew():
    world = DeadlyWorld(["w1"]).up()
    world.declare(spec("a", pinned_to="w1"))
    machine = world.captain.machine
    for _ in range(3):
        world.die("w1")  # what it has held for long is not to blame
        for _ in range(ALLOWED - 1):
            world.live(1)
            world.die("w1")
        assert suspects(machine) == ["a"]
        world.live(STEADY_S - 1)
        assert not world.held("w1"), "it is kept away for a while"
        world.live(STEADY_S + 3)
        assert world.states() == {"a": ThingState.HELD}
        assert suspects(machine) == []
    assert machine.counters["deaths_counted"] == 3 * (ALLOWED - 1)


def test_what_is_not_held_when_its_time_is_over_is_not_acquitted():
    world = DeadlyWorld(["w1"]).up()
    world.declare(spec("a", pinned_to="w1"))
    world.live(1)
    world.die("w1")
    world.live(1)
    world.cut_off("w1")
    world.live(STEADY_S)
    assert suspects(world.captain.machine) == ["a"]
    world.connect(world.captain, world.hand("w1"))
    world.live(STEADY_S + 1)
    assert suspects(world.captain.machine) == []


def test_what_is_withdrawn_while_it_is_on_trial_lets_the_next_one_in():
    world = DeadlyWorld(["w1"]).up()
    world.slow = dict.fromkeys("abc", 1000.0)
    world.declare(*(spec(name, pinned_to="w1") for name in "abc"))
    world.live(1)
    world.die("w1")
    world.live(1)
    assert set(world.held("w1")) == {"a"}
    world.withdraw("b")  # it is in line
    world.live(1)
    assert set(world.held("w1")) == {"a"}
    world.withdraw("a")  # it is on trial
    world.live(1)
    assert set(world.held("w1")) == {"c"}
    world.slow = {}
    world.live(1)
    world.check_converged()


def test_what_fails_for_a_passing_reason_while_it_is_on_trial_lets_the_next_one_in():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 1000.0}
    world.declare(spec("a", pinned_to="w1"), spec("b", pinned_to="w1"))
    while len(world.hand("w1").under_way) < 2:
        world.move()
    world.die("w1")
    world.live(0.25)
    assert world.held("w1") == {"a": HoldingState.ACQUIRING}
    world.finish(world.hand("w1"), world.store.thing("a").held_id, PASSING)
    world.slow = {}
    world.live(0.25)
    assert world.held("w1")[ThingId("b")] is HoldingState.HELD
    world.live(5)
    world.check_converged()


def test_a_trial_that_takes_too_long_holds_up_nobody_for_ever():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 1e6, "b": 1e6, "c": 1e6}
    world.declare(spec("a", pinned_to="w1"), spec("b", pinned_to="w1"))
    world.live(1)
    world.die("w1")
    world.declare(spec("c", pinned_to="w1"))
    world.live(2 * STEADY_S - 2)
    assert set(world.held("w1")) == {"a", "c"}, "those that are not on probation are told beside it"
    world.live(4)
    assert set(world.held("w1")) == {"a", "b", "c"}
    world.live(5 * STEADY_S)
    world.slow = {}
    world.live(1)
    world.check_converged()


def test_what_failed_is_tried_by_turns_too_and_is_dropped_when_it_is_withdrawn_meanwhile():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 1000.0}
    world.declare(spec("a", pinned_to="w1"))
    for _ in range(ALLOWED - 1):
        world.live(1)
        world.die("w1")
    world.live(STEADY_S + 1)
    assert world.held("w1") == {"a": HoldingState.ACQUIRING}
    world.finish(world.hand("w1"), world.store.thing("a").held_id, PASSING)
    world.cut_off("w1")
    world.connect(world.captain, world.hand("w1"))
    world.tell_hand(world.hand("w1"), hv.DrainRequested())
    world.settle()
    world.withdraw("a")
    world.settle()
    assert not world.store.things
    world.check_converged()


def test_a_new_leader_counts_anew():
    world = DeadlyWorld(["w1"], captains=2).up()
    world.declare(spec("p", pinned_to="w1", payload=DEADLY))
    old, new = world.captains
    for captain in (new, old):
        world.live(1)
        assert world.deaths
        world.tell(old, lv.LeadershipLost())
        world.tell(new, lv.LeadershipLost())
        world.lead(captain)
        assert suspects(captain.machine) == []
        assert world.states() == {"p": ThingState.PLACED}
    world.live(3 * STEADY_S)
    assert world.states() == {"p": ThingState.FAILED}
    world.check_converged()


def test_what_nobody_wants_any_more_is_not_counted():
    world = DeadlyWorld(["w1"]).up()
    world.slow = {"a": 1000.0}
    world.declare(spec("a", pinned_to="w1"))
    world.live(1)
    world.cut_off("w1")
    world.withdraw("a")
    world.live(1)
    world.kill("w1")
    world.connect(world.captain, world.hand("w1"))
    world.live(1)
    assert world.captain.machine.counters["deaths_counted"] == 0
    assert not world.store.things


def test_the_records_of_trials_are_checked():
    world = DeadlyWorld(["w1"]).up()
    world.declare(spec("a", pinned_to="w1"))
    world.live(1)
    worker = world.captain.machine.workers.get(WorkerId("w1"))
    assert worker is not None
    a, x = world.store.thing("a").held_id, HeldId(ThingId("x"), world.store.revision)
    worker.on_trial[a] = None
    with pytest.raises(InvariantError, match="are on trial on w1, of 0"):
        world.captain.machine.check_invariants()
    worker.trial_size = 1
    world.captain.machine.check_invariants()
    worker.on_trial = {x: None}
    with pytest.raises(InvariantError, match="neither told nor held"):
        world.captain.machine.check_invariants()
    worker.on_trial = {}
    worker.in_line[x] = None
    with pytest.raises(InvariantError, match="before its turn"):
        world.captain.machine.check_invariants()
    assert SessionId("s1") in world.lines

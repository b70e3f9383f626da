"""What a leader does not do: flood a worker, a store or itself, whatever workers say and whatever fails."""

import itertools
from collections.abc import Iterable

import pytest

from quarterdeck.core.ids import Fence, Incarnation, WorkerId
from quarterdeck.core.invariants import InvariantError
from quarterdeck.core.leadership.model import MOST_BELIEVED
from quarterdeck.core.reconcile.changes import MAX_CHANGES
from quarterdeck.core.reconcile.leader import LeaderConfig
from quarterdeck.core.reconcile.leader import effects as le
from quarterdeck.core.reconcile.leader import events as lv
from quarterdeck.core.reconcile.leader.workers import MAX_HOLDINGS, Said, Workers
from quarterdeck.core.reconcile.messages import HoldingsReported, HoldThing, ReportWanted
from quarterdeck.core.reconcile.model import HeldId, Holding, Report, Revision, ThingId
from quarterdeck.core.reconcile.tables import HoldingState, ThingState
from tests.core.reconcile.world import EPOCH, FRAGMENT, PASSING, Captain, Line, World, spec

MEBIBYTE = 1 << 20


def the_line(world: World) -> Line:
    (line,) = world.lines.values()
    return line


def say(world: World, line: Line, report: Report) -> list[le.Effect]:
    return world.tell(line.captain, lv.MessageReceived(line.session_id, HoldingsReported(report)))


def unknown(numbers: Iterable[int]) -> tuple[Holding, ...]:
    return tuple(Holding(HeldId(ThingId(f"x{n}"), Revision(1)), HoldingState.HELD) for n in numbers)


# Commands


def on_the_way(line: Line) -> tuple[int, int]:
    holds = [message.spec.payload for message in line.to_worker if isinstance(message, HoldThing)]
    return len(line.to_worker), sum(map(len, holds))


def test_a_worker_that_comes_back_is_not_sent_all_that_it_should_hold_at_once():
    world = World(["w1"]).crew_up()
    payload = bytes(MEBIBYTE)
    world.declare(*(spec(f"a{n}", pinned_to="w1", payload=payload) for n in range(20)))
    most = 0
    while world.move():
        most = max(most, on_the_way(the_line(world))[1])
    world.check_converged()
    world.kill("w1")
    world.connect(world.captain, world.hand("w1"))
    while world.move():
        most = max(most, on_the_way(the_line(world))[1])
    world.wait(1)
    world.check_converged()
    assert most <= world.config.max_said_bytes + MEBIBYTE


def test_so_many_commands_are_on_their_way_to_a_worker_and_no_more():
    world = World(["w1"], config=LeaderConfig(max_said=5)).crew_up()
    world.declare(*(spec(f"a{n}") for n in range(40)))
    most = 0
    while world.move():
        most = max(most, on_the_way(the_line(world))[0])
    world.check_converged()
    world.withdraw(*(f"a{n}" for n in range(40)))
    while world.move():
        most = max(most, on_the_way(the_line(world))[0])
    assert not world.store.things
    assert 0 < most <= 5


def test_what_waits_for_a_worker_that_answers_nothing_is_said_when_others_have_had_their_time():
    world = World(["w1"], config=LeaderConfig(max_said=2)).crew_up()
    world.declare(*(spec(f"a{n}") for n in range(6)))
    line = the_line(world)
    began = world.now
    said_at: dict[ThingId, float] = {}
    while len(said_at) < 6:
        while world.captain.asked:
            world.answer(world.captain)
        for message in line.to_worker:
            if isinstance(message, HoldThing):
                said_at.setdefault(message.held_id.thing_id, world.now - began)
        line.to_worker.clear()
        world.now = world.captain.machine.next_deadline() or 0.0
        world.pass_time()
    first, second, third, *_, last = sorted(said_at.values())
    assert first == second == 0
    assert third >= world.config.hear_s
    assert last <= 5 * world.config.hear_s
    world.wait(60)
    world.check_converged()


def test_an_answer_shows_that_all_was_heard_that_was_said_before():
    world = World(["w1"], config=LeaderConfig(max_said=3)).crew_up()
    world.declare(*(spec(f"a{n}") for n in range(7)))
    world.answer(world.captain)
    world.answer(world.captain)
    line = the_line(world)
    assert len(line.to_worker) == 3
    third = line.to_worker[2]
    assert isinstance(third, HoldThing)
    fence = world.captain.machine.fence
    worker = world.captain.machine.workers.get(WorkerId("w1"))
    assert fence is not None
    assert worker is not None
    assert worker.report is not None
    number = worker.report.number
    failed = Holding(third.held_id, HoldingState.FAILED, PASSING)
    say(world, line, Report(fence, number, number + 1, holdings=(failed,)))
    assert len(line.to_worker) == 6


def test_what_is_withdrawn_before_a_worker_is_told_of_it_is_never_said():
    world = World(["w1"], config=LeaderConfig(max_said=1)).crew_up()
    world.declare(spec("a"), spec("b"))
    world.answer(world.captain)
    world.answer(world.captain)
    line = the_line(world)
    assert [message.held_id.thing_id for message in line.to_worker if isinstance(message, HoldThing)] == ["a"]
    world.withdraw("b")
    world.settle()
    assert list(world.store.things) == ["a"]
    assert "b" not in {held_id.thing_id for held_id in world.hand("w1").resident}
    world.check_converged()


def test_what_breaks_again_and_again_is_tried_more_and_more_rarely():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    began = world.now
    for _ in range(10):
        world.settle()
        while world.held("w1") != {"a": HoldingState.HELD}:
            world.now = world.captain.machine.next_deadline() or 0.0
            world.pass_time()
            world.settle()
        world.break_down("w1", "a", PASSING)
    assert world.now - began > 60
    world.settle()
    world.wait(world.config.backoff.cap_s + 1)
    world.check_converged()


def test_what_breaks_again_and_again_goes_to_another_worker():
    world = World(["w1", "w2"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    first = world.store.thing("a").worker_id
    assert first is not None
    for _ in range(world.config.tries_before_moving):
        assert world.store.thing("a").worker_id == first
        world.break_down(first, "a", PASSING)
        world.wait(2)
    assert world.store.thing("a").worker_id != first
    world.check_converged()


def test_what_was_held_for_long_and_breaks_is_told_again_at_once():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    for _ in range(5):
        world.settle()
        world.wait(world.config.steady_s + 1)
        world.break_down("w1", "a", PASSING)
        before = world.now
        world.settle()
        assert world.now == before
        world.check_converged()


# Reports


def test_a_worker_is_not_believed_to_hold_more_than_fits_into_a_report():
    world = World(["w1"]).crew_up()
    line = the_line(world)
    fence = world.captain.machine.fence
    assert fence is not None
    say(world, line, Report(fence, None, 1, world.kinds))
    half = MAX_HOLDINGS // 2
    for number in range(1, 6):
        report = Report(fence, number, number + 1, holdings=unknown(range(number * half, (number + 1) * half)))
        captain_step(world, line, report)
    worker = world.captain.machine.workers.get(WorkerId("w1"))
    assert worker is not None
    assert len(worker.holdings) == MAX_HOLDINGS
    wanted = [message for message in line.to_worker if isinstance(message, ReportWanted)]
    assert len(wanted) == 1


def captain_step(world: World, line: Line, report: Report) -> None:
    """Without a look at the invariants, which is linear in everything."""
    event = lv.MessageReceived(line.session_id, HoldingsReported(report))
    for effect in line.captain.machine.step(event, world.now):
        assert isinstance(effect, le.SendToWorker)
        line.to_worker.append(effect.message)


def test_everything_is_asked_for_once_however_many_reports_follow_a_lost_one():
    world = World(["w1"]).crew_up()
    line = the_line(world)
    fence = world.captain.machine.fence
    assert fence is not None
    for number in range(50, 60):
        say(world, line, Report(fence, number, number + 1))
    assert [type(message) for message in line.to_worker] == [ReportWanted]
    line.to_worker.clear()  # it is lost
    world.wait(1)
    assert world.captain.machine.counters["reports_missed"] == 10
    assert world.captain.machine.next_deadline() is not None
    world.declare(spec("a"))
    world.settle()
    world.check_converged()


def test_a_worker_that_says_a_lower_fence_than_before_is_told_nothing():
    world = World(["w1"]).crew_up()
    world.lead(world.captain)
    world.settle()
    world.declare(spec("a"))
    world.answer(world.captain)
    world.answer(world.captain)
    line = the_line(world)
    line.to_worker.clear()
    say(world, line, Report(Fence(1), None, 9, world.kinds))
    world.withdraw("a")
    while world.captain.asked:
        world.answer(world.captain)
    for _ in range(10):
        world.now = world.captain.machine.next_deadline() or 0.0
        world.pass_time()
        while world.captain.asked:
            world.answer(world.captain)
    assert not [message for message in line.to_worker if isinstance(message, HoldThing)]


# Fences


def test_a_leader_passes_on_the_highest_fence_that_any_worker_has_seen():
    world = World(["w1", "w2"]).crew_up()
    first, second = world.lines.values()
    for line, fence in ((first, 90), (second, 100)):
        say(world, line, Report(Fence(fence), None, 9, world.kinds))
    assert world.captain.seen == 90
    world.lead(world.captain)
    say(world, first, Report(Fence(95), None, 9, world.kinds))
    assert world.captain.doubts == 1, "it was believed a moment ago"
    say(world, second, Report(Fence(100), None, 9, world.kinds))
    assert (world.captain.doubts, world.captain.seen) == (2, 100)


def test_a_leader_passes_on_the_fence_that_the_store_has_seen():
    world = World(["w1"], captains=2).crew_up()
    world.declare(spec("a"), hint=False)
    world.tell(world.captains[1], lv.LeadershipGained(Fence(42)))
    world.answer(world.captains[1])
    world.tell(world.captain, lv.DeclarationsChanged())
    world.answer(world.captain)
    assert world.captain.seen == 42


def test_a_worker_that_always_says_a_higher_fence_does_not_keep_everybody_from_leading():
    world = World(["w1", "liar"]).crew_up()
    _, liar = world.lines.values()
    for _ in range(5):
        fence = world.captain.machine.fence
        assert fence is not None
        say(world, liar, Report(Fence(fence + 1), None, 9, world.kinds))
        world.lead(world.captain)
    assert world.captain.doubts == 1
    world.now += world.config.believe_again_s
    say(world, liar, Report(Fence(99), None, 9, world.kinds))
    assert world.captain.doubts == 2


def test_a_fence_that_no_leader_can_have_is_not_believed():
    world = World(["w1"]).crew_up()
    say(world, the_line(world), Report(Fence(MOST_BELIEVED + 1), None, 9, world.kinds))
    assert world.captain.doubts == 0
    say(world, the_line(world), Report(MOST_BELIEVED, None, 9, world.kinds))
    assert (world.captain.doubts, world.captain.seen) == (1, MOST_BELIEVED)


# The store


def is_about(captain: Captain, name: str) -> bool:
    asked = captain.asked
    return isinstance(asked, le.Commit) and name in {change.thing_id for change in asked.changes}


def test_a_change_that_can_never_be_committed_holds_up_no_others_and_is_proposed_more_and_more_rarely():
    world = World(["w1"], max_held=1000).crew_up()
    names = [f"a{n}" for n in range(MAX_CHANGES + 20)]
    names.insert(50, "bad")
    world.declare(*map(spec, names))
    failed_at: list[float] = []
    for _ in range(3_000):
        if is_about(world.captain, "bad"):
            failed_at.append(world.now)
            world.answer(world.captain, effect=False)
        elif not world.move():
            if len(failed_at) >= 16:
                break
            world.now = world.captain.machine.next_deadline() or 0.0
            world.pass_time()
    states = {thing.spec.thing_id: thing.state for thing in world.store.things.values()}
    assert states.pop(ThingId("bad")) is ThingState.DECLARED
    assert set(states.values()) == {ThingState.HELD}
    gaps = [later - earlier for earlier, later in itertools.pairwise(failed_at)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == world.config.backoff.cap_s
    assert not world.captain.machine.is_settled
    world.wait(60)
    world.check_converged()
    assert world.captain.machine.is_settled


def test_what_the_store_says_when_it_is_read_anew_is_true_also_if_it_is_older():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    world.settle()
    copy, revision = dict(world.store.things), world.store.revision
    world.withdraw("a", hint=False)
    world.hint()
    world.answer(world.captain)
    world.hint()
    world.answer(world.captain, effect=False)
    world.store.things, world.store.revision = copy, revision  # restored from a copy
    world.wait(5)
    thing = world.captain.machine.declared.get(ThingId("a"))
    assert thing is not None
    assert thing.revision <= world.store.revision
    assert thing.state is not ThingState.WITHDRAWN
    world.check_converged()


def test_who_declares_without_a_pause_keeps_nobody_waiting():
    world = World(["w1"]).crew_up()
    world.declare(spec("a"))
    asked: list[type] = []
    for _ in range(4):
        assert world.captain.asked is not None
        asked.append(type(world.captain.asked))
        world.hint()
        world.answer(world.captain)
    assert asked == [le.Load, le.Commit, le.Load, le.Load]


# Groups


def test_what_finds_no_worker_is_looked_at_again_only_when_one_may_be_free(monkeypatch: pytest.MonkeyPatch):
    world = World(["w1", "w2"]).crew_up()
    chosen: list[object] = []
    choose = Workers.choose

    def counted(workers: Workers, *args: object) -> WorkerId | None:
        chosen.append(args)
        return choose(workers, *args)  # pyright: ignore[reportArgumentType] - as it was called

    monkeypatch.setattr(Workers, "choose", counted)
    world.declare(*(spec(f"a{n}", "g") for n in range(60)))
    world.settle()
    assert len(chosen) <= 70
    chosen.clear()
    (placed, *_) = [thing for thing in world.store.things.values() if thing.worker_id == "w1"]
    world.withdraw(placed.spec.thing_id)
    world.settle()
    assert sum(thing.state is ThingState.HELD for thing in world.store.things.values()) == 2


# Tenants


def test_what_a_tenant_wants_leaves_a_worker_that_serves_another_now():
    world = World(["w1", "w2"])
    world.hand("w1").tenant = "red"
    world.crew_up()
    world.declare(spec("a", tenant="red"), spec("b"))
    world.settle()
    assert world.store.thing("a").worker_id == "w1"
    world.kill("w1")
    world.hand("w1").tenant = "blue"
    line = world.connect(world.captain, world.hand("w1"))
    for _ in range(100):
        assert not [message for message in line.to_worker if isinstance(message, HoldThing)]
        if not world.move():
            break
    world.check_converged()
    assert world.store.thing("a").worker_id == "w2"


# The holder


def test_a_worker_refuses_again_what_it_cannot_hold():
    world = World(["w1"], kinds=(EPOCH,)).crew_up()
    world.declare(spec("f", pinned_to="w1", kind=FRAGMENT))
    world.wait(60)
    holding = world.holding("w1", "f")
    assert holding is not None
    assert holding.state is HoldingState.FAILED
    assert not world.hand("w1").resident
    world.withdraw("f")
    world.wait(60)
    world.check_converged()


def test_a_worker_that_is_full_holds_no_more_however_often_it_is_told_to():
    world = World(["w1"], max_held=2).crew_up()
    world.declare(*(spec(f"a{n}", pinned_to="w1") for n in range(4)))
    world.wait(60)
    assert sorted(world.held("w1").values()) == [HoldingState.FAILED] * 2 + [HoldingState.HELD] * 2
    held = [name for name, state in world.held("w1").items() if state is HoldingState.HELD]
    world.withdraw(*held)
    world.wait(60)
    world.check_converged()
    assert len(world.held("w1")) == 2


def test_the_records_of_what_is_on_its_way_are_checked():
    world = World(["w1"]).crew_up()
    worker = world.captain.machine.workers.get(WorkerId("w1"))
    assert worker is not None
    worker.sent(HeldId(ThingId("x"), Revision(1)), Said(world.now, 5))
    world.captain.machine.check_invariants()
    worker.said_bytes = 4
    with pytest.raises(InvariantError, match="on their way"):
        world.captain.machine.check_invariants()
    assert worker.incarnation == Incarnation(1)

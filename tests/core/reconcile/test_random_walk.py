"""Two coordinators, three workers and a store that loses answers, with everything happening in any order.

After every step the records of all machines agree with themselves, nothing was told before it was committed, and what
is pinned has ended only when its worker has no trace of it. In the end the world is healed: then all that is wanted is
held, and nothing else.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from quarterdeck.core.reconcile.holder import events as hv
from quarterdeck.core.reconcile.leader import LeaderConfig
from quarterdeck.core.reconcile.leader import events as lv
from quarterdeck.core.reconcile.model import HeldError
from quarterdeck.core.reconcile.tables import HoldingState
from tests.core.reconcile.world import FINAL, FRAGMENT, PASSING, POISON, Captain, Hand, Line, World, spec

ANY = st.integers(0, 1_000_000)
"""Picks one of what there is at that moment."""
NAMES = ("w1", "w2", "w3")


class Walk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(NAMES, captains=2, config=LeaderConfig(max_said=2))
        self.names = 0
        for hand in self.world.hands:
            for captain in self.world.captains:
                self.world.connect(captain, hand)
        self.world.lead(self.world.captain)

    # Whoever declares

    @rule(
        count=st.integers(1, 3),
        pinned=st.sampled_from(["", "", *NAMES]),
        poisoned=st.integers(0, 9),
        hint=st.booleans(),
    )
    def declare(self, count: int, pinned: str, poisoned: int, *, hint: bool) -> None:
        self.names += 1
        group = f"g{self.names}"
        kind = {"kind": FRAGMENT} if pinned else {}
        specs = [
            spec(f"{group}.{i}", group, pinned_to=pinned, payload=POISON if i == poisoned else b"", **kind)
            for i in range(count)
        ]
        self.world.declare(*specs, hint=hint)

    @precondition(lambda self: self.world.store.things)
    @rule(pick=ANY, hint=st.booleans())
    def withdraw(self, pick: int, *, hint: bool) -> None:
        things = list(self.world.store.things.values())
        group = things[pick % len(things)].spec.group_id
        names = [thing.spec.thing_id for thing in things if thing.spec.group_id == group]
        self.world.withdraw(*names, hint=hint)

    # The network and the store

    @precondition(lambda self: self._moving())
    @rule(picks=st.lists(ANY, min_size=1, max_size=8))
    def deliver(self, picks: list[int]) -> None:
        for pick in picks:
            moving = self._moving()
            if moving:
                line, to_worker = moving[pick % len(moving)]
                self.world.deliver(line, to_worker=to_worker)

    @precondition(lambda self: self._moving())
    @rule(pick=ANY)
    def drop_message(self, pick: int) -> None:
        """Sessions lose nothing by themselves; here they do, also what nobody says again before the session ends."""
        line, to_worker = self._moving()[pick % len(self._moving())]
        if to_worker:
            line.to_worker.popleft()
        else:
            line.to_captain.popleft()

    @precondition(lambda self: self._unconnected())
    @rule(pick=ANY)
    def connect(self, pick: int) -> None:
        pairs = self._unconnected()
        captain, hand = pairs[pick % len(pairs)]
        self.world.connect(captain, hand)

    @precondition(lambda self: self.world.lines)
    @rule(pick=ANY)
    def cut(self, pick: int) -> None:
        lines = list(self.world.lines.values())
        self.world.cut(lines[pick % len(lines)])

    @precondition(lambda self: any(captain.asked for captain in self.world.captains))
    @rule(pick=ANY, how=st.sampled_from(["answer", "answer", "answer", "lose", "fail"]))
    def answer(self, pick: int, how: str) -> None:
        asking = [captain for captain in self.world.captains if captain.asked]
        self.world.answer(asking[pick % len(asking)], lose=how == "lose", effect=how != "fail")

    # Workers

    @precondition(lambda self: self._busy())
    @rule(pick=ANY, error=st.sampled_from([None, None, None, PASSING]))
    def finish(self, pick: int, error: HeldError | None) -> None:
        busy = self._busy()
        hand = busy[pick % len(busy)]
        held_ids = list(hand.under_way)
        self.world.finish(hand, held_ids[pick % len(held_ids)], error)

    @precondition(lambda self: self._holding())
    @rule(pick=ANY, final=st.booleans())
    def break_down(self, pick: int, *, final: bool) -> None:
        held = self._holding()
        hand, thing = held[pick % len(held)]
        self.world.break_down(hand.worker_id, thing, FINAL if final else PASSING)

    @rule(name=st.sampled_from(NAMES))
    def kill(self, name: str) -> None:
        self.world.kill(name)

    @rule(name=st.sampled_from(NAMES))
    def drain(self, name: str) -> None:
        self.world.tell_hand(self.world.hand(name), hv.DrainRequested())

    # Coordinators

    @rule(which=st.integers(0, 1))
    def lead(self, which: int) -> None:
        self.world.lead(self.world.captains[which])

    @rule(which=st.integers(0, 1))
    def stand_down(self, which: int) -> None:
        self.world.tell(self.world.captains[which], lv.LeadershipLost())

    @rule(which=st.integers(0, 1))
    def kill_captain(self, which: int) -> None:
        self.world.kill_captain(self.world.captains[which])

    # Time

    @rule(seconds=st.sampled_from([0.2, 0.6, 3.0, 20.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.now += seconds
        for _ in range(20):
            self.world.pass_time()

    def teardown(self) -> None:
        """Heals everything: all workers are new or whole, all connected with all, and one leads."""
        world = self.world
        for name in NAMES:
            if not world.hand(name).machine.takes_more:
                world.kill(name)
        for line in list(world.lines.values()):
            world.cut(line)
        for hand in world.hands:
            for captain in world.captains:
                world.connect(captain, hand)
        world.lead(world.captains[1])
        world.wait(200)
        world.check_converged()
        assert world.captains[1].machine.is_settled
        super().teardown()

    # Inside

    def _moving(self) -> list[tuple[Line, bool]]:
        lines = self.world.lines.values()
        return [(line, True) for line in lines if line.to_worker] + [(line, False) for line in lines if line.to_captain]

    def _unconnected(self) -> list[tuple[Captain, Hand]]:
        pairs = [(captain, hand) for captain in self.world.captains for hand in self.world.hands]
        return [(captain, hand) for captain, hand in pairs if self.world.line(captain, hand) is None]

    def _busy(self) -> list[Hand]:
        return [hand for hand in self.world.hands if hand.under_way]

    def _holding(self) -> list[tuple[Hand, str]]:
        return [
            (hand, each.held_id.thing_id)
            for hand in self.world.hands
            for each in hand.machine.holdings()
            if each.state is HoldingState.HELD and each.held_id not in hand.under_way
        ]


FAST = settings(
    derandomize=True,
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
LONG = settings(FAST, derandomize=False, max_examples=5_000, stateful_step_count=150)


def test_anything_in_any_order_converges() -> None:
    run_state_machine_as_test(Walk, settings=FAST)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_anything_in_any_order_converges_for_long() -> None:
    run_state_machine_as_test(Walk, settings=LONG)

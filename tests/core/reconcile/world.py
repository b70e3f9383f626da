"""Coordinators and workers with their machines for declared things, a store, and a network in the test's hands.

Nothing moves by itself: a test delivers messages, answers for the store and ends acquisitions, or lets `settle` do all
of it. What is promised is checked after every step.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from quarterdeck.core.ids import Fence, Incarnation, SessionId, WorkerId
from quarterdeck.core.reconcile.changes import Change, changed, is_wanted
from quarterdeck.core.reconcile.holder import HolderConfig, HolderMachine
from quarterdeck.core.reconcile.holder import effects as he
from quarterdeck.core.reconcile.holder import events as hv
from quarterdeck.core.reconcile.leader import LeaderConfig, LeaderMachine
from quarterdeck.core.reconcile.leader import effects as le
from quarterdeck.core.reconcile.leader import events as lv
from quarterdeck.core.reconcile.messages import HolderMessage, HoldThing, LeaderMessage
from quarterdeck.core.reconcile.model import (
    GroupId,
    HeldError,
    HeldId,
    HeldKind,
    Holding,
    Revision,
    Thing,
    ThingId,
    ThingSpec,
)
from quarterdeck.core.reconcile.tables import HoldingState, ThingState, ThingTrigger

EPOCH, FRAGMENT = HeldKind("epoch"), HeldKind("fragment")
START = 1000.0
PASSING = HeldError("unavailable", "the source did not answer")
FINAL = HeldError("work_failed", "the file is damaged", retryable=False)
POISON = b"poison"
"""The payload of what no worker can hold."""


class Deposed(Exception):
    """The store has seen a higher fence."""

    def __init__(self, highest: Fence) -> None:
        super().__init__(highest)
        self.highest = highest


class Stale(Exception):
    """A thing has changed since."""


def spec(
    name: str,
    group: str = "",
    *,
    pinned_to: str = "",
    kind: HeldKind = EPOCH,
    tenant: str = "default",
    payload: bytes = b"",
) -> ThingSpec:
    worker = WorkerId(pinned_to) if pinned_to else None
    return ThingSpec(ThingId(name), GroupId(group or name), kind, payload, tenant, worker)


class Store:
    """What a database does, in memory."""

    def __init__(self) -> None:
        self.things: dict[ThingId, Thing] = {}
        self.revision = Revision(0)
        self.fence = Fence(0)
        self.placed: set[tuple[WorkerId, HeldId]] = set()
        """Every placing that was ever committed."""

    def declare(self, *specs: ThingSpec) -> None:
        for each in specs:
            self.things[each.thing_id] = Thing(each, self._next())

    def withdraw(self, *names: str) -> None:
        for name in names:
            thing = self.things[ThingId(name)]
            if thing.state is not ThingState.WITHDRAWN:
                self._apply(Change(thing.spec.thing_id, thing.revision, ThingTrigger.WITHDRAW), self._next())

    def load(self, fence: Fence, since: Revision) -> tuple[Revision, tuple[Thing, ...]]:
        self._guard(fence)
        return self.revision, tuple(thing for thing in self.things.values() if thing.revision > since)

    def commit(self, fence: Fence, changes: Iterable[Change]) -> tuple[tuple[Thing, ...], tuple[ThingId, ...]]:
        self._guard(fence)
        if any(
            each.thing_id not in self.things or self.things[each.thing_id].revision != each.seen for each in changes
        ):
            raise Stale
        revision = self._next()
        results = [(change.thing_id, self._apply(change, revision)) for change in changes]
        things = tuple(thing for _, thing in results if thing is not None)
        return things, tuple(thing_id for thing_id, thing in results if thing is None)

    def thing(self, name: str) -> Thing:
        return self.things[ThingId(name)]

    def state(self, name: str) -> ThingState:
        return self.thing(name).state

    def _guard(self, fence: Fence) -> None:
        if fence < self.fence:
            raise Deposed(self.fence)
        self.fence = fence

    def _next(self) -> Revision:
        self.revision = Revision(self.revision + 1)
        return self.revision

    def _apply(self, change: Change, revision: Revision) -> Thing | None:
        thing = changed(self.things[change.thing_id], change, revision)
        if thing is None:
            del self.things[change.thing_id]
            return None
        self.things[change.thing_id] = thing
        if change.trigger is ThingTrigger.PLACE:
            assert thing.worker_id is not None
            self.placed.add((thing.worker_id, thing.held_id))
        return thing


@dataclass(eq=False)
class Captain:
    """A coordinator."""

    machine: LeaderMachine
    asked: "le.Load | le.Commit | None" = None
    doubts: int = 0
    seen: Fence = Fence(0)
    """The higher fence that it doubted for."""
    retries: list[le.ReportRetry] = field(default_factory=list[le.ReportRetry])


@dataclass(eq=False)
class Hand:
    """A worker."""

    worker_id: WorkerId
    machine: HolderMachine
    incarnation: int = 1
    tenant: str = "default"
    under_way: dict[HeldId, "he.Acquire | he.Release"] = field(default_factory=dict[HeldId, "he.Acquire | he.Release"])
    resident: set[HeldId] = field(default_factory=set[HeldId])
    """What takes memory: acquired or being acquired, and not released yet."""


@dataclass(eq=False)
class Line:
    """A session."""

    session_id: SessionId
    captain: Captain
    hand: Hand
    to_worker: deque[LeaderMessage] = field(default_factory=deque[LeaderMessage])
    to_captain: deque[HolderMessage] = field(default_factory=deque[HolderMessage])


class World:
    def __init__(
        self,
        workers: Iterable[str] = ("w1", "w2"),
        captains: int = 1,
        config: LeaderConfig | None = None,
        kinds: Iterable[HeldKind] = (EPOCH, FRAGMENT),
        max_held: int = 100,
    ) -> None:
        self.now = START
        self.store = Store()
        self.kinds = frozenset(kinds)
        self.max_held = max_held
        self.config = config or LeaderConfig()
        self.captains = [Captain(LeaderMachine(self.config)) for _ in range(captains)]
        self.hands = [Hand(WorkerId(name), self._holder()) for name in workers]
        self.lines: dict[SessionId, Line] = {}
        self._sessions = 0
        self._fences = 0

    def _holder(self) -> HolderMachine:
        return HolderMachine(HolderConfig(self.kinds, self.max_held))

    # What a test does

    @property
    def captain(self) -> Captain:
        return self.captains[0]

    def hand(self, name: str) -> Hand:
        return next(hand for hand in self.hands if hand.worker_id == name)

    def crew_up(self) -> "World":
        """Everybody is connected with everybody, and the first captain leads."""
        for hand in self.hands:
            for captain in self.captains:
                self.connect(captain, hand)
        self.lead(self.captain)
        self.settle()
        return self

    def lead(self, captain: Captain) -> Fence:
        self._fences += 1
        self.tell(captain, lv.LeadershipGained(Fence(self._fences)))
        return Fence(self._fences)

    def declare(self, *specs: ThingSpec, hint: bool = True) -> None:
        self.store.declare(*specs)
        if hint:
            self.hint()

    def withdraw(self, *names: str, hint: bool = True) -> None:
        self.store.withdraw(*names)
        if hint:
            self.hint()

    def hint(self) -> None:
        for captain in self.captains:
            self.tell(captain, lv.DeclarationsChanged())

    def line(self, captain: Captain, hand: Hand) -> Line | None:
        return next((line for line in self.lines.values() if (line.captain, line.hand) == (captain, hand)), None)

    def connect(self, captain: Captain, hand: Hand) -> Line:
        self._sessions += 1
        line = Line(SessionId(f"s{self._sessions}"), captain, hand)
        self.lines[line.session_id] = line
        opened = lv.SessionOpened(line.session_id, hand.worker_id, Incarnation(hand.incarnation), hand.tenant)
        self.tell(captain, opened)
        self.tell_hand(hand, hv.SessionOpened(line.session_id))
        return line

    def cut(self, line: Line) -> None:
        del self.lines[line.session_id]
        self.tell(line.captain, lv.SessionLost(line.session_id))
        self.tell_hand(line.hand, hv.SessionLost(line.session_id))

    def cut_off(self, name: str) -> None:
        for line in [line for line in self.lines.values() if line.hand.worker_id == name]:
            self.cut(line)

    def kill(self, name: str) -> None:
        """What the worker held is gone, and it begins anew, not connected."""
        self.cut_off(name)
        hand = self.hand(name)
        hand.machine, hand.incarnation = self._holder(), hand.incarnation + 1
        hand.under_way.clear()
        hand.resident.clear()

    def kill_captain(self, captain: Captain) -> None:
        for line in [line for line in self.lines.values() if line.captain is captain]:
            self.cut(line)
        captain.machine, captain.asked = LeaderMachine(self.config), None

    def answer(self, captain: Captain, *, lose: bool = False, effect: bool = True) -> None:
        """The store does what it was asked; `lose` its answer, or even the asking, without `effect`."""
        asked, captain.asked = captain.asked, None
        assert asked is not None
        event = self._event(asked) if effect else None
        self.tell(captain, lv.StoreFailed(asked.number) if lose or event is None else event)

    def _event(self, asked: "le.Load | le.Commit") -> lv.Event:
        try:
            match asked:
                case le.Load(number, fence, since):
                    revision, things = self.store.load(fence, since)
                    return lv.DeclaredLoaded(number, revision, things)
                case le.Commit(number, fence, changes):
                    self._check_ends(changes)
                    things, gone = self.store.commit(fence, changes)
                    return lv.ChangesCommitted(number, things, gone)
        except Deposed as error:
            return lv.StoreDeposedUs(asked.number, error.highest)
        except Stale:
            return lv.ChangesRefused(asked.number)

    def deliver(self, line: Line, *, to_worker: bool) -> None:
        if to_worker:
            self.tell_hand(line.hand, hv.MessageReceived(line.session_id, line.to_worker.popleft()))
        else:
            self.tell(line.captain, lv.MessageReceived(line.session_id, line.to_captain.popleft()))

    def finish(self, hand: Hand, held_id: HeldId, error: HeldError | None = None) -> None:
        """What the worker's driver had under way ends."""
        task = hand.under_way.pop(held_id)
        if error is None and isinstance(task, he.Acquire) and task.spec.payload == POISON:
            error = FINAL
        if error is not None:
            self.tell_hand(hand, hv.HoldingFailed(held_id, error))
        elif isinstance(task, he.Acquire):
            self.tell_hand(hand, hv.Acquired(held_id))
        else:
            hand.resident.discard(held_id)
            self.tell_hand(hand, hv.Released(held_id))

    def break_down(self, name: str, thing: str, error: HeldError) -> None:
        """What a worker held breaks by itself."""
        holding = self.holding(name, thing)
        assert holding is not None
        self.tell_hand(self.hand(name), hv.HoldingFailed(holding.held_id, error))

    def settle(self) -> None:
        """Everything that can move without time moves."""
        for _ in range(10_000):
            if not self.move():
                return
        raise AssertionError("it does not come to rest")

    def wait(self, seconds: float) -> None:
        """Time passes, and everything moves meanwhile."""
        until = self.now + seconds
        self.settle()
        while True:
            due = [captain.machine.next_deadline() for captain in self.captains]
            times = [at for at in due if at is not None and at <= until]
            if not times:
                self.now = until
                return
            self.now = max(self.now, min(times))
            self.pass_time()
            self.settle()

    def pass_time(self) -> None:
        for captain in self.captains:
            deadline = captain.machine.next_deadline()
            if deadline is not None and deadline <= self.now:
                self.tell(captain, lv.TimePassed())

    def move(self) -> bool:
        """Something that can move without time; whether there was anything."""
        for captain in self.captains:
            if captain.asked is not None:
                self.answer(captain)
                return True
        for line in self.lines.values():
            for waiting, to_worker in ((line.to_worker, True), (line.to_captain, False)):
                if waiting:
                    self.deliver(line, to_worker=to_worker)
                    return True
        for hand in self.hands:
            for held_id in hand.under_way:
                self.finish(hand, held_id)
                return True
        return False

    # The machines

    def tell(self, captain: Captain, event: lv.Event) -> list[le.Effect]:
        effects = captain.machine.step(event, self.now)
        captain.machine.check_invariants()
        for effect in effects:
            match effect:
                case le.Load() | le.Commit():
                    captain.asked = effect
                case le.SendToWorker(session_id, message):
                    line = self.lines[session_id]
                    self._check_sent(line, message)
                    line.to_worker.append(message)
                case le.DoubtLeadership(_, seen):
                    captain.doubts, captain.seen = captain.doubts + 1, seen
                case le.ReportRetry():
                    captain.retries.append(effect)
        if isinstance(event, lv.LeadershipGained | lv.LeadershipLost) and not any(
            isinstance(effect, le.Load) for effect in effects
        ):
            captain.asked = None
        return effects

    def tell_hand(self, hand: Hand, event: hv.Event) -> list[he.Effect]:
        before = hand.machine.fence
        effects = hand.machine.step(event, self.now)
        hand.machine.check_invariants()
        assert hand.machine.fence >= before
        for effect in effects:
            match effect:
                case he.SendToCoordinator(session_id, message):
                    self.lines[session_id].to_captain.append(message)
                case he.Acquire(held_id):
                    others = [each for each in hand.resident if each.thing_id == held_id.thing_id and each != held_id]
                    assert held_id not in hand.under_way
                    assert not others, f"{held_id} is acquired beside {others}"
                    hand.under_way[held_id] = effect
                    hand.resident.add(held_id)
                case he.Release(held_id):
                    hand.under_way[held_id] = effect
                case he.RefuseCommand():
                    pass
        return effects

    # What is promised

    def _check_sent(self, line: Line, message: LeaderMessage) -> None:
        if isinstance(message, HoldThing):
            placing = line.hand.worker_id, message.held_id
            assert placing in self.store.placed, f"{message.held_id} was sent before it was committed"

    def _check_ends(self, changes: Iterable[Change]) -> None:
        """When what is pinned has ended, its worker has no trace of it."""
        for change in changes:
            thing = self.store.things.get(change.thing_id)
            if thing is None or thing.revision != change.seen or thing.spec.pinned_to is None:
                continue
            if change.trigger in (ThingTrigger.STOP, ThingTrigger.CLEAR):
                hand = self.hand(thing.spec.pinned_to)
                traces = [held_id for held_id in hand.resident if held_id.thing_id == change.thing_id]
                assert not traces, f"{change.thing_id} has ended, and {hand.worker_id} still has {traces}"

    def held(self, name: str) -> dict[ThingId, HoldingState]:
        return {holding.held_id.thing_id: holding.state for holding in self.hand(name).machine.holdings()}

    def holding(self, name: str, thing: str) -> Holding | None:
        found = (each for each in self.hand(name).machine.holdings() if each.held_id.thing_id == thing)
        return next(found, None)

    def check_converged(self) -> None:
        """What is committed is held, all of it and nothing else, by workers that are all connected."""
        wanted = {
            (thing.worker_id, thing.held_id)
            for thing in self.store.things.values()
            if is_wanted(thing) and thing.worker_id is not None
        }
        held = {(hand.worker_id, each.held_id) for hand in self.hands for each in hand.machine.holdings()}
        assert held == wanted, (held, wanted)
        for hand in self.hands:
            assert hand.resident == {each.held_id for each in hand.machine.holdings()}
            assert {each.state for each in hand.machine.holdings()} <= {HoldingState.HELD}
        failed = {thing.spec.group_id for thing in self.store.things.values() if thing.state is ThingState.FAILED}
        for thing in self.store.things.values():
            ends = ThingState.FAILED if thing.spec.group_id in failed else ThingState.HELD
            assert thing.state is ends, f"{thing.spec.thing_id} is {thing.state}"

"""The pool: which workers are free, and who gets them. Events in, effects out; it knows no clock and no connection.

Rules it keeps, whatever workers and roots do:

- a worker is in the pool exactly while its registration is open: answered, closed or timed out, it is out of it, and
  that before anybody hears of it;
- an address is one worker: registered again, the newer registration counts and the older is answered at once;
- a recruit gets as many as it asks for, or all that are for it, spread over nodes;
- a worker without labels is for everybody, one with labels for recruits that name one of them, or none. On each node
  a recruit with a label gets those that have it first.

What becomes of a worker that was given away is not known here. That it was, is remembered for a while, for the figures.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from quarterdeck.core.deadlines import Deadlines
from quarterdeck.core.placement import SpreadPool, choose_from
from quarterdeck.core.workcoord.invariants import Claim, insist
from quarterdeck.recruiter.machine import pool_events as ev
from quarterdeck.recruiter.machine.pool_effects import AnswerRecruit, Effect, Reserve, SendBack, Supersede
from quarterdeck.recruiter.model import Offer, Recruited

FORGET_AFTER_S: Final = 900.0
"""How long a worker that does not come back counts as reserved, and a node without workers has figures. Shorter counts
long searches as over; longer counts workers that have died as reserved."""


_SPREAD: Final = 0.1
"""The part of its time within which a registration may end. All workers register in one second after a recruiter was
started, and would come back in one second for ever."""
_GOLDEN: Final = 0.6180339887498949
"""Its multiples are spread evenly over [0, 1), however many of them there are."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A free worker."""

    number: int
    offer: Offer
    since: float


@dataclass(frozen=True, slots=True)
class NodeFigures:
    free: int
    granted: int
    """Since the recruiter began, or the node came up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """What the pool can say of itself at any moment. Totals count from the recruiter's beginning."""

    free: int
    nodes: int
    """Those with free workers."""
    reserved: int
    """Given to somebody and not registered again since; not counted for longer than 15 minutes."""
    registrations: int
    """Total of those opened."""
    superseded: int
    """Total of those that ended because their address registered again."""
    recruits: int
    """Total of requests for workers."""
    asked: int
    """Total of workers asked for."""
    granted: int
    by_node: Mapping[str, NodeFigures]

    @property
    def short(self) -> int:
        """Total of workers that were asked for and not there."""
        return self.asked - self.granted


class _Node:
    __slots__ = ("granted", "seen")

    def __init__(self) -> None:
        self.granted = 0
        self.seen = 0.0


class PoolMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self) -> None:
        self._now = 0.0
        self._held: dict[int, Registration] = {}
        self._number_of: dict[str, int] = {}
        """Open registrations, by address."""
        self._deadlines: Deadlines[int] = Deadlines()
        self._all: SpreadPool[int] = SpreadPool()
        self._without_label: SpreadPool[int] = SpreadPool()
        self._with_label: dict[str, SpreadPool[int]] = {}
        """No pool is empty."""
        self._reserved: OrderedDict[str, float] = OrderedDict()
        """Since when, by address; the oldest first."""
        self._nodes: OrderedDict[str, _Node] = OrderedDict()
        """In the order in which they were seen, the one that was not seen for longest first."""
        self._registrations = 0
        self._superseded = 0
        self._recruits = 0
        self._asked = 0
        self._granted = 0

    # What a driver calls

    def next_deadline(self) -> float | None:
        """When to send `TimePassed`, one for each time named; None when only events matter."""
        return self._deadlines.next_at()

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it. A clock that went backwards counts as one that stands still."""
        self._now = max(self._now, now)
        match event:
            case ev.RegistrationOpened(number, offer, timeout_s):
                return self._open(number, offer, timeout_s)
            case ev.RegistrationClosed(number):
                if number in self._held:
                    self._leave(number)
                return []
            case ev.RecruitRequested():
                return self._recruit(event)
            case ev.RecruiterClosed():
                return [self._send_back(number) for number in list(self._held)]
            case ev.TimePassed():
                due = self._deadlines.pop_due(self._now)
                return [] if due is None else [self._send_back(due[0])]
            case _:
                assert_never(event)

    def free(self) -> Iterable[Registration]:
        """All workers that are free, in the order in which they came."""
        return self._held.values()

    def figures(self, now: float) -> PoolFigures:
        """Linear in the number of nodes."""
        self._now = max(self._now, now)
        self._forget()
        return PoolFigures(
            free=len(self._held),
            nodes=self._all.node_count,
            reserved=len(self._reserved),
            registrations=self._registrations,
            superseded=self._superseded,
            recruits=self._recruits,
            asked=self._asked,
            granted=self._granted,
            by_node={
                name: NodeFigures(len(self._all.workers_on(name)), node.granted) for name, node in self._nodes.items()
            },
        )

    def check_invariants(self) -> None:
        """Raises `InvariantError` if the records contradict each other. Linear in everything."""
        insist(self._claims())

    # Registrations

    def _open(self, number: int, offer: Offer, timeout_s: float) -> list[Effect]:
        effects: list[Effect] = []
        older = self._number_of.get(offer.addr)
        if older is not None:
            self._leave(older)
            self._superseded += 1
            effects.append(Supersede(older))
        self._registrations += 1
        self._reserved.pop(offer.addr, None)
        self._held[number] = Registration(number, offer, self._now)
        self._number_of[offer.addr] = number
        self._deadlines.set(number, self._now + timeout_s * _share(number))
        for pool in self._pools_for(offer):
            pool.add(number, offer.node)
        self._see(offer.node)
        return effects

    def _leave(self, number: int) -> Registration:
        """It is nobody's from here on; every way out of the pool goes through here."""
        registration = self._held.pop(number)
        offer = registration.offer
        del self._number_of[offer.addr]
        self._deadlines.cancel(number)
        for pool in self._pools_for(offer):
            pool.remove(number)
        for label in offer.labels:
            if not self._with_label[label]:
                del self._with_label[label]
        return registration

    def _send_back(self, number: int) -> SendBack:
        self._leave(number)
        return SendBack(number)

    def _pools_for(self, offer: Offer) -> Iterator[SpreadPool[int]]:
        """Those that a worker with this offer is in."""
        yield self._all
        if not offer.labels:
            yield self._without_label
        for label in offer.labels:
            yield self._with_label.setdefault(label, SpreadPool())

    # Recruits

    def _recruit(self, wanted: ev.RecruitRequested) -> list[Effect]:
        chosen = choose_from(self._eligible(wanted.label), wanted.number)
        self._recruits += 1
        self._asked += wanted.number
        effects: list[Effect] = []
        workers: list[Recruited] = []
        for index, number in enumerate(chosen):
            registration = self._leave(number)
            offer, name = registration.offer, f"{wanted.reservation}/{index}"
            self._grant(offer)
            effects.append(Reserve(number, name, wanted.label, self._now - registration.since))
            workers.append(Recruited(offer.addr, offer.node, offer.slots, name))
        effects.append(AnswerRecruit(wanted.request, tuple(workers)))
        return effects

    def _eligible(self, label: str) -> tuple[SpreadPool[int], ...]:
        if not label:
            return (self._all,)
        labelled = self._with_label.get(label)
        return (self._without_label,) if labelled is None else (labelled, self._without_label)

    # Figures

    def _grant(self, offer: Offer) -> None:
        self._granted += 1
        self._reserved[offer.addr] = self._now
        self._see(offer.node).granted += 1

    def _see(self, name: str) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node()
        else:
            self._nodes.move_to_end(name)
        node.seen = self._now
        self._forget()
        return node

    def _forget(self) -> None:
        """Drops what nobody has heard of for long. A node with free workers is seen again."""
        until = self._now - FORGET_AFTER_S
        while self._reserved and next(iter(self._reserved.values())) <= until:
            self._reserved.popitem(last=False)
        while self._nodes and next(iter(self._nodes.values())).seen <= until:
            name, node = self._nodes.popitem(last=False)
            if self._all.workers_on(name):
                self._nodes[name] = node
                node.seen = self._now

    def _claims(self) -> Iterator[Claim]:
        held, addresses = self._held, {one.offer.addr: number for number, one in self._held.items()}
        yield addresses == self._number_of, "%s are registered, and known as %s", (addresses, self._number_of)
        yield len(addresses) == len(held), "%s workers have %s addresses", (len(held), len(addresses))
        both = addresses.keys() & self._reserved.keys()
        yield not both, "%s are free and reserved", (both,)
        yield self._granted <= self._asked, "%s were granted of %s", (self._granted, self._asked)
        yield len(self._deadlines) == len(held), "%s deadlines for %s workers", (len(self._deadlines), len(held))
        labels = {label for one in held.values() for label in one.offer.labels}
        yield self._with_label.keys() == labels, "there are pools for %s", (set(self._with_label),)
        for label, pool in (("", self._without_label), *self._with_label.items()):
            meant = [n for n, one in held.items() if (label in one.offer.labels if label else not one.offer.labels)]
            agrees = len(pool) == len(meant) and all(number in pool for number in meant)
            yield agrees, "the pool for %r has %s workers, not %s", (label, len(pool), len(meant))
        for number, one in held.items():
            there = number in self._all.workers_on(one.offer.node) and number in self._deadlines
            yield there, "%s is not in the pool, or for ever", (one,)
            yield one.offer.node in self._nodes, "node %s is forgotten and has workers", (one.offer.node,)
        yield len(self._all) == len(held), "the pool has %s workers, not %s", (len(self._all), len(held))


def _share(number: int) -> float:
    """How much of its time the registration of this number lasts."""
    return 1.0 - _SPREAD * (number * _GOLDEN % 1.0)

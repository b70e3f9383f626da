"""The free workers of one tenant, by node and by label, and figures about them. It decides nothing: the pool does."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.invariants import Claim
from quarterdeck.core.placement import SpreadPool
from quarterdeck.recruiter.model import Offer

FORGET_AFTER_S: Final = 900.0
"""How long a worker that does not come back counts as reserved, and a node without workers has figures. Shorter counts
long searches as over; longer counts workers that have died as reserved."""


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


@dataclass(slots=True)
class Totals:
    """What has happened so far."""

    registrations: int = 0
    superseded: int = 0
    recruits: int = 0
    asked: int = 0
    granted: int = 0


class _Node:
    __slots__ = ("granted", "seen")

    def __init__(self) -> None:
        self.granted = 0
        self.seen = 0.0


class TenantPool:
    def __init__(self) -> None:
        self.totals: Final = Totals()
        self._all: SpreadPool[int] = SpreadPool()
        self._without_label: SpreadPool[int] = SpreadPool()
        self._with_label: dict[str, SpreadPool[int]] = {}
        """No pool is empty."""
        self._reserved: OrderedDict[str, float] = OrderedDict()
        """Since when, by address; the oldest first."""
        self._nodes: OrderedDict[str, _Node] = OrderedDict()
        """In the order in which they were seen, the one that was not seen for longest first."""

    # Who is free

    def add(self, number: int, offer: Offer, now: float) -> None:
        self._reserved.pop(offer.addr, None)
        for pool in self._pools_for(offer):
            pool.add(number, offer.node)
        self._see(offer.node, now)

    def remove(self, number: int, offer: Offer) -> None:
        for pool in self._pools_for(offer):
            pool.remove(number)
        for label in offer.labels:
            if not self._with_label[label]:
                del self._with_label[label]

    def eligible(self, label: str) -> tuple[SpreadPool[int], ...]:
        """Those that are for this label, or for any."""
        if not label:
            return (self._all,)
        labelled = self._with_label.get(label)
        return (self._without_label,) if labelled is None else (labelled, self._without_label)

    def grant(self, offer: Offer, now: float) -> None:
        """This worker, which was removed, was given to somebody."""
        self.totals.granted += 1
        self._reserved[offer.addr] = now
        self._see(offer.node, now).granted += 1

    # Figures

    @property
    def is_forgotten(self) -> bool:
        """Nobody is free, and nobody was heard of for long."""
        return not (self._all or self._reserved or self._nodes)

    @property
    def free(self) -> int:
        return len(self._all)

    @property
    def reserved(self) -> int:
        return len(self._reserved)

    def by_node(self) -> Mapping[str, NodeFigures]:
        return {name: NodeFigures(len(self._all.workers_on(name)), node.granted) for name, node in self._nodes.items()}

    def forget(self, now: float) -> None:
        """Drops what nobody has heard of for long. A node with free workers is seen again."""
        until = now - FORGET_AFTER_S
        while self._reserved and next(iter(self._reserved.values())) <= until:
            self._reserved.popitem(last=False)
        while self._nodes and next(iter(self._nodes.values())).seen <= until:
            name, node = self._nodes.popitem(last=False)
            if self._all.workers_on(name):
                self._nodes[name] = node
                node.seen = now

    def claims(self, held: Mapping[int, Registration]) -> Iterator[Claim]:
        """What has to hold; `held` are the open registrations of this tenant."""
        both = {one.offer.addr for one in held.values()} & self._reserved.keys()
        yield not both, "%s are free and reserved", (both,)
        yield self.totals.granted <= self.totals.asked, "more was granted than asked: %s", (self.totals,)
        labels = {label for one in held.values() for label in one.offer.labels}
        yield self._with_label.keys() == labels, "there are pools for %s", (set(self._with_label),)
        for label, pool in (("", self._without_label), *self._with_label.items()):
            meant = [n for n, one in held.items() if (label in one.offer.labels if label else not one.offer.labels)]
            agrees = len(pool) == len(meant) and all(number in pool for number in meant)
            yield agrees, "the pool for %r has %s workers, not %s", (label, len(pool), len(meant))
        for number, one in held.items():
            yield number in self._all.workers_on(one.offer.node), "%s is not in the pool", (one,)
            yield one.offer.node in self._nodes, "node %s is forgotten and has workers", (one.offer.node,)
        yield len(self._all) == len(held), "the pool has %s workers, not %s", (len(self._all), len(held))

    # Inside

    def _pools_for(self, offer: Offer) -> Sequence[SpreadPool[int]]:
        """Those that a worker with this offer is in."""
        labelled = [self._with_label.setdefault(label, SpreadPool()) for label in offer.labels]
        return (self._all, *(labelled or (self._without_label,)))

    def _see(self, name: str, now: float) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node()
        else:
            self._nodes.move_to_end(name)
        node.seen = now
        self.forget(now)
        return node

"""Which worker gets a work: strategies behind one port, `Placement`, and `SpreadPool` for several at once.

A strategy a file. Each capability names the one it wants; the core asks it for every work.
"""

from enum import StrEnum
from typing import assert_never

from quarterdeck.core.placement.capacity import MostFree
from quarterdeck.core.placement.port import Placement
from quarterdeck.core.placement.rendezvous import Rendezvous
from quarterdeck.core.placement.round_robin import RoundRobin
from quarterdeck.core.placement.spread import SpreadPool, choose_from

__all__ = [
    "MostFree",
    "Placement",
    "PlacementStrategy",
    "Rendezvous",
    "RoundRobin",
    "SpreadPool",
    "choose_from",
    "make_placement",
]


class PlacementStrategy(StrEnum):
    """How a capability wants its works placed."""

    RENDEZVOUS = "rendezvous"
    """By affinity: one key, one worker, whatever its load. For caches."""

    ROUND_ROBIN = "round_robin"
    """In turn. For works of about equal size on workers of equal size."""

    MOST_FREE = "most_free"
    """Where there is most room. For works or workers of unequal size."""


def make_placement(strategy: PlacementStrategy) -> Placement:
    """Return an empty placement of that strategy."""
    match strategy:
        case PlacementStrategy.RENDEZVOUS:
            return Rendezvous()
        case PlacementStrategy.ROUND_ROBIN:
            return RoundRobin()
        case PlacementStrategy.MOST_FREE:
            return MostFree()
        case _:
            assert_never(strategy)

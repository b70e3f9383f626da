"""What a candidate wants done. Each request is one transaction, and is answered by its number.

What a request writes depends on the row as it is in its own transaction, so a request that comes late does no harm.
"""

from dataclasses import dataclass

from quarterdeck.core.ids import Fence
from quarterdeck.core.leadership.model import LeaderRow, LeadershipLossReason


@dataclass(frozen=True, slots=True)
class ReadRow:
    number: int


@dataclass(frozen=True, slots=True)
class TakeRow:
    """Make it ours under a fence above all that the store has seen, if it is still as it was seen."""

    number: int
    seen: LeaderRow
    above: Fence = Fence(0)
    """The highest fence that was seen elsewhere: a store that was restored from a copy knows too low a one."""


@dataclass(frozen=True, slots=True)
class RaiseBeat:
    """If the row is ours under this fence."""

    number: int
    fence: Fence


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """If the row is ours, under whichever fence: a request to take it may come to its end only now."""

    number: int


@dataclass(frozen=True, slots=True)
class BeginLeading:
    fence: Fence


@dataclass(frozen=True, slots=True)
class EndLeading:
    fence: Fence
    reason: LeadershipLossReason


@dataclass(frozen=True, slots=True)
class FinishCandidacy:
    """Nothing more will happen."""


Request = ReadRow | TakeRow | RaiseBeat | ReleaseRow
Effect = Request | BeginLeading | EndLeading | FinishCandidacy

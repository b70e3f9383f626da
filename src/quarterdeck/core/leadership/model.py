"""The row that says who leads, and the times that follow from the length of a lease."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quarterdeck.core.ids import CandidateId, Fence

MOST_BELIEVED: Final = Fence(2**62)
"""A fence above it is no leader's. One that is believed must leave room for those that follow."""


@dataclass(frozen=True, slots=True)
class LeaderRow:
    """As one transaction found it or left it. Fence and beat together never come twice."""

    holder: CandidateId | None
    """None when nobody holds it: it was released, or never taken."""
    name: str
    """Of the coordinator that holds it, for people."""
    fence: Fence
    beat: int
    """Raised by the holder, so that others see that it is there. Nobody compares clocks of two machines."""
    lease_s: float
    """How long others let the row be unchanged before they take it; the holder's word, so that coordinators with
    different settings agree."""


NOBODY: Final = LeaderRow(holder=None, name="", fence=Fence(0), beat=0, lease_s=0.0)
"""The row of a store that no leader has had yet."""


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Who stands for leadership, and how fast it changes hands."""

    candidate: CandidateId
    name: str
    lease_s: float = 10.0
    """How long others wait for a leader that says nothing. Shorter replaces a dead one sooner; too short loses
    leadership whenever the process or the store pauses."""

    def __post_init__(self) -> None:
        if self.lease_s <= 0:
            raise ValueError(f"lease_s is {self.lease_s}, it must be above 0")

    @property
    def leads_for_s(self) -> float:
        """How long one beat keeps the holder leading, counted from when it was sent. Others count the whole lease from
        when they saw the beat, which is later. The fifth that is left is for clocks that run at different rates."""
        return self.lease_s * 0.8

    @property
    def beat_every_s(self) -> float:
        """Also how often candidates look. Three beats may be lost before the holder stops leading."""
        return self.lease_s * 0.2

    @property
    def answer_max_s(self) -> float:
        """How long the store may take. A second request still comes in time after one that was lost."""
        return self.lease_s * 0.3


class LeadershipLossReason(StrEnum):
    """Why a candidate that led leads no longer."""

    LEASE_ENDED = "lease_ended"
    """No beat was confirmed in time: the process or the store paused, or cannot be reached."""
    TAKEN_OVER = "taken_over"
    """The row is another's."""
    REFUSED = "refused"
    """Somebody has seen a higher fence."""
    RELEASED = "released"
    """It was asked to stop."""

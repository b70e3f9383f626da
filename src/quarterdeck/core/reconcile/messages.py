"""What leader and workers say to each other about declared things, as values. It travels on the sessions of the crew.

Commands are idempotent: each says what is to be, and may come again. A worker answers none of them; it reports what it
has when that changes.
"""

from dataclasses import dataclass

from quarterdeck.core.ids import Fence
from quarterdeck.core.reconcile.model import HeldId, Report, ThingSpec

# From the worker


@dataclass(frozen=True, slots=True)
class HoldingsReported:
    """Full at the beginning of a session and when it was asked for, then each change. Numbered without gaps."""

    report: Report


HolderMessage = HoldingsReported
"""What a worker says."""


# From the leader


@dataclass(frozen=True, slots=True)
class LeaderAnnounced:
    """From here on obey no leader with a lower fence. The worker reports with the highest fence that it has seen."""

    fence: Fence


@dataclass(frozen=True, slots=True)
class HoldThing:
    """Hold this; one that is held or on its way is fine, and one that failed is tried again."""

    fence: Fence
    held_id: HeldId
    spec: ThingSpec


@dataclass(frozen=True, slots=True)
class DropThing:
    """Stop holding this. The worker reports it gone, also when it never had it."""

    fence: Fence
    held_id: HeldId


@dataclass(frozen=True, slots=True)
class ReportWanted:
    """A report is missing: say all of it."""


LeaderMessage = LeaderAnnounced | HoldThing | DropThing | ReportWanted
"""What a coordinator says."""

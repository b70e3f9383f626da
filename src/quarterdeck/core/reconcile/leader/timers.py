"""The things a leader's machine waits for, as keys of its deadlines."""

from dataclasses import dataclass

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.model import HeldId, ThingId


@dataclass(frozen=True, slots=True)
class LeaseTimer:
    """A worker has been away for as long as its things wait for it."""

    worker_id: WorkerId


@dataclass(frozen=True, slots=True)
class CommandTimer:
    """A worker has had time to do what it was told."""

    worker_id: WorkerId
    held_id: HeldId


@dataclass(frozen=True, slots=True)
class AnnounceTimer:
    """A worker has had time to say that it obeys us."""

    worker_id: WorkerId


@dataclass(frozen=True, slots=True)
class ReportTimer:
    """A worker has had time to say all that it holds, as it was asked to."""

    worker_id: WorkerId


@dataclass(frozen=True, slots=True)
class StoreTimer:
    """Time to look at the store: somebody may have changed it, or it failed a while ago."""


@dataclass(frozen=True, slots=True)
class SuspectTimer:
    """Time to propose again what failed to be committed."""


@dataclass(frozen=True, slots=True)
class TrialTimer:
    """What a worker is to be told by turns has waited for long enough."""

    worker_id: WorkerId


@dataclass(frozen=True, slots=True)
class SteadyTimer:
    """What may have ended workers has been held for so long that it is not the cause."""

    thing_id: ThingId


Timer = LeaseTimer | CommandTimer | AnnounceTimer | ReportTimer | StoreTimer | SuspectTimer | TrialTimer | SteadyTimer

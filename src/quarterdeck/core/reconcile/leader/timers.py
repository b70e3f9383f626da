"""The things a leader's machine waits for, as keys of its deadlines."""

from dataclasses import dataclass

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.model import HeldId


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
class StoreTimer:
    """Time to look at the store: somebody may have changed it, or it failed a while ago."""


Timer = LeaseTimer | CommandTimer | AnnounceTimer | StoreTimer

"""What the leader's machine wants done. Imperative: the driver executes them in the order in which they come.

Of `Load` and `Commit` there is one at a time, and each is answered by an event with its number. What a `Commit`
proposes is acted upon only when `ChangesCommitted` has said that it is committed: so nothing is sent before it is
stored.
"""

from dataclasses import dataclass

from quarterdeck.core.ids import Fence, SessionId, WorkerId
from quarterdeck.core.reconcile.changes import Change
from quarterdeck.core.reconcile.messages import LeaderMessage
from quarterdeck.core.reconcile.model import HeldId, Revision


@dataclass(frozen=True, slots=True)
class Load:
    """Make the store refuse lower fences, and read what was committed after a revision; from `NEVER` on, everything."""

    number: int
    fence: Fence
    since: Revision


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit all of these changes in one transaction, or none."""

    number: int
    fence: Fence
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class SendToWorker:
    session_id: SessionId
    message: LeaderMessage


@dataclass(frozen=True, slots=True)
class DoubtLeadership:
    """Somebody has seen a higher fence: whoever elects should look again. Nothing is commanded until then."""

    fence: Fence
    """Ours."""
    seen: Fence
    """The higher one. Who leads next has to lead under one above it."""


@dataclass(frozen=True, slots=True)
class ReportRetry:
    """A worker has not done what it was told. For the log: what it is told again, and for the how-manieth time."""

    worker_id: WorkerId
    held_id: HeldId
    command: str
    attempt: int


Effect = Load | Commit | SendToWorker | DoubtLeadership | ReportRetry

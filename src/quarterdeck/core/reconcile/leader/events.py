"""What the leader's machine is told. Past tense: it has happened, the machine decides what follows."""

from dataclasses import dataclass

from quarterdeck.core.ids import Fence, Incarnation, SessionId, WorkerId
from quarterdeck.core.reconcile.messages import HolderMessage
from quarterdeck.core.reconcile.model import Revision, Thing, ThingId

# From whoever elects


@dataclass(frozen=True, slots=True)
class LeadershipGained:
    fence: Fence


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Or given up. Sessions and what they reported stay: whoever gains it next need not ask again."""


# From the store


@dataclass(frozen=True, slots=True)
class DeclaredLoaded:
    """What `Load` asked for."""

    number: int
    revision: Revision
    """Of the newest change in the store."""
    things: tuple[Thing, ...]


@dataclass(frozen=True, slots=True)
class ChangesCommitted:
    number: int
    things: tuple[Thing, ...]
    """That have changed, as they are now."""
    gone: tuple[ThingId, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangesRefused:
    """Nothing was committed: a thing has changed since."""

    number: int


@dataclass(frozen=True, slots=True)
class StoreDeposedUs:
    """The store has seen a higher fence: nothing was committed, and nothing of ours ever will be."""

    number: int
    highest: Fence
    """That it has seen."""


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """It could not be asked, or did not answer: whether anything was committed is not known."""

    number: int


@dataclass(frozen=True, slots=True)
class DeclarationsChanged:
    """Something was declared or withdrawn. A hint: without it, it is found at the next look at the store."""


# From the sessions


@dataclass(frozen=True, slots=True)
class SessionOpened:
    session_id: SessionId
    worker_id: WorkerId
    incarnation: Incarnation
    tenant: str


@dataclass(frozen=True, slots=True)
class SessionLost:
    session_id: SessionId


@dataclass(frozen=True, slots=True)
class MessageReceived:
    session_id: SessionId
    message: HolderMessage


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that `next_deadline` named has come."""


Event = (
    LeadershipGained
    | LeadershipLost
    | DeclaredLoaded
    | ChangesCommitted
    | ChangesRefused
    | StoreDeposedUs
    | StoreFailed
    | DeclarationsChanged
    | SessionOpened
    | SessionLost
    | MessageReceived
    | TimePassed
)

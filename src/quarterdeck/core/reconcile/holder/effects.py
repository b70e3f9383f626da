"""What the holder's machine wants done. Imperative: the driver executes them in the order in which they come."""

from dataclasses import dataclass

from quarterdeck.core.ids import Fence, SessionId
from quarterdeck.core.reconcile.messages import HolderMessage
from quarterdeck.core.reconcile.model import HeldId, ThingSpec


@dataclass(frozen=True, slots=True)
class SendToCoordinator:
    session_id: SessionId
    message: HolderMessage


@dataclass(frozen=True, slots=True)
class Acquire:
    """Begin to hold it; answer with `Acquired` or `HoldingFailed`. One that failed may have left something behind."""

    held_id: HeldId
    spec: ThingSpec


@dataclass(frozen=True, slots=True)
class Release:
    """Stop holding it, also while it is being acquired, or what a failure left of it; answer with `Released` or
    `HoldingFailed`. An answer to `Acquire` that is still open is dropped."""

    held_id: HeldId
    spec: ThingSpec


@dataclass(frozen=True, slots=True)
class RefuseCommand:
    """A leader that is none any more told us something: nothing is done about it."""

    session_id: SessionId
    fence: Fence
    highest: Fence


Effect = SendToCoordinator | Acquire | Release | RefuseCommand

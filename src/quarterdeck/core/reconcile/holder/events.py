"""What the holder's machine is told. Past tense: it has happened, the machine decides what follows."""

from dataclasses import dataclass

from quarterdeck.core.ids import SessionId
from quarterdeck.core.reconcile.messages import LeaderMessage
from quarterdeck.core.reconcile.model import HeldError, HeldId


@dataclass(frozen=True, slots=True)
class SessionOpened:
    session_id: SessionId


@dataclass(frozen=True, slots=True)
class SessionLost:
    """What is held stays held: it is not bound to a session."""

    session_id: SessionId


@dataclass(frozen=True, slots=True)
class MessageReceived:
    session_id: SessionId
    message: LeaderMessage


@dataclass(frozen=True, slots=True)
class Acquired:
    held_id: HeldId


@dataclass(frozen=True, slots=True)
class HoldingFailed:
    """It could not be acquired, it broke while it was held, or it could not be released."""

    held_id: HeldId
    error: HeldError


@dataclass(frozen=True, slots=True)
class Released:
    """Nothing of it is left."""

    held_id: HeldId


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The worker is to end: it takes nothing new. What it holds stays until the process ends."""


Event = SessionOpened | SessionLost | MessageReceived | Acquired | HoldingFailed | Released | DrainRequested

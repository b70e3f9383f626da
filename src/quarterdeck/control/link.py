"""A connection, whoever dialled it and whatever carries it: gRPC in a process, simulated links in a simulation."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from quarterdeck.core.ids import SessionId
from quarterdeck.core.reconcile.messages import HolderMessage, LeaderMessage
from quarterdeck.core.workcoord.messages import CoordinatorMessage, Refused, Register, Registered, WorkerMessage

Message: TypeAlias = (
    WorkerMessage | CoordinatorMessage | HolderMessage | LeaderMessage | Register | Registered | Refused
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One write on a connection: several messages at once, so that a burst costs little."""

    session_id: SessionId | None
    """None until the worker has a session."""
    sequence: int
    """Counts the envelopes of one direction of a connection, from 0."""
    messages: tuple[Message, ...]


class LinkClosedError(Exception):
    """The connection is gone, or could not be made; the message says how."""


class NotAdmittedError(LinkClosedError):
    """The peer was reached, and does not take our call."""


class ProtocolError(Exception):
    """The peer sent what cannot be: garbage, a wrong number, a wrong session, a message of the wrong side."""


class Link(Protocol):
    """One connection. What is sent arrives whole and in order, or the connection breaks."""

    @property
    def peer(self) -> str:
        """Who is at the other end: two links with one peer are with the same process, or with one that replaced it."""
        ...

    async def send(self, envelope: Envelope) -> None:
        """Waits while the peer does not read; raises `LinkClosedError` when the connection is gone."""
        ...

    async def receive(self) -> Envelope:
        """The next envelope; raises `LinkClosedError` when there will be none, `ProtocolError` when it is garbage."""
        ...

    def close(self) -> None:
        """Closes both directions; again is fine."""
        ...


class Dialer(Protocol):
    async def dial(self, address: str) -> Link:
        """Makes a connection, or raises `LinkClosedError`."""
        ...


class Chance(Protocol):
    def random(self) -> float:
        """Something in [0, 1)."""
        ...

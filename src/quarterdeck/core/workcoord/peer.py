"""What either machine thinks of a peer that does what it may not."""

from enum import StrEnum


class CloseReason(StrEnum):
    """Why a session is closed from our side."""

    SILENT = "silent"
    PROTOCOL = "protocol"
    REPLACED = "replaced"
    REFUSED = "refused"
    GOODBYE = "goodbye"


class LossReason(StrEnum):
    """Why a session ended that the machine had not closed."""

    CONNECTION_LOST = "connection_lost"
    """The peer died, or the network between did."""
    NOT_READING = "not_reading"
    """The peer let our outbox fill up and was cut off."""
    PROTOCOL = "protocol"
    """The peer broke the rules of the conversation itself, below what a machine is told."""


class PeerError(Exception):
    """A peer said something that is not legal now; the message says what. Its session is broken off for it."""

"""What either machine thinks of a peer that does what it may not."""

from enum import StrEnum


class CloseReason(StrEnum):
    """Why a session is closed from our side."""

    SILENT = "silent"
    PROTOCOL = "protocol"
    REPLACED = "replaced"
    REFUSED = "refused"
    GOODBYE = "goodbye"


class PeerError(Exception):
    """A peer said something that is not legal now; the message says what. Its session is broken off for it."""

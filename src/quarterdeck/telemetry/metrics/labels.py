"""The closed sets from which label values come, so that the number of time series is known before the first event.

If core has a set (`Outcome`, `ErrorCode`, `RejectReason`, …), that one is used. These are the others.
"""

from enum import StrEnum

from quarterdeck.core.errors import ErrorCode


class DisconnectReason(StrEnum):
    """Why a session ended: core's `CloseReason` if its machine closed it, else core's `LossReason`."""

    SILENT = "silent"
    PROTOCOL = "protocol"
    REPLACED = "replaced"
    REFUSED = "refused"
    GOODBYE = "goodbye"
    CONNECTION_LOST = "connection_lost"
    NOT_READING = "not_reading"


class RemovalReason(StrEnum):
    """Why a worker deleted an artifact."""

    ACKNOWLEDGED = "acknowledged"
    """It was fetched. The only one that is not a loss."""
    EXPIRED = "expired"
    """Its time to live was over, and nobody had fetched it."""
    EVICTED = "evicted"
    """The disk was needed for something else."""
    CANCELED = "canceled"
    """Its query or its session had ended."""


class Rejection(StrEnum):
    """Why somebody who called was not let in."""

    HTTP_TOKEN = "http_token"  # noqa: S105 - a name for it
    """A request without the crew's token."""
    HTTP_HANDSHAKE = "http_handshake"
    """A connection to the HTTP port that did not come to TLS."""
    HTTP_CONNECTIONS = "http_connections"
    """A connection that was refused, or closed for another one: there were too many, in all or of its address."""
    HTTP_BODIES = "http_bodies"
    """A request whose body had no room beside those of others."""
    HTTP_SLOW = "http_slow"
    """A connection that was closed because a request came too slowly, or nobody read the answer."""
    CONTROL_HANDSHAKE = "control_handshake"
    """A connection to the control port that did not come to TLS, or made no call within five seconds after it."""
    CONTROL_TOKEN = "control_token"  # noqa: S105 - a name for it
    """A call on the control port without the crew's token."""
    CONTROL_PROTOCOL = "control_protocol"
    """A call on the control port by a release that speaks another version."""


class Lookup(StrEnum):
    """Whether something was where it was hoped to be."""

    HIT = "hit"
    MISS = "miss"


def error_code(code: str) -> ErrorCode:
    """The code of an error from the wire. A code that this version does not know is a breach of protocol; otherwise it
    would be a new label value."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.PROTOCOL

"""What can go wrong, in one form everywhere: one root class, one set of codes, one table.

Rules: an error says what happened, why, and what to do next. Its code decides the gRPC status, the HTTP status and the
exit code, by `ERROR_TABLE` and nowhere else. Whether retrying helps comes from the table too, unless the place that
raises knows better. A package may have subclasses of the root; it may not have codes of its own.

It must not know gRPC, HTTP or the command line: statuses are names and numbers here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class ErrorCode(StrEnum):
    """The kinds of failure a caller may want to tell apart."""

    INVALID_ARGUMENT = "invalid_argument"
    """The caller asked for something that makes no sense; asking again will not help."""

    NOT_FOUND = "not_found"
    """What the caller named is not there."""

    UNAUTHENTICATED = "unauthenticated"
    """The caller did not show that it may ask at all."""

    PERMISSION_DENIED = "permission_denied"
    """The caller may ask, but not for this, or not from there."""

    NO_WORKER = "no_worker"
    """The work waited as long as its caller allowed, and no worker could take it."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    """The work was tried as often as its policy allows; each attempt was lost or failed for a passing reason."""

    QUARANTINED = "quarantined"
    """The work is not tried again: what ran it died each time."""

    WORK_FAILED = "work_failed"
    """A worker ran the work and met an error that retrying cannot cure."""

    DEADLINE_EXCEEDED = "deadline_exceeded"
    """The time the caller gave was over before the answer was there."""

    CANCELED = "canceled"
    """The caller went away or said stop."""

    RESOURCE_EXHAUSTED = "resource_exhausted"
    """A limit on memory, disk, concurrency or rate was reached."""

    PROTOCOL = "protocol"
    """A peer broke the protocol: it is of another version, or it has a bug."""

    UNAVAILABLE = "unavailable"
    """Something needed cannot be reached now."""

    DEPOSED = "deposed"
    """What was asked came to a coordinator that does not lead any more."""

    INTERNAL = "internal"
    """A bug in Quarterdeck."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How one code looks from outside."""

    grpc_status: str
    """The name of a canonical gRPC status code."""

    http_status: int

    exit_code: int
    """Of the command line. Its own for each code, so that a script can tell them apart."""

    retryable: bool
    """Whether the same request may succeed later with nothing changed by the caller."""


PARTIAL_EXIT_CODE: Final = 85
"""Of a command whose answer is all there is, and is not whole: nothing failed, and no failure has it."""

# Exit codes: 64 to 78 as sysexits(3) means them, 124 as timeout(1), 130 as a shell after SIGINT; 80 to 86 are ours,
# where nobody has a meaning. 1 is left for a Python traceback and 2 for a wrong command line.
# HTTP: 422 is what Prometheus answers for a query that cannot be executed, 499 what nginx logs when the client is gone.
ERROR_TABLE: Final[Mapping[ErrorCode, ErrorRow]] = MappingProxyType(
    {
        ErrorCode.INVALID_ARGUMENT: ErrorRow("INVALID_ARGUMENT", http_status=400, exit_code=65, retryable=False),
        ErrorCode.NOT_FOUND: ErrorRow("NOT_FOUND", http_status=404, exit_code=66, retryable=False),
        ErrorCode.UNAUTHENTICATED: ErrorRow("UNAUTHENTICATED", http_status=401, exit_code=77, retryable=False),
        ErrorCode.PERMISSION_DENIED: ErrorRow("PERMISSION_DENIED", http_status=403, exit_code=84, retryable=False),
        ErrorCode.NO_WORKER: ErrorRow("UNAVAILABLE", http_status=503, exit_code=75, retryable=True),
        ErrorCode.ATTEMPTS_EXHAUSTED: ErrorRow("ABORTED", http_status=502, exit_code=81, retryable=True),
        ErrorCode.QUARANTINED: ErrorRow("FAILED_PRECONDITION", http_status=422, exit_code=83, retryable=False),
        ErrorCode.WORK_FAILED: ErrorRow("FAILED_PRECONDITION", http_status=422, exit_code=80, retryable=False),
        ErrorCode.DEADLINE_EXCEEDED: ErrorRow("DEADLINE_EXCEEDED", http_status=504, exit_code=124, retryable=False),
        ErrorCode.CANCELED: ErrorRow("CANCELLED", http_status=499, exit_code=130, retryable=False),
        ErrorCode.RESOURCE_EXHAUSTED: ErrorRow("RESOURCE_EXHAUSTED", http_status=429, exit_code=82, retryable=True),
        ErrorCode.PROTOCOL: ErrorRow("INTERNAL", http_status=502, exit_code=76, retryable=False),
        ErrorCode.UNAVAILABLE: ErrorRow("UNAVAILABLE", http_status=503, exit_code=69, retryable=True),
        ErrorCode.DEPOSED: ErrorRow("ABORTED", http_status=503, exit_code=86, retryable=True),
        ErrorCode.INTERNAL: ErrorRow("INTERNAL", http_status=500, exit_code=70, retryable=False),
    }
)


class QuarterdeckError(Exception):
    """The root of all errors that Quarterdeck raises on purpose.

    >>> print(QuarterdeckError(
    ...     ErrorCode.NO_WORKER, "the query was not run", "no worker joined within 30 s", "start one and ask again"
    ... ))
    the query was not run: no worker joined within 30 s; start one and ask again
    """

    def __init__(self, code: ErrorCode, what: str, why: str, next_step: str, retryable: bool | None = None) -> None:
        # All arguments go to `args`, from which copy and pickle make the error anew.
        super().__init__(code, what, why, next_step, retryable)
        self.code: Final = code
        self.what: Final = what
        self.why: Final = why
        self.next_step: Final = next_step
        self.retryable: Final = ERROR_TABLE[code].retryable if retryable is None else retryable

    @property
    def message(self) -> str:
        """What happened, why, and what to do next, in one line."""
        return f"{self.what}: {self.why}; {self.next_step}"

    @property
    def row(self) -> ErrorRow:
        """How this error looks from outside."""
        return ERROR_TABLE[self.code]

    def __str__(self) -> str:
        return self.message

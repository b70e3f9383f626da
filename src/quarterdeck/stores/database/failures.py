"""Errors of a database as our errors: with the database's place, never with a password or with values."""

from sqlalchemy.exc import DBAPIError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.backend import Verdict
from quarterdeck.stores.disk_full import no_room

_FREE = "free space there, or move the database (database_url) to a disk with more; then try again"


class DatabaseClosedError(QuarterdeckError):
    """It was asked for something after it was closed."""

    def __init__(self, place: str) -> None:
        super().__init__(
            ErrorCode.UNAVAILABLE,
            f"the database {place} is not asked any more",
            "this process has closed it",
            "ask another process, or this one when it has started again",
        )


def translated(
    error: DBAPIError, verdict: Verdict, place: str, *, reading: bool, committing: bool
) -> QuarterdeckError | None:
    """None when the error is for whoever wrote the transaction, as it is: a constraint, a wrong statement."""
    why = _first_line(error)
    match verdict:
        case Verdict.UNREACHABLE if committing:
            return QuarterdeckError(
                ErrorCode.UNAVAILABLE,
                f"whether a transaction was committed in the database {place} is not known",
                f"the connection was lost in that moment ({why})",
                "look for what it should have written before doing it again",
                retryable=False,
            )
        case Verdict.UNREACHABLE:
            return QuarterdeckError(
                ErrorCode.UNAVAILABLE,
                f"the database {place} cannot be reached, and nothing was changed",
                why,
                "check that it is there, its address, user and password, and try again",
            )
        case Verdict.FULL if place.startswith("/") and "memory" not in why:
            return no_room(
                f"the database {place} has no room, and nothing was changed", place, _Told(why), next_step=_FREE
            )
        case Verdict.FULL:
            return QuarterdeckError(
                ErrorCode.RESOURCE_EXHAUSTED,
                f"the database {place} has no room, and nothing was changed",
                why,
                "free or add what it names (disk, memory, connections), and try again",
            )
        case Verdict.READ_ONLY if reading:
            return QuarterdeckError(
                ErrorCode.INTERNAL,
                "a transaction that only reads tried to write",
                why,
                "report it; in the code, such a transaction belongs into `run`",
            )
        case Verdict.READ_ONLY:
            return QuarterdeckError(
                ErrorCode.UNAVAILABLE,
                f"the database {place} cannot be written",
                why,
                "make the file and its folder writable, or name the server that takes writes",
                retryable=False,
            )
        case Verdict.DAMAGED:
            return QuarterdeckError(
                ErrorCode.UNAVAILABLE,
                f"the database {place} cannot be understood",
                why,
                "check that this is Quarterdeck's database and that its disk is well; else restore it from a copy",
                retryable=False,
            )
        case Verdict.LOST_RACE | Verdict.OTHER:
            return None


class _Told(Exception):
    """What a driver said."""


def always_late(place: str, attempts: int, error: DBAPIError) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"a transaction in the database {place} was given up, and nothing was changed",
        f"others were in the way each of {attempts} times ({_first_line(error)})",
        "try again; when it stays so, look for a process that holds a transaction open",
    )


def none_free(place: str, timeout_s: float) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"the database {place} was not asked",
        f"all connections of this process were in use for {timeout_s:g} s",
        "try again; when it stays so, look for a transaction that does not end or that waits for another",
    )


def _first_line(error: DBAPIError) -> str:
    """What the driver says, without the statement."""
    return next(iter(str(error.orig).splitlines()), type(error.orig).__name__)

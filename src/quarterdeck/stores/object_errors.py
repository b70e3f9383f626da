"""What goes wrong with an object, told with its URL: not there, changed, not reachable, not allowed."""

import re
from collections.abc import Generator
from contextlib import contextmanager

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_STATUS = re.compile(r"status code: (\d{3})")
"""Of an error that the store has no class for, as it is for a failed listing."""


@contextmanager
def told_with(url: str) -> Generator[None]:
    """Whatever the store raises in the block becomes an error that names the URL."""
    try:
        yield
    except FileNotFoundError as error:
        raise not_found(url) from error
    except PreconditionError as error:
        raise changed(url) from error
    except (ValueError, InvalidPathError) as error:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT, f"{url} cannot be read", _first_line(error), "check the name"
        ) from error
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise _denied(url, error) from error
    except (BaseError, OSError) as error:
        raise _by_status(url, error) from error


def _by_status(url: str, error: Exception) -> QuarterdeckError:
    status = _STATUS.search(str(error))
    match status and status[1]:
        case "404":
            return not_found(url)
        case "401" | "403":
            return _denied(url, error)
        case _:
            return unreachable(url, _first_line(error))


def not_found(url: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.NOT_FOUND,
        f"{url} was not found",
        "there is no such object",
        "check the spelling, the bucket, and that it was not deleted since it was listed",
    )


def nothing_found(pattern: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.NOT_FOUND,
        f"{pattern} found nothing",
        "there is no such file or folder, or nothing in it fits",
        "check the spelling and the bucket; `*` stays within one folder and `**` goes below it, names that begin with "
        "a dot are passed over, and a local path is one on the machine that looks",
    )


def changed(url: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.WORK_FAILED,
        f"{url} cannot be read",
        "it has changed since it was listed",
        "ask again, so that it is listed again",
        retryable=False,
    )


def not_as_named(url: str, found: str, expected: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.WORK_FAILED,
        f"{url} cannot be read",
        f"its checksum is {found}, and {expected} was expected",
        "restore it: it was damaged or replaced",
        retryable=False,
    )


def unreachable(url: str, why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE, f"{url} cannot be reached", why, "check the endpoint and the network, and try again"
    )


def _denied(url: str, error: Exception) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"{url} may not be read",
        _first_line(error),
        "check the credentials and what they allow",
        retryable=False,
    )


def _first_line(error: Exception) -> str:
    """What the store says, without its trace."""
    return next(iter(str(error).splitlines()), type(error).__name__)

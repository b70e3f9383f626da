"""Errors about an object, with its URL: not there, changed, not reachable, not allowed, no room."""

import errno
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.disk_full import is_full, no_room, says_full
from quarterdeck.stores.regular_files import NotRegularError

_STATUS = re.compile(r"status code: (\d{3})")
"""The text of an error for which the store has no class, such as a failed listing."""


@contextmanager
def told_with(url: str) -> Generator[None]:
    """Whatever the store raises in the block becomes an error that names the URL."""
    try:
        yield
    except PreconditionError as error:
        raise changed(url) from error
    except (ValueError, InvalidPathError) as error:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT, f"{url} cannot be read", _first_line(error), "check the name"
        ) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise _denied(url, error) from error
    except OSError as error:
        raise of_system(url, error) from error
    except BaseError as error:
        raise _by_status(url, error) from error


def of_system(url: str, error: OSError) -> QuarterdeckError:
    """The system's error about a local file. An error of a store that has no number, but is of the system's kind, keeps
    the store's text."""
    if isinstance(error, NotRegularError):
        return _unusable(_named(url, error), error.strerror or str(error), "name regular files, or a folder with them")
    if isinstance(error, FileNotFoundError):
        return not_found(url)
    if is_full(error):
        return _full(url, error)
    if error.errno is None:
        return _by_status(url, error)
    tell = _BY_NUMBER.get(error.errno, _broken)
    return tell(_named(url, error), error)


def _named(url: str, error: OSError) -> str:
    """The folder or file that the system names, which may be below what was asked for."""
    return error.filename if isinstance(error.filename, str) and error.filename.startswith(url) else url


def _full(url: str, error: Exception) -> QuarterdeckError:
    if "://" not in url or url.startswith("file://"):
        return no_room(f"{url} could not be written", url.removeprefix("file://"), error)
    return QuarterdeckError(
        ErrorCode.RESOURCE_EXHAUSTED,
        f"{url} could not be written",
        f"the store has no room: {_first_line(error)}",
        "free space in it, or raise its quota; then try again",
    )


def _by_status(url: str, error: Exception) -> QuarterdeckError:
    if says_full(str(error)):
        return _full(url, error)
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


def in_the_way(url: str, error: OSError) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"{url} could not be written",
        f"a folder of its path is none: {_said(error)}",
        "see what is at that path, and move it out of the way",
        retryable=False,
    )


def nothing_found(pattern: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.NOT_FOUND,
        f"{pattern} found nothing",
        "there is no such file or folder, or nothing in it fits",
        "check the spelling and the bucket; `*` stays within one folder and `**` goes below it, names that begin with "
        "a dot are passed over, and a local path is one on the machine that looks",
    )


def too_many(pattern: str, count: int) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        f"{pattern} means too much",
        f"there are more than {count:,} names to look at",
        "name a part of it: a folder below, or a glob whose first folders have no wildcard",
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


def hangs(url: str, seconds: float, waited_for: str | None = None) -> QuarterdeckError:
    """It did not answer in time. `waited_for` is the file system whose threads were all busy, if it did not even
    begin."""
    why = f"it did not answer within {seconds:g} s"
    if waited_for is not None:
        why = f"its turn did not come within {seconds:g} s: all threads for {waited_for} were busy"
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"{url} cannot be reached",
        why,
        "look whether its disk, mount or endpoint hangs; where it is only slow, raise store_timeout_s",
    )


def all_hang(url: str, mount: str, count: int) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"{url} was not asked for",
        f"{count} calls to {mount} hang already, and there may be no more",
        "look whether that mount hangs; calls are made again when it answers",
    )


def too_busy(url: str, mount: str, count: int) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.RESOURCE_EXHAUSTED,
        f"{url} was not asked for",
        f"{count:,} calls to {mount} wait for their turn already",
        "ask for less at once, and look whether that mount is slow",
    )


def _unusable(url: str, why: str, next_step: str) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, f"{url} cannot be used", why, next_step)


def _not_there(url: str, _error: OSError) -> QuarterdeckError:
    return not_found(url)


def _loop(url: str, error: OSError) -> QuarterdeckError:
    return _unusable(url, f"its symbolic links lead in a circle: {_said(error)}", "correct the links, or name the file")


def _too_long(url: str, error: OSError) -> QuarterdeckError:
    return _unusable(url, f"the name is too long: {_said(error)}", "use a shorter one")


def _folder(url: str, _error: OSError) -> QuarterdeckError:
    return _unusable(url, "it is a folder", "name the files in it")


def _forbidden(url: str, error: OSError) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"{url} may not be used",
        _said(error),
        "check its permissions, and those of the folders above it, for the user of this process",
        retryable=False,
    )


def _out_of_files(url: str, error: OSError) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.RESOURCE_EXHAUSTED, f"{url} could not be opened", _said(error), "raise the limit of open files"
    )


def _broken(url: str, error: OSError) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"{url} cannot be read or written",
        f"the system says: {_said(error)}",
        "look at its disk or mount and at the system's log, and try again",
    )


_BY_NUMBER: Final[dict[int, Callable[[str, OSError], QuarterdeckError]]] = {
    errno.ENOTDIR: _not_there,
    errno.ELOOP: _loop,
    errno.ENAMETOOLONG: _too_long,
    errno.EISDIR: _folder,
    errno.EACCES: _forbidden,
    errno.EPERM: _forbidden,
    errno.EROFS: _forbidden,
    errno.EMFILE: _out_of_files,
    errno.ENFILE: _out_of_files,
}


def _denied(url: str, error: Exception) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"{url} may not be read",
        _first_line(error),
        "check the credentials and what they allow",
        retryable=False,
    )


def _said(error: OSError) -> str:
    return error.strerror or errno.errorcode.get(error.errno or 0, str(error))


def _first_line(error: Exception) -> str:
    """What the store says, without its trace."""
    return next(iter(str(error).splitlines()), type(error).__name__)

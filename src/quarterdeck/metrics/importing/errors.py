"""What is wrong with a file that is to be imported, told with its name, the place, and the remedy."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.regular_files import NotRegularError

Named: TypeAlias = Path | str
"""A file's path, or what people call it where it was copied from somewhere."""

_LINE_CHARACTERS: Final = 120
_WHY_CHARACTERS: Final = 1000
"""A reason may hold a name from the file, or the names of all its columns."""


class Malformed(Exception):
    """What is wrong with a piece of text or a value, told by who does not know in which file and line it stands."""

    def __init__(self, why: str, next_step: str) -> None:
        super().__init__(why, next_step)
        self.why: Final = why
        self.next_step: Final = next_step


class SourceError(QuarterdeckError):
    """A file cannot be imported as it is."""

    def __init__(self, what: str, why: str, next_step: str, code: ErrorCode = ErrorCode.INVALID_ARGUMENT) -> None:
        super().__init__(code, what, why, next_step, retryable=False)
        self.args = (what, why, next_step, code)


def bad_line(path: Named, line: int, raw: bytes, fault: Malformed) -> SourceError:
    """A line counted from 1, and what stands in it."""
    what = f"{path} line {line} cannot be imported"
    return SourceError(what, f"{_harmless(fault.why, _WHY_CHARACTERS)}, in `{shown(raw)}`", fault.next_step)


def bad_row(path: Named, row: int, fault: Malformed) -> SourceError:
    """A row of a table, counted from 1."""
    what = f"{path} row {row} cannot be imported"
    return SourceError(what, _harmless(fault.why, _WHY_CHARACTERS), fault.next_step)


def bad_file(path: Named, why: str, next_step: str) -> SourceError:
    return SourceError(f"{path} cannot be imported", _harmless(why, _WHY_CHARACTERS), next_step)


@contextmanager
def told_with(path: Named, why: str, next_step: str) -> Generator[None]:
    """What the system says about a file is told as it is; what a library says about its content goes after `why`.

    pyarrow raises `OSError` for both; only the system's has a number.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(
            f"{path} cannot be imported", "there is no such file", "check the spelling", ErrorCode.NOT_FOUND
        ) from error
    except NotRegularError as error:
        raise bad_file(path, error.strerror or str(error), "name a regular file") from error
    except IsADirectoryError as error:
        raise bad_file(path, "it is a folder", "name the files in it") from error
    except OSError as error:
        if error.errno is None:
            raise bad_file(path, f"{why} ({_first_line(error)})", next_step) from error
        raise SourceError(
            f"{path} cannot be read",
            error.strerror or errno.errorcode.get(error.errno, str(error.errno)),
            "check the file, its permissions and the disk",
            ErrorCode.UNAVAILABLE,
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def shown(raw: bytes) -> str:
    """Bytes of a file for a message: not too many, and nothing that a terminal would obey.

    >>> shown(b"up 1\\xff\\x1b[2J")
    'up 1\\\\xff\\\\x1b[2J'
    """
    return _harmless(raw[: 4 * _LINE_CHARACTERS].decode(errors="backslashreplace"), _LINE_CHARACTERS)


def _harmless(text: str, character_count: int) -> str:
    cut = text[:character_count]
    printable = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut)
    return printable if len(text) <= character_count else f"{printable}..."

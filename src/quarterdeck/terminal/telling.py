"""Errors for people: in one line on stderr, or as a list if there are several, and the exit code they mean."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError
from quarterdeck.stores.disk_full import is_full, no_room

_EXIT_BROKEN_PIPE: Final = 141
"""As a shell says of a process whose reader went away: 128 + SIGPIPE."""


def exit_code_of(command: Callable[[], int]) -> int:
    """Runs a command. What it raises on purpose is told; anything else is a bug, and stays a traceback."""
    try:
        return _flushed(command)
    except QuarterdeckError as error:
        return tell(error)
    except BrokenPipeError:
        return reader_gone()
    except OSError as error:
        if not is_full(error):
            raise
        return _output_full(error)
    except UnicodeEncodeError as error:
        if error.encoding.replace("_", "-").lower() in ("utf-8", "utf8"):
            raise
        return tell(_not_written(error))
    except KeyboardInterrupt:
        sys.stderr.write("quarterdeck: interrupted\n")
        return ERROR_TABLE[ErrorCode.CANCELED].exit_code


def _not_written(error: UnicodeEncodeError) -> QuarterdeckError:
    """The locale of a terminal, or of a cron job, has no such signs."""
    signs = error.object[error.start : error.end]
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        "the output was not written to its end",
        f"{signs!a} cannot be written in the encoding {error.encoding}",
        "set LANG to one with UTF-8, such as C.UTF-8",
    )


def _flushed(command: Callable[[], int]) -> int:
    """What is still buffered is written here: of an error later on Python tells without a reason."""
    try:
        code = command()
    except SystemExit:
        _flush()
        raise
    _flush()
    return code


def _flush() -> None:
    if cast("object", sys.stdout) is not None:  # `>&-`
        sys.stdout.flush()


def _output_full(error: OSError) -> int:
    """Where a shell led stdout to is a full disk, mostly; or a file was written whose name the error has."""
    named = cast("object", error.filename)
    where = Path("/proc/self/fd/1")
    place = Path(os.fsdecode(named)) if isinstance(named, str | bytes) else where.readlink() if where.exists() else None
    what = "the output was not written to its end" if named is None else f"{place} was not written"
    _to_nowhere()
    return tell(no_room(what, place or Path(), error))


def tell(error: QuarterdeckError) -> int:
    """What went wrong, for a person, and the exit code for a script."""
    problems: tuple[object, ...] = getattr(error, "problems", ())  # of settings; asking by class would load pydantic
    if problems:
        listed = "".join(f"  - {problem}\n" for problem in problems)
        sys.stderr.write(f"quarterdeck: {error.what}:\n{listed}{error.next_step}\n")
    else:
        sys.stderr.write(_harmless(f"quarterdeck: {error}\n"))
    return error.row.exit_code


def reader_gone() -> int:
    """The exit code when nobody reads stdout any more; nothing is said about it."""
    _to_nowhere()
    return _EXIT_BROKEN_PIPE


def _to_nowhere() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it ends


def printable(text: str) -> str:
    """What others wrote, in one line, without anything that a terminal would obey.

    >>> print(printable("caf\u00e9 " + chr(27) + "[2J" + chr(10)))
    caf\u00e9 \\x1b[2J\\n
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def _harmless(text: str) -> str:
    """What others wrote, in its lines."""
    return "\n".join(map(printable, text.expandtabs(1).split("\n")))


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number and its noun.

    >>> counted(1, "row"), counted(1500, "row"), counted(2, "query", "queries")
    ('1 row', '1,500 rows', '2 queries')
    """
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"

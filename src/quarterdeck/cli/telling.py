"""Words for a person: errors in one line on stderr, or as a list where there is one, and the exit code they mean."""

import sys
from collections.abc import Callable

from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError


def exit_code_of(command: Callable[[], int]) -> int:
    """Runs a command. What it raises on purpose is told; anything else is a bug, and stays a traceback."""
    try:
        return command()
    except QuarterdeckError as error:
        return tell(error)
    except KeyboardInterrupt:
        sys.stderr.write("quarterdeck: interrupted\n")
        return ERROR_TABLE[ErrorCode.CANCELED].exit_code


def tell(error: QuarterdeckError) -> int:
    """What went wrong, for a person, and the exit code for a script."""
    problems: tuple[object, ...] = getattr(error, "problems", ())  # of settings; asking by class would load pydantic
    if problems:
        listed = "".join(f"  - {problem}\n" for problem in problems)
        sys.stderr.write(f"quarterdeck: {error.what}:\n{listed}{error.next_step}\n")
    else:
        sys.stderr.write(f"quarterdeck: {error}\n")
    return error.row.exit_code


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number and its noun.

    >>> counted(1, "row"), counted(1500, "row"), counted(2, "query", "queries")
    ('1 row', '1,500 rows', '2 queries')
    """
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"

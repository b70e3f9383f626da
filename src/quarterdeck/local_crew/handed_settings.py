"""Settings on their way from a process to one it starts.

Everybody on a machine can read a command line, and an environment goes on to whatever the child starts. So settings,
among which there may be secrets, go through a file without a name: the child inherits its descriptor, reads it once and
closes it. Only the descriptor's number is on the command line.
"""

import json
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Final

import typer

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

OPTION: Final = "--handed-settings"
MAX_BYTES: Final = 1024 * 1024
"""More than anybody writes; a command line of Linux holds about twice that."""


@contextmanager
def handed_over(settings: Sequence[str]) -> Generator[int]:
    """The descriptor of a file with the settings, each NAME=VALUE, for one child to inherit."""
    data = json.dumps(list(settings)).encode()
    if len(data) > MAX_BYTES:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            "no process was started with these settings",
            f"together they have {len(data):,} bytes, and {MAX_BYTES:,} are allowed",
            "write them into a file, and name it with --config",
        )
    with _nameless_file() as file:
        file.write(data)
        file.flush()
        yield file.fileno()


def taken_over(descriptor: int | None) -> list[str]:
    """The settings behind a descriptor that this process has inherited, which is closed; none without one."""
    if descriptor is None:
        return []
    try:
        with os.fdopen(descriptor, "rb") as file:
            file.seek(0)  # whoever wrote it left off at its end
            data = file.read(MAX_BYTES + 1)
        settings = json.loads(data)
    except (OSError, ValueError):
        raise _unusable() from None
    if len(data) > MAX_BYTES or not isinstance(settings, list) or not all(isinstance(text, str) for text in settings):  # pyright: ignore[reportUnknownVariableType] - from JSON
        raise _unusable()
    return settings  # pyright: ignore[reportUnknownVariableType]


def _unusable() -> typer.BadParameter:
    return typer.BadParameter("it is for processes that `quarterdeck up` starts; use --set", param_hint=OPTION)


def _nameless_file() -> IO[bytes]:
    """In memory where the system can do that, else on disk: never under a name that somebody could open it by."""
    with suppress(AttributeError, OSError):  # it is not known here, or not allowed
        return os.fdopen(os.memfd_create("quarterdeck-settings"), "w+b")
    return tempfile.TemporaryFile()

"""Settings on their way from a process to one it starts.

Everybody on a machine can read a command line, and an environment goes on to whatever the child starts. So settings,
among which there may be secrets, go through a file without a name: the child inherits its descriptor, reads it once and
closes it. Only the descriptor's number is on the command line.
"""

import json
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Final

import typer

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

OPTION: Final = "--handed-settings"
WHEN_OPTION: Final = "--handed-when"
"""For a process that is started ahead of its settings: see `LaterSettings`."""
MAX_BYTES: Final = 1024 * 1024
"""More than anybody writes; a command line of Linux holds about twice that."""


@contextmanager
def handed_over(settings: Sequence[str]) -> Generator[int]:
    """The descriptor of a file with the settings, each NAME=VALUE, for one child to inherit."""
    with _nameless_file() as file:
        _write(file, settings)
        yield file.fileno()


class LaterSettings:
    """The file for a child that is started before anybody knows its settings, and a pipe at which it waits for them."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._file = stack.enter_context(_nameless_file())
            self._waits_at, self._end = os.pipe()
            stack.pop_all()

    @property
    def inherited(self) -> tuple[int, int]:
        """What the child needs: the file, and its end of the pipe."""
        return self._file.fileno(), self._waits_at

    def give(self, settings: Sequence[str]) -> None:
        """The child goes on with these."""
        try:
            _write(self._file, settings)
        finally:
            self.close()

    def close(self) -> None:
        """A child that still waits finds nothing, and ends. Again is fine."""
        if self._end >= 0:
            self._file.close()
            os.close(self._waits_at)
            os.close(self._end)
            self._waits_at = self._end = -1


def wait_handed(descriptor: int | None) -> None:
    """Until the settings have been written by whoever started this process, or nobody will."""
    if descriptor is not None:
        with os.fdopen(descriptor, "rb") as pipe:
            pipe.read()


def _write(file: IO[bytes], settings: Sequence[str]) -> None:
    data = json.dumps(list(settings)).encode()
    if len(data) > MAX_BYTES:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            "no process was started with these settings",
            f"together they have {len(data):,} bytes, and {MAX_BYTES:,} are allowed",
            "write them into a file, and name it with --config",
        )
    file.write(data)
    file.flush()


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

"""A file that is being written within a budget.

Rules: it grows only into space that the budget has reserved for it, and asks for more in steps. It ends exactly once:
kept, when it moves to its final path, or abandoned, when it is deleted and its space given back. A write that fails has
already abandoned it. One thread at a time uses it. Nothing is flushed to the device: a file that has to survive a crash
is checked afterwards.
"""

import os
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from quarterdeck.stores.disk_full import DiskFullError, is_full, ran_out
from quarterdeck.stores.limits import Owner
from quarterdeck.stores.shelf import Pin

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from quarterdeck.stores.disk import DiskBudget

PART_SUFFIX: Final = ".part"
"""The ending of a file that is not whole. A file with this ending at the start of a process was left by a crash."""

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class _State(StrEnum):
    OPEN = "open"
    CLOSED = "closed"
    KEPT = "kept"
    ABANDONED = "abandoned"


class GrowingFile:
    """A binary file object that can only be appended to; pyarrow writes to it.

    Keep it or abandon it: until then it holds its space and its descriptor. As a context manager it abandons what was
    not kept.
    """

    mode: Final = "wb"

    def __init__(self, budget: "DiskBudget", owner: Owner, key: str, path: Path) -> None:
        self.owner: Final = owner
        self.key: Final = key
        self.size_bytes = 0
        self.reserved_bytes = 0
        """Written by the budget alone, under its lock."""
        self._final_path: Final = path
        self._part: Final = f"{path}{PART_SUFFIX}"
        self._budget: Final = budget
        self._failure: DiskFullError | None = None
        self._state = _State.CLOSED
        self._descriptor = -1

    @property
    def path(self) -> Path:
        """The part file."""
        return Path(self._part)

    def open(self) -> None:
        """Creates the file; the budget does this."""
        try:
            self._descriptor = os.open(self._part, _NEW_FILE, 0o644)
        except OSError as error:
            if is_full(error):
                raise ran_out(self.owner, self.key, self._part, 0, error) from error
            raise
        self._state = _State.OPEN

    # A file object

    def write(self, data: "Buffer") -> int:
        """Writes all of it, or raises; a disk that is full raises `DiskFullError`, and then every time."""
        if self._failure is not None:
            raise self._failure
        if self._state is not _State.OPEN:
            raise ValueError(f"{self.key} is {self._state}: it cannot be written to")
        view = memoryview(data)
        size_bytes = view.nbytes
        if not size_bytes:
            return 0
        try:
            missing_bytes = self.size_bytes + size_bytes - self.reserved_bytes
            if missing_bytes > 0:
                self._budget.reserve(self, missing_bytes)
            self._write_all(view.cast("B"))
        except BaseException as error:
            self._give_up(error)
            raise
        return size_bytes

    def _write_all(self, view: memoryview) -> None:
        while view:
            written_bytes = os.write(self._descriptor, view)
            if not written_bytes:
                raise ran_out(self.owner, self.key, self._part, self.size_bytes, OSError("short write"))
            self.size_bytes += written_bytes
            view = view[written_bytes:]

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        """Nothing is buffered here."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return self._state is not _State.OPEN

    def close(self) -> None:
        """No more is written; again is fine. It still is to be kept or abandoned."""
        if self._state is not _State.OPEN:
            return
        self._state = _State.CLOSED
        try:
            os.close(self._descriptor)  # some file systems tell only now that they are full
        except BaseException as error:
            self._give_up(error)
            raise

    # Its end

    def keep(self, path: Path | None = None) -> None:
        """Moves it to its final path, or to `path` when that could only be known at the end; it is an entry now."""
        self._budget.settle(self, self._move(path))

    def keep_pinned(self, path: Path | None = None) -> Pin:
        """As `keep`, and it is not evicted before the pin is released."""
        return self._budget.settle_pinned(self, self._move(path))

    def _move(self, path: Path | None) -> Path:
        if self._failure is not None:
            raise self._failure
        if self._state in (_State.KEPT, _State.ABANDONED):
            raise ValueError(f"{self.key} is {self._state} already")
        self.close()
        final_path = path or self._final_path
        try:
            os.rename(self._part, final_path)  # noqa: PTH104 - every path object costs as much as a system call
        except BaseException as error:
            self._give_up(error)
            raise
        self._state = _State.KEPT
        return final_path

    def abandon(self) -> None:
        """Deletes it; again is fine, and so is abandoning what was kept: that stays."""
        if self._state in (_State.KEPT, _State.ABANDONED):
            return
        was_open = self._state is _State.OPEN
        self._state = _State.ABANDONED
        try:
            if was_open:
                os.close(self._descriptor)
        except OSError:
            pass  # that the last bytes did not reach a file which is deleted is nobody's loss
        finally:
            self._budget.discard(self, self._part)

    def _give_up(self, error: BaseException) -> None:
        """Abandons the file. From now on a full disk is reported as one."""
        self.abandon()
        if isinstance(error, DiskFullError):
            self._failure = error
        elif isinstance(error, OSError) and is_full(error):
            self._failure = ran_out(self.owner, self.key, self._part, self.size_bytes, error)
            raise self._failure from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.abandon()

"""The rows of a chunk's answer until they are gathered: in memory up to a limit, in a file beyond it.

However much a chunk finds, its rows take no more memory than that, plus one frame while they are read.
"""

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.ports import RecordBatch
from quarterdeck.search.row_payloads import is_whole, read_rows
from quarterdeck.stores.disk import DiskBudget, DiskFullError, Owner, Room
from quarterdeck.stores.disk_full import room_of
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.threads import in_thread

_IN_THREAD_BYTES: Final = 64 * 1024
"""Rows beyond this are looked at in a thread: unpacked they are up to 255 times as large, and take milliseconds."""


class NoRoomError(QuarterdeckError):
    """Where the answers are gathered. No file and no worker is to blame."""


@dataclass(frozen=True, slots=True)
class RowLimits:
    """Of one answer."""

    folder: Path | None = None
    """Where files are; None is the system's folder for temporary ones."""
    memory_bytes: int = 8 * MIB
    disk_bytes: int = 1024**4
    disk: DiskBudget | None = None
    """Counts the files; without one, only the file system has a limit."""


class StoredRows:
    """Add all, then iterate as often as you like, in any thread. Its file has no name and goes with it."""

    def __init__(self, limits: RowLimits, check: Callable[[bytes], None] | None = None) -> None:
        """`check` sees each payload that somebody else sent before it is kept, in a thread if it is large: what it
        raises is raised."""
        self._limits = limits
        self._check = check
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._file: int | None = None
        self._room: Room | None = None
        self._lengths: list[int] = []
        """Of what is in the file."""
        self._file_bytes = 0

    @property
    def memory_bytes(self) -> int:
        return self._held_bytes

    @property
    def disk_bytes(self) -> int:
        return self._file_bytes

    async def add(self, payload: bytes) -> None:
        """One of `row_payloads`. Raises what the check raises, and `NoRoomError`."""
        if len(payload) < _IN_THREAD_BYTES and self._held_bytes + len(payload) <= self._limits.memory_bytes:
            self._add(payload)
        else:
            await in_thread(lambda: self._add(payload))

    def __iter__(self) -> Iterator[RecordBatch]:
        place = 0
        for length in self._lengths:
            assert self._file is not None
            payload = os.pread(self._file, length, place)
            if not is_whole(payload):
                raise _damaged()
            place += length
            yield from read_rows(payload)
        for payload in self._held:
            yield from read_rows(payload)

    def _add(self, payload: bytes) -> None:
        if self._check is not None:
            self._check(payload)  # now the worker can be blamed, and another asked
        self._held.append(payload)
        self._held_bytes += len(payload)
        if self._held_bytes > self._limits.memory_bytes:
            self._write()

    def _write(self) -> None:
        if self._file_bytes + self._held_bytes > self._limits.disk_bytes:
            raise no_room(
                f"its rows take more than the {self._limits.disk_bytes:,} bytes of disk that a search may use"
            )
        try:
            if self._file is None:
                self._file = _nameless_file(self._limits.folder)
                if self._limits.disk is not None:
                    self._room = self._limits.disk.room(Owner.TEMPORARY, "with the rows of a search")
                weakref.finalize(self, _remove, self._file, self._room)
            if self._room is not None:
                self._room.take(self._held_bytes)
            for payload in self._held:
                _write_all(self._file, payload, self._file_bytes)
                self._lengths.append(len(payload))
                self._file_bytes += len(payload)
            if self._room is not None:
                self._room.size_bytes = self._file_bytes
        except DiskFullError as error:
            raise no_room(error.why) from error
        except OSError as error:
            folder = self._limits.folder or tempfile.gettempdir()
            raise no_room(f"a temporary file could not be written: {error}; {room_of(folder)}") from error
        self._held, self._held_bytes = [], 0


def memory_bytes_of(batches: Iterable[RecordBatch]) -> int:
    """What the rows of an answer take in memory."""
    return batches.memory_bytes if isinstance(batches, StoredRows) else sum(batch.nbytes for batch in batches)


def disk_bytes_of(batches: Iterable[RecordBatch]) -> int:
    return batches.disk_bytes if isinstance(batches, StoredRows) else 0


def no_room(why: str) -> NoRoomError:
    return NoRoomError(
        ErrorCode.RESOURCE_EXHAUSTED,
        "there is no room for what the search found",
        why,
        "search for less, add `| head`, summarize, give searches more disk, or ask for rows in no order",
        retryable=False,  # it would find the same again
    )


def _damaged() -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INTERNAL,
        "what the search found cannot be read",
        "a temporary file does not hold what was written to it",
        "look at the disk, and search again",
    )


def _nameless_file(folder: Path | None) -> int:
    descriptor, path = tempfile.mkstemp(prefix="answer-", dir=folder)
    Path(path).unlink()
    return descriptor


def _remove(descriptor: int, room: Room | None) -> None:
    """A file without a name goes when it is closed."""
    os.close(descriptor)
    if room is not None:
        room.give_back()


def _write_all(descriptor: int, payload: bytes, place: int) -> None:
    view = memoryview(payload)
    while view:
        written = os.pwrite(descriptor, view, place)
        view, place = view[written:], place + written

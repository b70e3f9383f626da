"""The answers of chunks, until they are put together: in memory, and in files beyond a limit.

Chunks come in any order, and each is read by its number. For one thread at a time.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.search.stored_rows import disk_bytes_of, memory_bytes_of, no_room
from quarterdeck.stores.disk import DiskBudget, DiskFullError, Owner, Pin, Room
from quarterdeck.stores.disk_full import room_of

_arrow: Final[Any] = pyarrow

RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""


_SORTING_BYTES: Final = 256 * 1024**2
"""To sort few rows, which may become many: a stage can make a row of every value of a list."""
_UNPACKED: Final = 64
"""Rows that are sorted take more than rows that are kept, which are compressed. Logs become 3 to 20 times as large, and
are written up to twice."""


class Spool:
    """What it writes is in a folder of its own within the one it is given, which goes when it is closed. The
    budget counts it."""

    def __init__(self, folder: Path, schema: Schema, *, memory_bytes: int, disk_bytes: int, disk: DiskBudget) -> None:
        self._parent = folder
        self._disk = disk
        self._sorting: Room | None = None
        self._folder: Path | None = None
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._disk_bytes = disk_bytes
        self._held: dict[int, Iterable[RecordBatch]] = {}
        self._held_bytes = 0
        self._files: dict[int, Pin] = {}
        self._file_bytes = 0

    @property
    def folder(self) -> Path:
        """Made when it is first needed."""
        if self._folder is None:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(mkdtemp(prefix="search-", dir=self._parent))
        return self._folder

    def take_room_to_sort(self) -> int:
        """So many bytes may be written to `folder` by somebody else, who puts the rows together: what that may need, as
        far as there is room for it."""
        wished_bytes = _SORTING_BYTES + _UNPACKED * (self._held_bytes + self._file_bytes)
        self._sorting = self._sorting or self._disk.room(Owner.TEMPORARY, "to sort a search")
        return self._sorting.take_up_to(min(wished_bytes, max(0, self._disk_bytes - self._file_bytes)))

    @property
    def chunks(self) -> list[int]:
        """In their order."""
        return sorted([*self._held, *self._files])

    def __contains__(self, chunk: int) -> bool:
        return chunk in self._held or chunk in self._files

    def add(self, chunk: int, batches: Iterable[RecordBatch]) -> None:
        self._held[chunk] = batches
        self._held_bytes += memory_bytes_of(batches)
        self._file_bytes += disk_bytes_of(batches)
        if self._held_bytes > self._memory_bytes:
            for held in [number for number, rows in self._held.items() if memory_bytes_of(rows)]:
                self._write(held)
        if self._file_bytes > self._disk_bytes:
            raise no_room(f"its rows take more than the {self._disk_bytes:,} bytes of disk that a search may use")

    def batches(self, chunk: int) -> Iterator[RecordBatch]:
        if chunk in self._held:
            yield from self._held[chunk]
            return
        with _arrow.OSFile(str(self._files[chunk].path)) as file, _arrow.ipc.open_stream(file) as reader:
            yield from reader

    def drop(self, chunk: int) -> None:
        """It is not needed any more."""
        if chunk in self._held:
            self._forget(chunk)
            return
        pin = self._files.pop(chunk)
        self._file_bytes -= pin.path.stat().st_size
        self._delete(pin)

    def close(self) -> None:
        """Again is fine."""
        self._held.clear()
        while self._files:
            self._delete(self._files.popitem()[1])
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._sorting is not None:
            self._sorting.give_back()
            self._sorting = None

    def _write(self, chunk: int) -> None:
        options = _arrow.ipc.IpcWriteOptions(compression="lz4")
        try:
            path = self.folder / f"{chunk}.arrow"
            with self._disk.create(Owner.TEMPORARY, str(path), path) as file:
                with _arrow.ipc.new_stream(file, self._schema, options=options) as writer:
                    for batch in self._held[chunk]:
                        writer.write_batch(batch)
                pin = file.keep_pinned()
        except DiskFullError as error:
            raise no_room(error.why) from error
        except OSError as error:
            raise no_room(f"a file in {self._parent} could not be written: {error}; {room_of(self._parent)}") from error
        self._file_bytes += path.stat().st_size
        self._forget(chunk)
        self._files[chunk] = pin

    def _delete(self, pin: Pin) -> None:
        self._disk.remove(str(pin.path))
        pin.release()

    def _forget(self, chunk: int) -> None:
        batches = self._held.pop(chunk)
        self._held_bytes -= memory_bytes_of(batches)
        self._file_bytes -= disk_bytes_of(batches)

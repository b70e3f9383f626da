"""The answers of chunks, until they are put together: in memory, and in files beyond a limit.

Chunks come in any order, and each is read by its number. For one thread at a time.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.search.stored_rows import disk_bytes_of, memory_bytes_of, no_room
from quarterdeck.stores.disk_full import room_of

_arrow: Final[Any] = pyarrow

RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""


class Spool:
    """What it writes is in a folder of its own within the one it is given, which goes when it is closed."""

    def __init__(self, folder: Path, schema: Schema, *, memory_bytes: int, disk_bytes: int) -> None:
        self._parent = folder
        self._folder: Path | None = None
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._disk_bytes = disk_bytes
        self._held: dict[int, Iterable[RecordBatch]] = {}
        self._held_bytes = 0
        self._files: dict[int, Path] = {}
        self._file_bytes = 0

    @property
    def folder(self) -> Path:
        """Made when it is first needed."""
        if self._folder is None:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(mkdtemp(prefix="search-", dir=self._parent))
        return self._folder

    @property
    def left_disk_bytes(self) -> int:
        return max(0, self._disk_bytes - self._file_bytes)

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
        with _arrow.OSFile(str(self._files[chunk])) as file, _arrow.ipc.open_stream(file) as reader:
            yield from reader

    def drop(self, chunk: int) -> None:
        """It is not needed any more."""
        if chunk in self._held:
            self._forget(chunk)
            return
        path = self._files.pop(chunk)
        self._file_bytes -= path.stat().st_size
        path.unlink()

    def close(self) -> None:
        """Again is fine."""
        self._held.clear()
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _write(self, chunk: int) -> None:
        path = self.folder / f"{chunk}.arrow"
        options = _arrow.ipc.IpcWriteOptions(compression="lz4")
        try:
            with (
                _arrow.OSFile(str(path), "wb") as file,
                _arrow.ipc.new_stream(file, self._schema, options=options) as writer,
            ):
                for batch in self._held[chunk]:
                    writer.write_batch(batch)
        except OSError as error:
            raise no_room(
                f"a file in {self._parent} could not be written: {error}; {room_of(self._parent or gettempdir())}"
            ) from error
        self._file_bytes += path.stat().st_size
        self._forget(chunk)
        self._files[chunk] = path

    def _forget(self, chunk: int) -> None:
        batches = self._held.pop(chunk)
        self._held_bytes -= memory_bytes_of(batches)
        self._file_bytes -= disk_bytes_of(batches)

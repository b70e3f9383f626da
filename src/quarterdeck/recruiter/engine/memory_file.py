"""A file in memory, which DuckDB can open by its path, as it cannot read a part of a file. It is written again and
again: its pages are kept, which halves what the writing costs."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final

_STEP_BYTES: Final = 1024**2


class MemoryFile:
    """For one thread at a time."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create("quarterdeck")
            path, self._on_disk = f"/proc/self/fd/{self._descriptor}", False
        else:  # a system that has none: the next best is a file that is seldom written to disk
            self._descriptor, path = tempfile.mkstemp()
            self._on_disk = True
        self.path: Final = path

    def __enter__(self) -> "MemoryFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def hold(self, parts: Iterable[bytes | memoryview]) -> None:
        """These bytes, and no others."""
        length = 0
        for part in parts:
            length += self._write(memoryview(part), length)
        os.ftruncate(self._descriptor, length)

    def hold_part_of(self, descriptor: int, start: int, end: int) -> None:
        """The bytes of a file from `start` to before `end`. Raises `EOFError` if it does not have them."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        place = start
        while place < end:
            count = self._copy(descriptor, place, end - place)
            if not count:
                raise EOFError
            place += count
        os.ftruncate(self._descriptor, end - start)

    def close(self) -> None:
        os.close(self._descriptor)
        if self._on_disk:
            Path(self.path).unlink()

    def _copy(self, descriptor: int, place: int, length: int) -> int:
        """Copies some of the bytes of a file to where this one is being written."""
        if not self._on_disk:
            return os.sendfile(self._descriptor, descriptor, place, length)
        return os.write(self._descriptor, os.pread(descriptor, min(_STEP_BYTES, length), place))

    def _write(self, part: memoryview, place: int) -> int:
        written = 0
        while written < len(part):
            written += os.pwrite(self._descriptor, part[written:], place + written)
        return len(part)

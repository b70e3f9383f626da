"""Lines in memory, of one file or of several, as the scanner wants them.

The memory is kept and written again and again: new pages cost as much as what is copied into them. Bytes of a file are
put as far from the start of a page as they are in the file: some processors copy three times as slowly to places that
are a few bytes further from it.
"""

import mmap
import os
from typing import Final

import numpy
from numpy.typing import NDArray

from quarterdeck.search.engine.line_call import MARGIN_BYTES

_LINE_END: Final = 0x0A
_ROUND_BYTES: Final = 1024**2


class LineBuffer:
    """For one thread at a time. What was made of its bytes must not be used any more when others are put into it."""

    def __init__(self) -> None:
        self.parts: Final[list[tuple[int, int]]] = []
        """Where the lines of each file begin and end."""
        self._view = memoryview(b"")
        self._room: NDArray[numpy.uint8] = numpy.empty(0, numpy.uint8)
        self._length = 0

    @property
    def room(self) -> NDArray[numpy.uint8]:
        """What the parts are parts of, with some bytes after the last."""
        return self._room

    def clear(self) -> None:
        self.parts.clear()
        self._length = 0

    def hold(self, lines: bytes | memoryview) -> None:
        """These lines, and no others."""
        self.clear()
        self.add(lines)

    def add(self, lines: bytes | memoryview) -> None:
        """The lines of one more file."""
        start, end = self._place_for(len(lines), 0)
        self._view[start:end] = lines
        self._added(start, end)

    def hold_part_of(self, descriptor: int, start: int, end: int) -> None:
        """The bytes of a file from `start` to before `end`, and no others. Raises `EOFError` if it does not have
        them."""
        self.clear()
        self.add_part_of(descriptor, start, end)

    def add_part_of(self, descriptor: int, start: int, end: int) -> None:
        """The same, as the lines of one more file."""
        place, last = self._place_for(end - start, start)
        first = place
        while place < last:
            count = os.preadv(descriptor, [self._view[place:last]], start + place - first)
            if not count:
                raise EOFError
            place += count
        self._added(first, last)

    def _place_for(self, length: int, place_in_file: int) -> tuple[int, int]:
        """Where to put so many bytes."""
        assert length >= 0
        start = self._length + (place_in_file - self._length) % mmap.PAGESIZE
        needed = start + length + MARGIN_BYTES
        if needed > len(self._room):
            pages = mmap.mmap(-1, -(-needed // _ROUND_BYTES) * _ROUND_BYTES)
            pages[: self._length] = self._view[: self._length]
            self._view, self._room = memoryview(pages), numpy.frombuffer(pages, numpy.uint8)
        return start, start + length

    def _added(self, start: int, end: int) -> None:
        self._view[end] = _LINE_END
        self.parts.append((start, end))
        self._length = end + 1

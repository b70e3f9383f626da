"""Lines in memory, of one file or of several, as the scanner wants them. The memory is kept and written again and
again: new pages cost as much as what is copied into them."""

import os
from typing import Any, Final

import numpy
from numpy.typing import NDArray

from quarterdeck.recruiter.engine.line_call import MARGIN_BYTES

_LINE_END: Final = 0x0A
_ROUND_BYTES: Final = 1024**2


class LineBuffer:
    """For one thread at a time. What was made of its bytes must not be used any more when others are put into it."""

    def __init__(self) -> None:
        self.parts: Final[list[tuple[int, int]]] = []
        """Where the lines of each file begin and end."""
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
        self._more(len(lines))[:] = lines
        self._added(len(lines))

    def hold_part_of(self, descriptor: int, start: int, end: int) -> None:
        """The bytes of a file from `start` to before `end`, and no others. Raises `EOFError` if it does not have
        them."""
        self.clear()
        self.add_part_of(descriptor, start, end)

    def add_part_of(self, descriptor: int, start: int, end: int) -> None:
        """The same, as the lines of one more file."""
        view = self._more(end - start)
        place = 0
        while place < len(view):
            count = os.preadv(descriptor, [view[place:]], start + place)
            if not count:
                raise EOFError
            place += count
        self._added(len(view))

    def _more(self, length: int) -> memoryview:
        """Room for so many bytes after what there is."""
        needed = self._length + length + MARGIN_BYTES
        if needed > len(self._room):
            room = numpy.empty(-(-needed // _ROUND_BYTES) * _ROUND_BYTES, numpy.uint8)
            room[: self._length] = self._room[: self._length]
            self._room = room
        view: Any = memoryview(self._room)
        return view[self._length : self._length + length]

    def _added(self, length: int) -> None:
        start, end = self._length, self._length + length
        self._room[end] = _LINE_END
        self.parts.append((start, end))
        self._length = end + 1

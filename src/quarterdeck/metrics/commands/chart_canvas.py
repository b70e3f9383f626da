"""A surface of dots, two across and four down in each character of a terminal, made of Unicode's Braille signs.

Each character has one ink: that of the last dot in it that was lit. The canvas knows no values and no colours.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

DOTS_ACROSS: Final = 2
DOTS_DOWN: Final = 4
LEAST_COLUMNS: Final = 20
"""A chart that is narrower shows nothing."""
_FIRST_SIGN: Final = 0x2800
_MARGIN: Final = 8
"""What the labels of values take, mostly."""
_BITS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""By column and row within a character; the lowest row was added to the signs later."""
_SPANS: Final = tuple(
    tuple(tuple(sum(side[low : high + 1]) for high in range(DOTS_DOWN)) for low in range(DOTS_DOWN)) for side in _BITS
)
"""By column, first and last row: all dots between."""


class BrailleCanvas:
    def __init__(self, columns: int, rows: int) -> None:
        self.width: Final = columns * DOTS_ACROSS
        self.height: Final = rows * DOTS_DOWN
        self._columns = columns
        self._lit = [bytearray(columns) for _ in range(rows)]
        self._inks = [[-1] * columns for _ in range(rows)]

    def dot(self, x: int, y: int, ink: int) -> None:
        """Lights one; y goes down from the top. What is outside is left out."""
        if 0 <= x < self.width and 0 <= y < self.height:
            column, row = x // DOTS_ACROSS, y // DOTS_DOWN
            self._lit[row][column] |= _BITS[x % DOTS_ACROSS][y % DOTS_DOWN]
            self._inks[row][column] = ink

    def line(self, x: int, y: int, to_x: int, to_y: int, ink: int) -> None:
        """Lights both ends and the dots nearest to the line between."""
        across, down = to_x - x, to_y - y
        if abs(across) >= abs(down):
            for step in range(abs(across) + 1):
                share = step / abs(across) if across else 0.0
                self.dot(x + round(across * share), y + round(down * share), ink)
            return
        columns, side, way = abs(across), 1 if across > 0 else -1, 1 if down > 0 else -1
        first = y
        for step in range(columns + 1):
            last = y + round(down * (step + 0.5) / columns) if step < columns else to_y
            self._column(x + side * step, min(first, last), max(first, last), ink)
            first = last + way

    def _column(self, x: int, top: int, bottom: int, ink: int) -> None:
        """Lights all from top to bottom, by whole characters: most of a restless line is this."""
        top, bottom = max(0, top), min(self.height - 1, bottom)
        if not 0 <= x < self.width or top > bottom:
            return
        column, bits = x // DOTS_ACROSS, _SPANS[x % DOTS_ACROSS]
        first, last = top // DOTS_DOWN, bottom // DOTS_DOWN
        for row in range(first, last + 1):
            low = top % DOTS_DOWN if row == first else 0
            high = bottom % DOTS_DOWN if row == last else DOTS_DOWN - 1
            self._lit[row][column] |= bits[low][high]
            self._inks[row][column] = ink

    def runs(self, row: int) -> Iterator[tuple[str, int]]:
        """One row as text, divided where the ink changes; what is empty is a space without ink."""
        signs = zip(self._lit[row], self._inks[row], strict=True)
        for ink, cells in groupby(signs, key=lambda cell: cell[1]):
            yield "".join(chr(_FIRST_SIGN + lit) if lit else " " for lit, _ in cells), ink


def dots_within(width: int) -> int:
    """About how many samples have room beside one another in a chart so many characters wide."""
    return max(LEAST_COLUMNS, width - _MARGIN) * DOTS_ACROSS

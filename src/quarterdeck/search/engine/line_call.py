"""What the compiled reading of lines is given and gives back: an array of integers, most of them addresses."""

from enum import IntEnum
from typing import Final

DEEPEST: Final = 64 * 1024
"""So many lists and objects may be within one another."""
MARGIN_BYTES: Final = 64
"""Readable beyond the end of the lines and of the keys."""


class Call(IntEnum):
    """Where in the array which of them is."""

    BASE = 0
    """Of the bytes; all places are counted from here."""
    END = 1
    PLACE = 2
    """Where to begin, and afterwards where it ended."""
    KEYS = 3
    """The keys, one after the other, in UTF-8."""
    KEY_ENDS = 4
    """Where each ends."""
    KEY_COUNT = 5
    ROOM = 6
    """For so many rows; a multiple of 8."""
    ROWS = 7
    """How many there are."""
    LINES = 8
    """Views, as Arrow has them."""
    BAD = 9
    """How many lines are no objects, and have no row."""
    VIEWS = 10
    """Of values, for each key `ROOM` of them."""
    THERE = 11
    """Bits: whether it is there and not null."""
    KINDS = 12
    """Bytes: `ValueKind`."""
    STACK = 13
    """`DEEPEST` bytes."""


class ValueKind(IntEnum):
    """Of a value, as it stands in its line. From `REAL` on there are several ways to write the same."""

    ABSENT = 0
    NULL = 1
    INTEGER = 2
    BOOLEAN = 3
    STRING = 4
    """Without escapes."""
    REAL = 5
    """With a point or an exponent; or -0."""
    ESCAPED = 6
    """A string with escapes."""
    NESTED = 7
    """An object or a list."""

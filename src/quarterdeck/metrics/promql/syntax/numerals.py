"""Numbers as text, as Go reads them; `floats` prints them.

A number that starts with 0 is octal if it can be; underscores stand between digits or after `0x`.
"""

import math
import re

_HEX = re.compile(r"0[xX](?:_?[0-9a-fA-F])+")
_OCTAL = re.compile(r"0(?:_?[0-7])+")
_DECIMAL = re.compile(r"[0-9](?:_?[0-9])*")
_FLOAT = re.compile(r"(?:[0-9](?:_?[0-9])*)?\.?(?:[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9](?:_?[0-9])*)?")
_MAX_INT = 2**63 - 1


def parse_number(text: str) -> float:
    """A number without sign; ValueError, in Go's words, when it is none.

    >>> parse_number("0755"), parse_number("0x1F"), parse_number("1_000.5"), parse_number("inf")
    (493.0, 31.0, 1000.5, inf)
    """
    if text.lower() == "nan":
        return math.nan  # the one object, so that trees that hold it are equal
    if text.lower() == "inf":
        return math.inf
    digits = text.replace("_", "")
    for written, base in ((_HEX, 16), (_OCTAL, 8), (_DECIMAL, 10)):
        # A longer one does not fit 64 bits, and reading it whole would cost time that grows with its square.
        if written.fullmatch(text) and len(digits) <= 25:
            whole = int(digits, base)
            if whole <= _MAX_INT:
                return float(whole)
    if not _FLOAT.fullmatch(text) or not any(char.isdigit() for char in text.lower().partition("e")[0]):
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax')
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": value out of range')
    return value

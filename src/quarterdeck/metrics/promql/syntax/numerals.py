"""Numbers as text, as Go reads and prints them.

A number that starts with 0 is octal if it can be; underscores stand between digits or after `0x`.
"""

import math
import re
from decimal import Decimal

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


def show_number(value: float) -> str:
    """A number without exponent, with as many digits as tell it from its neighbours.

    >>> show_number(1e21), show_number(-0.5), show_number(float("inf"))
    ('1000000000000000000000', '-0.5', '+Inf')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def show_shortest(value: float) -> str:
    """A number as Go's `%v` prints it: with an exponent when it has more than six digits before the point.

    >>> show_shortest(123456.5), show_shortest(1e6), show_shortest(-2.5e-7)
    ('123456.5', '1e+06', '-2.5e-07')
    """
    if value == 0 or not math.isfinite(value) or 1e-4 <= abs(value) < 1e6:
        return show_number(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent):+03d}"

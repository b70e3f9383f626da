"""Numbers with SI prefixes, short enough for an axis or a legend; sizes of files and memory."""

import math
from decimal import Decimal
from typing import Final

_PREFIXES: Final = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def short_number(value: float, digits: int = 4) -> str:
    """A few digits and a prefix.

    >>> [short_number(value) for value in (0, 1234567, 0.00125, -2e-7, 999.99, 1e-30, float("nan"), float("-inf"))]
    ['0', '1.235M', '1.25m', '-200n', '1k', '1e-30', 'NaN', '-Inf']
    >>> short_number(0.0625)
    '0.0625'
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    short = Decimal(f"{value:.{digits}g}")
    return exact_number(short, short)


def exact_number(value: Decimal, like: Decimal) -> str:
    """All its digits, with the prefix that suits another one: those of an axis have the same.

    >>> [exact_number(Decimal(value), Decimal(1500)) for value in (0, 500, 1500)]
    ['0', '0.5k', '1.5k']
    >>> exact_number(Decimal("1000002.5"), Decimal(2000000))
    '1.0000025M'
    """
    if not value:
        return "0"
    exponent = _prefix_exponent(like)
    prefix = _PREFIXES.get(exponent)
    if prefix is None:
        return f"{value.normalize():e}".replace("e+", "e")
    return f"{value.scaleb(-exponent).normalize():f}{prefix}"


def _prefix_exponent(value: Decimal) -> int:
    """Hundredths have none: 0.05 is easier than 50m."""
    size = value.adjusted() if value else 0
    return 0 if -2 <= size < 0 else size // 3 * 3


def short_share(done_bytes: float, total_bytes: float) -> str:
    """
    >>> short_share(1.2e9, 3.2e9), short_share(5e6, 3.2e9)
    ('1.2 of 3.2 GB', '5 MB of 3.2 GB')
    """
    done, total = short_bytes(done_bytes), short_bytes(total_bytes)
    same = done.split(" ")[1] == total.split(" ")[1]
    return f"{done.split(' ')[0] if same else done} of {total}"


def short_bytes(size_bytes: float) -> str:
    """
    >>> [short_bytes(size) for size in (0, 999, 1234567, 3.2e9)]
    ['0 B', '999 B', '1.23 MB', '3.2 GB']
    """
    number = short_number(size_bytes, 3)
    prefix = number[-1] if number[-1].isalpha() else ""
    return f"{number.removesuffix(prefix)} {prefix}B"


def shown_size(size_bytes: float) -> str:
    """In the unit that keeps it short.

    >>> shown_size(0), shown_size(1023), shown_size(1536), shown_size(20 * 1024**3)
    ('0 B', '1023 B', '1.5 KiB', '20.0 GiB')
    """
    unit = _UNITS[0]
    for unit in _UNITS:
        if size_bytes < 1024 or unit == _UNITS[-1]:
            break
        size_bytes /= 1024
    return f"{size_bytes:.0f} {unit}" if unit == _UNITS[0] else f"{size_bytes:.1f} {unit}"

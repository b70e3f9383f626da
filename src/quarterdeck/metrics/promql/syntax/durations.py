"""Lengths of time as Prometheus writes them: `1h30m`, units from large to small, each at most once.

A year is 365 days, a week seven. All lengths are whole milliseconds, and a length fits into 63 bits of nanoseconds.
"""

import re

from quarterdeck.core.time_texts import UNITS_US
from quarterdeck.metrics.promql.syntax.quoting import quote

UNITS_MS = {unit: unit_us // 1_000 for unit, unit_us in UNITS_US.items() if unit_us >= 1_000}
MAX_MS = (2**63 - 1) // 1_000_000
"""The longest length: Go holds it as nanoseconds in 64 bits."""

_PART = re.compile(r"([0-9]+)([^0-9]+)")
_RANKS = {unit: rank for rank, unit in enumerate(UNITS_MS)}
_ONLY_WHOLE = ("y", "w")
"""Units that are printed only when nothing is left over."""


def parse_duration_ms(text: str) -> int:
    """A written length in milliseconds; ValueError, in Prometheus' words, when it is none.

    >>> parse_duration_ms("1h30m")
    5400000
    """
    if text == "0":  # the one length that needs no unit
        return 0
    if not text:
        raise ValueError("empty duration string")
    total, position, rank = 0, 0, -1
    while position < len(text):
        part = _PART.match(text, position)
        # A number that does not fit into 64 bits is none, and reading a longer one would only cost time.
        if part is None or len(digits := part[1].lstrip("0")) > 20 or int(digits or "0") >= 2**64:
            raise ValueError(f"not a valid duration string: {quote(text)}")
        unit, position = part[2], part.end()
        if unit not in UNITS_MS:
            raise ValueError(f"unknown unit {quote(unit)} in duration {quote(text)}")
        if _RANKS[unit] <= rank:
            raise ValueError(f"not a valid duration string: {quote(text)}")
        rank = _RANKS[unit]
        total += int(digits or "0") * UNITS_MS[unit]
        if total > MAX_MS:
            raise ValueError("duration out of range")
    return total


def show_duration_ms(length_ms: int) -> str:
    """A length as Prometheus prints it; a negative one with a sign before it.

    >>> show_duration_ms(5_400_000)
    '1h30m'
    >>> show_duration_ms(-90 * 86_400_000)
    '-90d'
    """
    if length_ms < 0:
        return "-" + show_duration_ms(-length_ms)
    if length_ms == 0:
        return "0s"
    shown = ""
    for unit, unit_ms in UNITS_MS.items():
        if unit in _ONLY_WHOLE and length_ms % unit_ms:
            continue
        count, length_ms = divmod(length_ms, unit_ms)
        if count:
            shown += f"{count}{unit}"
    return shown

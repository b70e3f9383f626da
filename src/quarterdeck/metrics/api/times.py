"""Times and lengths of time as clients of Prometheus write them, in milliseconds.

A time is a number of seconds since 1970 or RFC 3339 (`2015-07-01T20:10:51.781+02:00`); a length is a number of seconds
or a duration (`1h30m`). What is finer than a millisecond is rounded in numbers and cut off elsewhere, as Prometheus
does it. Numbers that do not fit are refused; Prometheus lets some of them overflow.

What Prometheus refuses may be a time as it is written elsewhere in Quarterdeck (`core/time_texts.py`), and means the
same here: `now-1h`, a date alone, a time without a zone.
"""

import math
from typing import Final

from quarterdeck.core.time_texts import calendar_us, parse_moment
from quarterdeck.metrics.promql.floats import parse_float
from quarterdeck.metrics.promql.syntax.durations import MAX_MS, parse_duration_ms
from quarterdeck.metrics.promql.syntax.quoting import quote

MIN_TIME_MS: Final = -(2**63 // 1000 - 62_135_596_801) * 1000
"""The first time that Prometheus knows: so far away that all arithmetic with it still fits."""
MAX_TIME_MS: Final = ((2**63 - 1) // 1000 - 62_135_596_801) * 1000 + 999

_BOUNDS: Final = {
    "-292273086-05-16T16:47:06Z": MIN_TIME_MS,
    "292277025-08-18T07:12:54.999999999Z": MAX_TIME_MS,
}
"""As Prometheus prints these two; no other year needs more than four digits."""


def parse_time_ms(text: str, now_ms: int | None = None) -> int:
    """A time; ValueError, in Prometheus' words, when it is none. Without `now_ms` none is counted from now.

    >>> parse_time_ms("1435781430.781"), parse_time_ms("2015-07-01T20:10:51.5+00:30")
    (1435781430781, 1435779651500)
    >>> parse_time_ms("now-1h30m", 10_000_000), parse_time_ms("2015-07-01")
    (4600000, 1435708800000)
    """
    if text in _BOUNDS:
        return _BOUNDS[text]
    number = parse_float(text)
    time_ms = _written_ms(text, now_ms) if number is None else _rounded_ms(number)
    if time_ms is None or not MIN_TIME_MS <= time_ms <= MAX_TIME_MS:
        raise ValueError(f"cannot parse {quote(text)} to a valid timestamp")
    return time_ms


def parse_length_ms(text: str) -> int:
    """A length of time, maybe a negative one; ValueError, in Prometheus' words, when it is none.

    >>> parse_length_ms("90"), parse_length_ms("1h30m"), parse_length_ms("-0.5")
    (90000, 5400000, -500)
    """
    number = parse_float(text)
    if number is not None and not math.isnan(number):
        if abs(number) * 1000 > MAX_MS:
            raise ValueError(f"cannot parse {quote(text)} to a valid duration. It overflows int64")
        nanoseconds = math.trunc(number * 1e9)  # as Prometheus has it: 33.3 s are 33,299 ms
        return int(math.copysign(abs(nanoseconds) // 1_000_000, nanoseconds))
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise ValueError(f"cannot parse {quote(text)} to a valid duration") from None


def _written_ms(text: str, now_ms: int | None) -> int | None:
    """What is no number. A date may be of the year 0, which only Prometheus has."""
    try:
        at_us = calendar_us(text)
        if at_us is None:
            moment = parse_moment(text)
            if moment.relative and now_ms is None:
                return None
            at_us = moment.since_1970_us((now_ms or 0) * 1_000)
    except ValueError:
        return None
    return at_us // 1_000


def _rounded_ms(seconds: float) -> int | None:
    """Halves go away from zero."""
    if not math.isfinite(seconds):
        return None
    fraction, whole = math.modf(seconds)
    return int(whole) * 1000 + int(math.copysign(math.floor(abs(fraction) * 1000 + 0.5), fraction))

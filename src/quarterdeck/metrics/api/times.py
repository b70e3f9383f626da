"""Times and lengths of time as clients of Prometheus write them, in milliseconds.

A time is a number of seconds since 1970 or RFC 3339 (`2015-07-01T20:10:51.781+02:00`); a length is a number of seconds
or a duration (`1h30m`). What is finer than a millisecond is rounded in numbers and cut off elsewhere, as Prometheus
does it. Numbers that do not fit are refused; Prometheus lets some of them overflow.
"""

import datetime
import math
import re
from typing import Final

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
_RFC_3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_YEARS: Final = 400
_DAYS: Final = 146_097
"""The calendar repeats after so many years and days; Python's has no year 0, and RFC 3339 has."""
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()


def parse_time_ms(text: str) -> int:
    """A time; ValueError, in Prometheus' words, when it is none.

    >>> parse_time_ms("1435781430.781"), parse_time_ms("2015-07-01T20:10:51.5+00:30")
    (1435781430781, 1435779651500)
    """
    if text in _BOUNDS:
        return _BOUNDS[text]
    number = parse_float(text)
    time_ms = rfc_3339_ms(text) if number is None else _rounded_ms(number)
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


def rfc_3339_ms(text: str) -> int | None:
    """A time of RFC 3339, or None if it is none.

    >>> rfc_3339_ms("1969-12-31T23:59:59.9999Z"), rfc_3339_ms("2015-02-29T00:00:00Z")
    (-1, None)
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    sign, zone_hours, zone_minutes = match.group(8, 9, 10)
    zone = 0 if sign is None else (int(zone_hours) * 60 + int(zone_minutes)) * (-1 if sign == "-" else 1)
    if hour > 23 or minute > 59 or second > 59 or (sign and (int(zone_hours) > 23 or int(zone_minutes) > 59)):
        return None
    try:
        days = datetime.date(year + _YEARS if year < _YEARS else year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    days -= _DAYS if year < _YEARS else 0
    seconds = ((days * 24 + hour) * 60 + minute - zone) * 60 + second
    return seconds * 1000 + int((match[7] or "")[:3].ljust(3, "0"))


def _rounded_ms(seconds: float) -> int | None:
    """Halves go away from zero."""
    if not math.isfinite(seconds):
        return None
    fraction, whole = math.modf(seconds)
    return int(whole) * 1000 + int(math.copysign(math.floor(abs(fraction) * 1000 + 0.5), fraction))

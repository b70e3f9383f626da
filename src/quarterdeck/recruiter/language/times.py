"""Moments as they are written: RFC 3339, seconds since 1970, or a length of time before or after now.

Without a zone it is UTC. Finer than microseconds is cut off.
"""

import re
from datetime import datetime, timedelta

from quarterdeck.recruiter.language.ast import NOWHERE, Span, TimePoint

UNITS_US = {
    "w": 7 * 86_400_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
MAX_SECONDS = 10**11
"""Plain numbers are below: those from here on are milliseconds, which nobody means to be the year 5138."""
MAX_LENGTH_US = 10_000 * 366 * UNITS_US["d"]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all of it is UTC, and differences are the same
_DATE = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:(?:[Tt]|\s+)(?P<time>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,40}))?\s*"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))?)?",
    re.ASCII,
)
_SECONDS = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,40}))?", re.ASCII)
_RELATIVE = re.compile(r"now(?:\s*([+-])\s*((?:\d{1,18}(?:us|ms|[smhdw]))+))?", re.ASCII)
_PART = re.compile(r"(\d+)([a-z]+)", re.ASCII)


def parse_time(text: str, span: Span = NOWHERE) -> TimePoint:
    """The moment that a text names; ValueError, which says why, when it names none.

    >>> parse_time("1970-01-01T01:00:00+01:00").at_us, parse_time("1.5").at_us
    (0, 1500000)
    >>> parse_time("now-1h30m") == TimePoint(-5_400_000_000, relative=True)
    True
    """
    if found := _RELATIVE.fullmatch(text):
        length_us = sum(int(count) * UNITS_US[unit] for count, unit in _PART.findall(found[2] or ""))
        if length_us > MAX_LENGTH_US:
            raise ValueError("it is more than 10,000 years away")
        return TimePoint(-length_us if found[1] == "-" else length_us, True, span)
    if found := _SECONDS.fullmatch(text):
        seconds = int(found[2])
        if seconds >= MAX_SECONDS:
            raise ValueError("so many seconds since 1970 are too far away")
        at_us = seconds * 1_000_000 + _microseconds(found[3])
        return TimePoint(-at_us if found[1] else at_us, False, span)
    if found := _DATE.fullmatch(text):
        return TimePoint(_date_us(found), False, span)
    raise ValueError("it is no time")


def _date_us(found: re.Match[str]) -> int:
    moment = datetime.fromisoformat(f"{found['day']}T{found['time'] or '00:00'}")
    at_us = (moment - _EPOCH) // timedelta(microseconds=1) + _microseconds(found["fraction"])
    if found["sign"]:
        hours, minutes = int(found["hours"]), int(found["minutes"])
        if hours > 23 or minutes > 59:
            raise ValueError("its offset from UTC is a day or longer")
        offset_us = hours * UNITS_US["h"] + minutes * UNITS_US["m"]
        at_us += offset_us if found["sign"] == "-" else -offset_us
    _to_date(at_us)
    return at_us


def _microseconds(fraction: str | None) -> int:
    return int(((fraction or "") + "000000")[:6])


def _to_date(at_us: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:
        raise ValueError("it is outside the years 1 to 9999") from None


def show_time(point: TimePoint) -> str:
    """A moment as `parse_time` reads it.

    >>> show_time(parse_time("2026-01-31")), show_time(parse_time("now-90m"))
    ('2026-01-31T00:00:00Z', 'now-1h30m')
    """
    if point.relative:
        return "now" + (("-" if point.at_us < 0 else "+") + _show_length(abs(point.at_us)) if point.at_us else "")
    try:
        return _to_date(point.at_us).isoformat() + "Z"
    except ValueError:
        seconds, rest_us = divmod(abs(point.at_us), 1_000_000)
        return f"{'-' if point.at_us < 0 else ''}{seconds}.{rest_us:06}"


def _show_length(length_us: int) -> str:
    shown = ""
    for unit, unit_us in UNITS_US.items():
        count, length_us = divmod(length_us, unit_us)
        shown += f"{count}{unit}" if count else ""
    return shown

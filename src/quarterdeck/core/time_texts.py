"""Time as people write it. One text has one meaning, on the command line, inside a search and over HTTP.

A time is one of

- `now`, or a length of time from it: `now-1h30m`, `now+5m`, and `-2h` for `now-2h`;
- a date, also with a time of day, as in RFC 3339: `2026-01-31`, `2026-01-31 12:30`, `2026-01-31T12:30:00.5+02:00`.
  Without a zone it is UTC, whatever the zone of the machine that reads it;
- seconds since 1970: `1769860800`, `1769860800.25`.

A length is written in the units of PromQL, from large to small and each at most once (`1h30m`), or in seconds (`0.5`).
Some ranges have another word beside `now` that a time may be counted from: `e-1h` in a stream. `counted_us` reads both.

This is the one place that reads such texts. The doors (options, the search language, bodies and parameters over HTTP)
only say where a text was wrong; those with Prometheus' own API and durations take what Prometheus takes as well.
Values in data are not read here but by the engines, all of which are told that a time without a zone is UTC.

Times are whole microseconds; what is finer is cut off. Who keeps time less finely cuts off or rounds after that.
"""

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

FORMS: Final = "2026-01-31, 2026-01-31T12:00:00Z, 1769860800 (seconds since 1970), now or now-1h30m"
"""For an error: how a time may be written."""
LENGTH_FORMS: Final = "30s, 5m or 1h30m"

_DAY_US: Final = 86_400_000_000
UNITS_US: Final = MappingProxyType(
    {
        "y": 365 * _DAY_US,
        "w": 7 * _DAY_US,
        "d": _DAY_US,
        "h": 3_600_000_000,
        "m": 60_000_000,
        "s": 1_000_000,
        "ms": 1_000,
        "us": 1,
    }
)
"""From large to small. PromQL knows all but the last, which times in logs need."""
MAX_SECONDS: Final = 10**11
"""Plain numbers are below: those from here on are milliseconds, which nobody means to be the year 5138."""
MAX_LENGTH_US: Final = 10_000 * 366 * _DAY_US
MIN_CALENDAR_US: Final = -62_135_596_800_000_000
"""The beginning of the year 1."""
MAX_CALENDAR_US: Final = 253_402_300_800_000_000 - 1
"""The end of the year 9999."""

_COUNTED: Final = re.compile(r"(?:\s*(?P<sign>[+-])\s*(?P<length>.+))?", re.ASCII)
_BEFORE: Final = re.compile(r"-(?P<length>[0-9]+[a-z].*)", re.ASCII)
_LENGTH: Final = re.compile("(?=[0-9])" + "".join(f"(?:([0-9]{{1,18}}){unit})?" for unit in UNITS_US), re.ASCII)
_NUMBER: Final = re.compile(r"(-?)([0-9]{1,18})(?:\.([0-9]*))?", re.ASCII)
_CALENDAR: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:(?:[Tt]|\s+)(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*"
    r"(?:(?P<zone>[Zz])|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?)?)?",
    re.ASCII,
)
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_TO_1970: Final = 719_468
"""From the first of March of the year 0, with which the count of days is easiest."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a text names: a time since 1970 in UTC, or, with `relative`, so much after now."""

    at_us: int
    relative: bool = False

    def since_1970_us(self, now_us: int) -> int:
        """
        >>> parse_moment("now-1s").since_1970_us(1_500_000), parse_moment("2").since_1970_us(1_500_000)
        (500000, 2000000)
        """
        return now_us + self.at_us if self.relative else self.at_us


def parse_moment(text: str) -> Moment:
    """The moment that a text names; ValueError, which says why, when it names none.

    >>> parse_moment("1970-01-01T01:00:00+01:00").at_us, parse_moment("1.5").at_us
    (0, 1500000)
    >>> parse_moment("-1h30m") == parse_moment("now - 1h30m") == Moment(-5_400_000_000, relative=True)
    True
    """
    if before := _BEFORE.fullmatch(text):
        return Moment(-_distance_us(before["length"]), relative=True)
    if (counted := counted_us(text, "now")) is not None:
        return Moment(counted, relative=True)
    if (at_us := _number_us(text)) is not None:
        if abs(at_us) >= MAX_SECONDS * 1_000_000:
            raise ValueError("so many seconds since 1970 are too far away")
        return Moment(at_us)
    if (at_us := calendar_us(text)) is not None:
        if not MIN_CALENDAR_US <= at_us <= MAX_CALENDAR_US:
            raise ValueError("it is outside the years 1 to 9999")
        return Moment(at_us)
    raise ValueError("it is not a time")


def counted_us(text: str, word: str) -> int | None:
    """How far a time is from the moment that the word names; None for a text that does not begin with the word, and
    ValueError, which says why, for what follows it and is no length.

    >>> counted_us("e - 1h", "e"), counted_us("now", "now"), counted_us("now-1h", "e")
    (-3600000000, 0, None)
    """
    if not text.startswith(word):
        return None
    found = _COUNTED.fullmatch(text, len(word))
    if found is None:
        return None
    distance_us = 0 if found["length"] is None else _distance_us(found["length"])
    return distance_us if found["sign"] == "+" else -distance_us


def parse_length_us(text: str) -> int:
    """A length of time, not below zero; ValueError, which says why, when it is none.

    >>> parse_length_us("1h30m"), parse_length_us("0.5"), parse_length_us("1d12h")
    (5400000000, 500000, 129600000000)
    """
    length_us = _length_us(text)
    if length_us is None:
        raise ValueError("it is not a length of time")
    if length_us > MAX_LENGTH_US:
        raise ValueError("it is more than 10,000 years")
    return length_us


def calendar_us(text: str) -> int | None:
    """What a date, also with a time of day, is since 1970; None when the text is not written like one, ValueError when
    it is and there is no such day or hour. Years are 0 to 9999.

    >>> calendar_us("1970-01-02"), calendar_us("1970-01-01T00:00:00.25-00:01"), calendar_us("now")
    (86400000000, 60250000, None)
    """
    found = _CALENDAR.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3, 4, 5, 6))
    for name, value, least, most in (
        ("month", month, 1, 12),
        ("day", day, 1, _days_of(year, month)),
        ("hour", hour, 0, 23),
        ("minute", minute, 0, 59),
        ("second", second, 0, 59),
    ):
        if not least <= value <= most:
            raise ValueError(f"{name} must be in {least}..{most}")
    minutes = (_days_since_1970(year, month, day) * 24 + hour) * 60 + minute - _offset_minutes(found)
    return (minutes * 60 + second) * 1_000_000 + _microseconds(found[7])


def show_moment(moment: Moment) -> str:
    """A moment as `parse_moment` reads it.

    >>> show_moment(parse_moment("2026-01-31")), show_moment(parse_moment("now-90m")), show_moment(Moment(1))
    ('2026-01-31T00:00:00Z', 'now-1h30m', '1970-01-01T00:00:00.000001Z')
    """
    at_us = moment.at_us
    if moment.relative:
        return "now" + (("-" if at_us < 0 else "+") + show_length_us(abs(at_us)) if at_us else "")
    return show_time_us(at_us, 6 if at_us % 1_000_000 else 0)


def show_time_us(at_us: int, digits: int) -> str:
    """A time since 1970 as RFC 3339 in UTC, with so many digits of a second; seconds where there is no such year.

    >>> show_time_us(250_000, 3), show_time_us(250_999, 0), show_time_us(10**18, 3)
    ('1970-01-01T00:00:00.250Z', '1970-01-01T00:00:00Z', '1000000000000.000000')
    """
    if not MIN_CALENDAR_US <= at_us <= MAX_CALENDAR_US:
        seconds, rest_us = divmod(abs(at_us), 1_000_000)
        return f"{'-' if at_us < 0 else ''}{seconds}.{rest_us:06}"
    days, rest_us = divmod(at_us, _DAY_US)
    year, month, day = _date_of(days)
    seconds, rest_us = divmod(rest_us, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f".{rest_us:06}"[: digits + 1] if digits else ""
    return f"{year:04}-{month:02}-{day:02}T{clock}{fraction}Z"


def show_length_us(length_us: int) -> str:
    """A length as `parse_length_us` reads it.

    >>> show_length_us(5_400_000_000), show_length_us(0)
    ('1h30m', '0s')
    """
    shown = ""
    for unit, unit_us in UNITS_US.items():
        count, length_us = divmod(length_us, unit_us)
        shown += f"{count}{unit}" if count else ""
    return shown or "0s"


def _distance_us(text: str) -> int:
    length_us = _length_us(text)
    if length_us is None:
        raise ValueError("it is not a time")
    if length_us > MAX_LENGTH_US:
        raise ValueError("it is more than 10,000 years away")
    return length_us


def _length_us(text: str) -> int | None:
    if found := _LENGTH.fullmatch(text):
        return sum(int(count) * unit_us for count, unit_us in zip(found.groups("0"), UNITS_US.values(), strict=True))
    length_us = _number_us(text)
    return None if length_us is None or text.startswith("-") else length_us


def _number_us(text: str) -> int | None:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    at_us = int(found[2]) * 1_000_000 + _microseconds(found[3])
    return -at_us if found[1] else at_us


def _microseconds(fraction: str | None) -> int:
    return int((fraction or "")[:6].ljust(6, "0"))


def _offset_minutes(found: re.Match[str]) -> int:
    if not found["sign"]:
        return 0
    hours, minutes = int(found["hours"]), int(found["minutes"] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError("its offset from UTC is a day or longer")
    return (hours * 60 + minutes) * (-1 if found["sign"] == "-" else 1)


def _days_of(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _MONTH_DAYS[month - 1] if 1 <= month <= 12 else 31


def _days_since_1970(year: int, month: int, day: int) -> int:
    """In the calendar of today, for all times. With years that begin in March, a leap day is a year's last."""
    months = (month + 9) % 12
    years = year - (months >= 10)
    return years * 365 + years // 4 - years // 100 + years // 400 + (months * 306 + 5) // 10 + day - 1 - _DAYS_TO_1970


def _date_of(days: int) -> tuple[int, int, int]:
    """The other way: year, month and day."""
    days += _DAYS_TO_1970
    era, days = divmod(days, 146_097)  # days of 400 years, after which the calendar repeats
    years = (days - days // 1_460 + days // 36_524 - days // 146_096) // 365
    days -= years * 365 + years // 4 - years // 100
    months = (days * 10 + 5) // 306
    month = months + 3 if months < 10 else months - 9
    return era * 400 + years + (month <= 2), month, days - (months * 306 + 5) // 10 + 1

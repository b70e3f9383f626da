"""The times of a query as people write them (`core/time_texts.py` reads them), and a step that suits the eye."""

import time
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.time_texts import FORMS, LENGTH_FORMS, parse_length_us, parse_moment
from quarterdeck.metrics.api.times import parse_time_ms
from quarterdeck.metrics.promql.syntax.durations import MAX_MS

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(count * _MINUTE_S for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR_S for count in (1, 2, 3, 6, 12)),
    *(count * _DAY_S for count in (1, 2, 7, 14, 30, 90, 180, 365)),
)
"""Lengths that people count in."""


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """What was typed."""

    at: str | None = None
    start: str | None = None
    end: str | None = None
    last: str | None = None
    step: str | None = None

    @property
    def is_range(self) -> bool:
        return self.start is not None or self.last is not None


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment; None is whatever the server has for now."""

    at_s: float | None

    def fields(self) -> dict[str, str]:
        """For `/api/v1/query`."""
        return {} if self.at_s is None else {"time": _shown(self.at_s)}


@dataclass(frozen=True, slots=True)
class Range:
    """From `start_s` to `end_s`, both within."""

    start_s: float
    end_s: float
    step_s: float

    def fields(self) -> dict[str, str]:
        """For `/api/v1/query_range`."""
        return {"start": _shown(self.start_s), "end": _shown(self.end_s), "step": _shown(self.step_s)}


def resolve_times(options: TimeOptions, now_s: float, points: int) -> Instant | Range:
    """The times that were meant; the step, unless one was given, makes about as many points as are wanted."""
    if not options.is_range:
        return Instant(None if options.at is None else _sample_time_s("--at", options.at, now_s))
    last_s = None if options.last is None else parse_length_s("--last", options.last)
    end_s = None if options.end is None else _sample_time_s("--end", options.end, now_s)
    if options.start is not None:
        start_s = _sample_time_s("--start", options.start, now_s)
        if end_s is None:
            end_s = now_s if last_s is None else start_s + last_s
    else:
        assert last_s is not None, "a range has one of the two"
        end_s = now_s if end_s is None else end_s
        start_s = end_s - last_s
    if start_s > end_s:
        raise _backwards(start_s - end_s)
    step_s = choose_step_s(end_s - start_s, points) if options.step is None else parse_length_s("--step", options.step)
    return Range(start_s, end_s, step_s)


def resolve_bounds(start: str | None, end: str | None, last: str | None, now_s: float) -> tuple[str | None, str | None]:
    """The beginning and the end that were meant, in seconds since 1970; None where there is none. What is said to be
    the last hour has no end, unless one was given.

    >>> resolve_bounds(None, "now-1h", "30m", 10_000), resolve_bounds("now-1h", None, None, 10_000)
    (('4600', '6400'), ('6400', None))
    """
    start_s = None if start is None else parse_time_s("--start", start, now_s)
    end_s = None if end is None else parse_time_s("--end", end, now_s)
    if last is not None:
        last_s = parse_length_s("--last", last)
        if start_s is None:
            start_s = (now_s if end_s is None else end_s) - last_s
        else:
            end_s = start_s + last_s
    if start_s is not None and end_s is not None and start_s >= end_s:
        raise _backwards(start_s - end_s)
    return None if start_s is None else _shown(start_s, 6), None if end_s is None else _shown(end_s, 6)


def choose_step_s(length_s: float, points: int) -> float:
    """The smallest length that people count in with which at most so many steps cover the range.

    >>> choose_step_s(6 * 3600, 250), choose_step_s(3600, 250), choose_step_s(1, 250)
    (120, 15, 1)
    """
    return next((step_s for step_s in STEPS_S if step_s * points >= length_s), STEPS_S[-1])


def parse_time_s(option: str, text: str, now_s: float) -> float:
    """
    >>> parse_time_s("--at", "now-2h", 10_000), parse_time_s("--at", "1.5", 0)
    (2800.0, 1.5)
    >>> parse_time_s("--at", "2026-01-02T03:04:05+01:00", 0)
    1767319445.0
    """
    try:
        return parse_moment(text.strip()).since_1970_us(round(now_s * 1_000_000)) / 1_000_000
    except ValueError as error:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{option} was not understood",
            f"{text!r}: {error}",
            f"write it as in {FORMS}; without a zone it is UTC",
        ) from None


def _sample_time_s(option: str, text: str, now_s: float) -> float:
    """In whole milliseconds, as a server would round the same text."""
    parse_time_s(option, text, now_s)
    return parse_time_ms(text.strip(), round(now_s * 1_000)) / 1_000


def parse_length_s(option: str, text: str) -> float:
    """
    >>> parse_length_s("--last", "1h30m"), parse_length_s("--step", "0.5")
    (5400.0, 0.5)
    """
    try:
        length_s = parse_length_us(text.strip()) / 1_000_000
    except ValueError as error:
        raise _no_length(option, f"{text!r}: {error}") from None
    if not 0 < length_s <= MAX_MS / 1000:
        raise _no_length(option, "it must be more than 0, and less than three hundred years")
    return length_s


def now_s() -> float:
    """The time of this machine, in whole milliseconds as all times of samples are."""
    return round(time.time(), 3)


def _no_length(option: str, why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT, f"{option} was not understood", why, f"write it as in {LENGTH_FORMS}"
    )


def _backwards(by_s: float) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        "the range was not understood",
        f"it begins {by_s:g} s after its end" if by_s else "it ends where it begins",
        "name an earlier --start or a later --end",
    )


def _shown(number_s: float, digits: int = 3) -> str:
    return f"{number_s:.{digits}f}".rstrip("0").rstrip(".")

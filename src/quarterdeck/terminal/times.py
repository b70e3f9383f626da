"""Times as people write them on the command line (`core/time_texts.py` reads them)."""

import time
from collections.abc import Callable
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.time_texts import FORMS, LENGTH_FORMS, parse_length_us, parse_moment

_MOST_S: Final = (2**63 - 1) / 1_000_000_000
"""The longest length: Prometheus holds it as nanoseconds in 64 bits."""


def resolve_bounds(start: str | None, end: str | None, last: str | None, now_s: float) -> tuple[str | None, str | None]:
    """The beginning and the end that were meant, in seconds since 1970; None where there is none. What is said to be
    the last hour has no end, unless one was given.

    >>> resolve_bounds(None, "now-1h", "30m", 10_000), resolve_bounds("now-1h", None, None, 10_000)
    (('4600', '6400'), ('6400', None))
    """
    start_s, end_s = resolve_range(start, end, last, now_s)
    if start_s is not None and end_s is not None and start_s >= end_s:
        raise backwards(start_s - end_s)
    return None if start_s is None else shown_s(start_s, 6), None if end_s is None else shown_s(end_s, 6)


def resolve_range(
    start: str | None,
    end: str | None,
    last: str | None,
    now_s: float,
    read: Callable[[str, str, float], float] | None = None,
) -> tuple[float | None, float | None]:
    """What `--start`, `--end` and `--last` say together, in seconds since 1970; None for an end that none of them
    says. `read` is `parse_time_s`, or does the same more coarsely."""
    read = read or parse_time_s
    start_s = None if start is None else read("--start", start, now_s)
    end_s = None if end is None else read("--end", end, now_s)
    if last is not None:
        last_s = parse_length_s("--last", last)
        if start_s is None:
            start_s = (now_s if end_s is None else end_s) - last_s
        elif end_s is None:
            end_s = start_s + last_s
    return start_s, end_s


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


def parse_length_s(option: str, text: str) -> float:
    """
    >>> parse_length_s("--last", "1h30m"), parse_length_s("--step", "0.5")
    (5400.0, 0.5)
    """
    try:
        length_s = parse_length_us(text.strip()) / 1_000_000
    except ValueError as error:
        raise _no_length(option, f"{text!r}: {error}") from None
    if not 0 < length_s <= _MOST_S:
        raise _no_length(option, "it must be more than 0, and less than three hundred years")
    return length_s


def now_s() -> float:
    """The time of this machine, in whole milliseconds as all times of samples are."""
    return round(time.time(), 3)


def _no_length(option: str, why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT, f"{option} was not understood", why, f"write it as in {LENGTH_FORMS}"
    )


def backwards(by_s: float) -> QuarterdeckError:
    """A range that has nothing in it."""
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        "the range was not understood",
        f"it begins {by_s:g} s after its end" if by_s else "it ends where it begins",
        "name an earlier --start or a later --end",
    )


def shown_s(number_s: float, digits: int = 3) -> str:
    """As a server reads it: plain, with no digits that say nothing."""
    return f"{number_s:.{digits}f}".rstrip("0").rstrip(".")

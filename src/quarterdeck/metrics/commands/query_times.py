"""The times of a query, and a step that suits the eye."""

from dataclasses import dataclass
from typing import Final

from quarterdeck.metrics.api.times import parse_time_ms
from quarterdeck.terminal.times import backwards, parse_length_s, parse_time_s, resolve_range, shown_s

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
        return {} if self.at_s is None else {"time": shown_s(self.at_s)}


@dataclass(frozen=True, slots=True)
class Range:
    """From `start_s` to `end_s`, both within."""

    start_s: float
    end_s: float
    step_s: float

    def fields(self) -> dict[str, str]:
        """For `/api/v1/query_range`."""
        return {"start": shown_s(self.start_s), "end": shown_s(self.end_s), "step": shown_s(self.step_s)}


def resolve_times(options: TimeOptions, now_s: float, points: int) -> Instant | Range:
    """The times that were meant; the step, unless one was given, makes about as many points as are wanted."""
    if not options.is_range:
        return Instant(None if options.at is None else _sample_time_s("--at", options.at, now_s))
    start_s, end_s = resolve_range(options.start, options.end, options.last, now_s, _sample_time_s)
    assert start_s is not None, "a range has a start or a length"
    end_s = now_s if end_s is None else end_s
    if start_s > end_s:
        raise backwards(start_s - end_s)
    step_s = choose_step_s(end_s - start_s, points) if options.step is None else parse_length_s("--step", options.step)
    return Range(start_s, end_s, step_s)


def choose_step_s(length_s: float, points: int) -> float:
    """The smallest length that people count in with which at most so many steps cover the range.

    >>> choose_step_s(6 * 3600, 250), choose_step_s(3600, 250), choose_step_s(1, 250)
    (120, 15, 1)
    """
    return next((step_s for step_s in STEPS_S if step_s * points >= length_s), STEPS_S[-1])


def _sample_time_s(option: str, text: str, now_s: float) -> float:
    """In whole milliseconds, as a server would round the same text."""
    parse_time_s(option, text, now_s)
    return parse_time_ms(text.strip(), round(now_s * 1_000)) / 1_000

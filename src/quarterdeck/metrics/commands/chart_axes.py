"""The axes of a chart: where they begin and end, and round labels in between.

Values are decimals, so that a label has the digits that a person would write, and no others.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from quarterdeck.metrics.commands.query_times import STEPS_S
from quarterdeck.terminal.short_numbers import exact_number

_DAY_S: Final = 86_400
_HAIR: Final = 1e-9
"""The part of a step by which rounding may move a value."""
_CONSTANT: Final = 1e-12
"""What is closer together than this part of its size is noise of floats, not a line that goes up or down."""
_SPACES: Final = 3
"""At least so many between two labels."""


@dataclass(frozen=True, slots=True)
class ValueAxis:
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def fraction(self, value: float) -> float:
        """How far up a value is: 0 at the bottom, 1 at the top."""
        # Halves, because the whole of the longest axis is no float.
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)


def value_axis(low: float, high: float, most_ticks: int) -> ValueAxis:
    """An axis that holds both, and zero where it is not far. A constant is in its middle.

    >>> [label for _, label in value_axis(120, 2900, 6).ticks]
    ['0', '0.5k', '1k', '1.5k', '2k', '2.5k', '3k']
    """
    if high - low <= _CONSTANT * max(abs(low), abs(high)):
        low, high = (low - 1, high + 1) if low == 0 else (min(0.0, 2 * low), max(0.0, 2 * high))
    elif 0 < low < high / 2:
        low = 0.0
    elif 0 > high > low / 2:
        high = 0.0
    biggest = 1.7e308
    low, high = max(low, -biggest), min(high, biggest)
    step = _round_step(high / most_ticks - low / most_ticks)
    first = math.floor(float(Decimal(low) / step) + _HAIR)
    last = math.ceil(float(Decimal(high) / step) - _HAIR)
    ticks = [step * number for number in range(first, last + 1)]
    like = max(step, sorted(map(abs, ticks))[-2])  # the last one may be the only thousand
    return ValueAxis(
        max(float(ticks[0]), -biggest),
        min(float(ticks[-1]), biggest),
        [(float(tick), exact_number(tick, like)) for tick in ticks],
    )


def _round_step(at_least: float) -> Decimal:
    """The next of 1, 2, 2.5, 5, 10, 20, 25, 50 and so on."""
    wanted = Decimal(at_least)
    power = Decimal(1).scaleb(wanted.adjusted())
    return next(
        step
        for digit in ("1", "2", "2.5", "5", "10")
        if (step := Decimal(digit) * power) >= wanted * (1 - Decimal(_HAIR))
    )


def time_ticks(start_s: float, end_s: float, columns: int) -> list[tuple[float, str]]:
    """Round local times within a range, as many as have room in so many columns."""
    length_s = end_s - start_s
    if length_s <= 0:
        return [(start_s, time.strftime("%H:%M:%S", time.localtime(start_s)))]
    for step_s in STEPS_S:
        form = _time_form(step_s, length_s)
        room = len(time.strftime(form, time.localtime(start_s))) + _SPACES
        if length_s / step_s * room <= columns:
            return [(at_s, time.strftime(form, time.localtime(at_s))) for at_s in _times(start_s, end_s, step_s)]
    return []


def _time_form(step_s: float, length_s: float) -> str:
    if step_s >= _DAY_S:
        return "%b %d" if length_s < 300 * _DAY_S else "%Y-%m-%d"
    if length_s > _DAY_S:
        return "%b %d %H:%M"
    return "%H:%M:%S" if step_s < 60 else "%H:%M"


def _times(start_s: float, end_s: float, step_s: int) -> Iterator[float]:
    """The multiples of a step as clocks on the wall show them, over a change of the clocks too."""
    begin = time.localtime(start_s)
    days = step_s // _DAY_S
    since_midnight_s = begin.tm_hour * 3600 + begin.tm_min * 60 + begin.tm_sec
    count = 0 if days else since_midnight_s // step_s
    day = begin.tm_mday - (int(start_s) // _DAY_S % days if days else 0)
    at_s, before_s = start_s, -math.inf
    while at_s <= end_s:
        more_days, seconds = (count * days, 0) if days else divmod(count * step_s, _DAY_S)
        clock = (
            seconds // 3600,
            seconds // 60 % 60,
            seconds % 60,
        )  # as hours: what is carried over is not by the clock
        at_s = time.mktime((begin.tm_year, begin.tm_mon, day + more_days, *clock, 0, 0, -1))
        if at_s > before_s and start_s <= at_s <= end_s:  # an hour that the clocks leave out comes twice
            yield at_s
            before_s = at_s
        count += 1

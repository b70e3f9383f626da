"""The series of a chart: in which order, in which colour, and the table that says so below the chart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table
from rich.text import Text

from quarterdeck.cli.query_answer import SeriesAnswer
from quarterdeck.cli.query_labels import common_labels, differing_names, show_labels
from quarterdeck.cli.short_numbers import short_number
from quarterdeck.cli.telling import printable

COLOURS: Final = (
    *("cyan", "yellow", "magenta", "green", "blue", "red"),  # as the terminal's owner likes them
    *("color(208)", "color(213)", "color(118)", "color(245)"),
)
MOST_LISTED: Final = len(COLOURS)
_LETTERS: Final = "abcdefghij"
"""Where there are no colours, a letter is at the end of each line."""
_SWATCH: Final = "━━"
_DIGITS: Final = range(4, 13)


@dataclass(frozen=True, slots=True)
class Curve:
    """A series with its numbers, computed once."""

    series: SeriesAnswer
    numbers: Sequence[float]

    @classmethod
    def of(cls, series: SeriesAnswer) -> "Curve":
        return cls(series, series.numbers())

    @property
    def last(self) -> float:
        return self.numbers[-1] if self.numbers else math.nan

    @property
    def low(self) -> float:
        return min((number for number in self.numbers if not math.isnan(number)), default=math.nan)

    @property
    def high(self) -> float:
        return max((number for number in self.numbers if not math.isnan(number)), default=math.nan)


def in_order(curves: Sequence[Curve]) -> list[Curve]:
    """The largest last value first, NaN at the end; equal ones as the server has them."""
    return sorted(curves, key=lambda curve: math.inf if math.isnan(curve.last) else -curve.last)


def colour(index: int) -> str:
    """Of a series by its place in the order."""
    return COLOURS[index % len(COLOURS)]


def letter(index: int) -> str:
    """Of a series by its place in the order; only those that are listed have one."""
    return _LETTERS[index] if index < MOST_LISTED else ""


def legend(curves: Sequence[Curve], *, colours: bool) -> list[Table | Text]:
    """For curves in order. What all have in common is said once, and what is not listed is counted."""
    series = [curve.series for curve in curves]
    common = common_labels(series)
    names = differing_names(series, common)
    parts: list[Table | Text] = []
    if common and names:
        parts.append(Text(show_labels(common), style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in names or [""]:
        table.add_column(Text(name), overflow="fold")
    for name in ("last", "min", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    for index, curve in enumerate(curves[:MOST_LISTED]):
        table.add_row(
            Text(_SWATCH, style=colour(index)) if colours else Text(letter(index)),
            *_labels(curve.series, names),
            *_figures(curve),
        )
    parts.append(table)
    more = len(curves) - MOST_LISTED
    if more > 0:
        parts.append(Text(f"… and {more:,} more series; --format table lists all", style="yellow"))
    return parts


def _figures(curve: Curve) -> list[str]:
    """Last, lowest and highest value, with as many digits as it takes to tell the two apart."""
    low, high = curve.low, curve.high
    digits = next((digits for digits in _DIGITS if short_number(low, digits) != short_number(high, digits)), _DIGITS[0])
    return [short_number(value, digits) for value in (curve.last, low, high)]


def _labels(series: SeriesAnswer, names: Sequence[str]) -> list[Text]:
    if not names:
        return [Text(show_labels(series.labels))]
    return [Text(printable(series.labels.get(name, ""))) for name in names]

"""The series of a chart: their order, their colours, and the table below the chart that shows these."""

import math
from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from quarterdeck.metrics.commands.query_answer import SeriesAnswer
from quarterdeck.metrics.commands.query_labels import common_labels, differing_names, show_labels
from quarterdeck.terminal.short_numbers import short_number
from quarterdeck.terminal.telling import printable

COLOURS: Final = (
    *("cyan", "yellow", "magenta", "green", "blue", "red"),  # as the terminal's owner likes them
    *("color(208)", "color(213)", "color(118)", "color(245)"),
)
MOST_LISTED: Final = len(COLOURS)
_LETTERS: Final = "abcdefghij"
"""Where there are no colours, a letter is at the end of each line."""
_SWATCH: Final = "━━"
_DIGITS: Final = range(4, 13)


def in_order(series: Sequence[SeriesAnswer]) -> list[SeriesAnswer]:
    """The largest last value first, NaN at the end; equal ones as the server has them."""
    return sorted(series, key=lambda one: math.inf if math.isnan(one.last) else -one.last)


def colour(index: int) -> str:
    """Of a series by its place in the order."""
    return COLOURS[index % len(COLOURS)]


def letter(index: int) -> str:
    """Of a series by its place in the order; only those that are listed have one."""
    return _LETTERS[index] if index < MOST_LISTED else ""


def legend(series: Sequence[SeriesAnswer], *, colours: bool) -> list[Table | Text]:
    """For series in order. What all have in common is said once, and what is not listed is counted."""
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
    for index, one in enumerate(series[:MOST_LISTED]):
        table.add_row(
            Text(_SWATCH, style=colour(index)) if colours else Text(letter(index)),
            *_labels(one, names),
            *_figures(one),
        )
    parts.append(table)
    more = len(series) - MOST_LISTED
    if more > 0:
        parts.append(Text(f"… and {more:,} more series; --format table lists all", style="yellow"))
    return parts


def _figures(one: SeriesAnswer) -> list[str]:
    """Last, lowest and highest value, with as many digits as it takes to tell the two apart."""
    low, high = one.low, one.high
    digits = next((digits for digits in _DIGITS if short_number(low, digits) != short_number(high, digits)), _DIGITS[0])
    return [short_number(value, digits) for value in (one.last, low, high)]


def _labels(series: SeriesAnswer, names: Sequence[str]) -> list[Text]:
    if not names:
        return [Text(show_labels(series.labels))]
    return [Text(printable(series.labels.get(name, ""))) for name in names]

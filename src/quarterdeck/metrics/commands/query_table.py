"""An answer as a table: a row for each series, the labels by which they differ in columns, the labels that they share
above.

A vector has its values as the server wrote them. A range has figures for each series; the other formats have every
sample.
"""

import math
from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from quarterdeck.metrics.commands.query_answer import Kind, QueryAnswer, SeriesAnswer
from quarterdeck.metrics.commands.query_labels import common_labels, differing_names, show_labels
from quarterdeck.terminal.short_numbers import short_number
from quarterdeck.terminal.stdout_console import StdoutConsole
from quarterdeck.terminal.telling import printable

_MOST_ROWS: Final = 200
"""On a terminal; elsewhere there are all."""
HISTOGRAM_HINT: Final = "native histograms are shown by count and sum; ask for histogram_quantile(0.9, …) of them"


def print_table(console: StdoutConsole, answer: QueryAnswer) -> None:
    if answer.single is not None:
        console.print(Text(printable(answer.single[1])), soft_wrap=True)
        return
    if len(answer.series) == 1 and answer.kind is Kind.VECTOR and answer.series[0].values:
        [one] = answer.series
        console.print(Text.assemble((show_labels(one.labels), "bold"), "  ", one.values[0]), soft_wrap=True)
        return
    most = _MOST_ROWS if console.is_terminal else len(answer.series)
    shown = answer.series[:most]
    common = common_labels(answer.series)
    names = differing_names(answer.series, common)
    if common:
        console.print(Text(show_labels(common), style="bold"), soft_wrap=True)
    table = _range_table(shown, names) if answer.kind is Kind.MATRIX else _vector_table(shown, names)
    console.print_whole(table)
    more = len(answer.series) - len(shown)
    if more:
        console.print(f"… and {more:,} more series; --format csv shows all", style="yellow")


def histogram_table(series: Sequence[SeriesAnswer]) -> RenderableType:
    """The last sample of each that has histograms."""
    names = differing_names(series, {})
    return _vector_table([SeriesAnswer(one.labels, (), (), (), one.histograms[-1:]) for one in series], names)


def _table(names: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in names:
        table.add_column(Text(name), overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cells(series: SeriesAnswer, names: Sequence[str]) -> list[Text]:
    return [Text(printable(series.labels.get(name, ""))) for name in names]


def _vector_table(series: Sequence[SeriesAnswer], names: Sequence[str]) -> Table:
    values = any(one.values for one in series)
    histograms = any(one.histograms for one in series)
    table = _table(names, [*(["value"] if values else []), *(["count", "sum"] if histograms else [])])
    for one in series:
        figures = [one.values[-1] if one.values else ""] if values else []
        if histograms:
            last = one.histograms[-1] if one.histograms else None
            figures += ["", ""] if last is None else [last.count, last.sum]
        table.add_row(*_cells(one, names), *figures)
    return table


def _range_table(series: Sequence[SeriesAnswer], names: Sequence[str]) -> Table:
    histograms = any(one.histograms for one in series)
    columns = ["points", "last", "min", "mean", "max", *(["histograms", "count", "sum"] if histograms else [])]
    table = _table(names, columns)
    for one in series:
        figures = [f"{len(one.values):,}", "", "", "", ""]
        if one.values:
            figures[1:] = map(short_number, (one.last, one.low, _mean(one.numbers), one.high))
        if histograms:
            last = one.histograms[-1] if one.histograms else None
            figures += ["0", "", ""] if last is None else [f"{len(one.histograms):,}", last.count, last.sum]
        table.add_row(*_cells(one, names), *figures)
    return table


def _mean(numbers: Sequence[float]) -> float:
    known = [number for number in numbers if not math.isnan(number)]
    if any(map(math.isinf, known)):
        return sum(known)
    return math.fsum(number / len(known) for number in known) if known else math.nan

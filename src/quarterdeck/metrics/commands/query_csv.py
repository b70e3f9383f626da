"""An answer as CSV in the long form: a line for each sample, with its time, all labels and its value.

Times are RFC 3339 in UTC, and values are as the server wrote them. Lines are written series by series.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

from quarterdeck.core.time_texts import show_time_us
from quarterdeck.metrics.commands.query_answer import QueryAnswer, SeriesAnswer
from quarterdeck.metrics.commands.query_labels import differing_names

_TIME: Final = "timestamp"
_VALUE: Final = "value"
_HISTOGRAM: Final = ("count", "sum")
"""Columns that are there when the answer has native histograms."""


def write_csv(answer: QueryAnswer, out: TextIO) -> None:
    """The header comes even if there is nothing else."""
    writer = csv.writer(out, lineterminator="\n")
    names = differing_names(answer.series, {})
    histogram = _HISTOGRAM if answer.has_histograms else ()
    own = {_TIME, _VALUE, *histogram}
    writer.writerow([_TIME, *(f"label_{name}" if name in own else name for name in names), _VALUE, *histogram])
    if answer.single is not None:
        time_s, value = answer.single
        writer.writerow([_shown_time(time_s), value])
    times: dict[float, str] = {}  # the series of a range have the same ones
    for one in answer.series:
        writer.writerows(_lines(one, names, times, padded=bool(histogram)))
        out.flush()


def _lines(
    series: SeriesAnswer, names: Sequence[str], times: dict[float, str], *, padded: bool
) -> Iterator[Iterable[str]]:
    labels = [series.labels.get(name, "") for name in names]
    padding = ["", ""] if padded else []
    for time_s in series.times_s:
        if time_s not in times:
            times[time_s] = _shown_time(time_s)
    for time_s, value in zip(series.times_s, series.values, strict=True):
        yield [times[time_s], *labels, value, *padding]
    for sample in series.histograms:
        yield [_shown_time(sample.time_s), *labels, "", sample.count, sample.sum]


def _shown_time(time_s: float) -> str:
    """
    >>> _shown_time(1700000000.25)
    '2023-11-14T22:13:20.250Z'
    """
    return show_time_us(round(time_s * 1_000) * 1_000, 3)

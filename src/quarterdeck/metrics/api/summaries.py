"""`Summaries`: what a client gets of each series that does not want its samples."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from quarterdeck.metrics.api.frames import as_vector
from quarterdeck.metrics.api.json_text import json_bytes
from quarterdeck.metrics.api.numbers import show_floats
from quarterdeck.metrics.api.series_text import show_series
from quarterdeck.metrics.promql.blocks import F64, I64, Axis, Block, VectorBlock
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.labels import Labels

_NUMBERS: Final = ("min", "max", "avg", "first", "last")


class Summaries:
    """Gathers the blocks of one query, which come by rising time; then makes one frame for each series.

    As in the language, not-a-number is no minimum and no maximum unless there is nothing else, and makes the average
    one. Native histograms are only counted, in a member `histograms` that is there if there are any.
    """

    def __init__(self) -> None:
        self._rows: Final[dict[Labels, int]] = {}
        self._places: Final[Remembered[I64]] = Remembered()
        self._counts: I64 = np.zeros(0, np.int64)
        self._histograms: I64 = np.zeros(0, np.int64)
        self._numbers: F64 = np.zeros((len(_NUMBERS), 0))
        """A row for each of `_NUMBERS`; instead of the average the sum."""

    def add(self, block: Block) -> None:
        """Count what a block holds."""
        vector = as_vector(block)
        places = self._places.of((vector.axis,), lambda: self._places_of(vector.axis))
        if vector.histograms is not None:
            np.add.at(self._histograms, places, np.count_nonzero(vector.is_histogram, axis=1))
        there = vector.is_float
        rows = np.flatnonzero(there.any(axis=1))
        if rows.size:
            self._add_floats(places[rows], VectorBlock(vector.axis, vector.values[rows], there[rows]))

    def _places_of(self, axis: Axis) -> I64:
        places = np.array([self._rows.setdefault(labels, len(self._rows)) for labels in axis.shown], np.int64)
        more = len(self._rows) - len(self._counts)
        self._counts = np.pad(self._counts, (0, more))
        self._histograms = np.pad(self._histograms, (0, more))
        self._numbers = np.pad(self._numbers, ((0, 0), (0, more)), constant_values=np.nan)
        return places

    def _add_floats(self, places: I64, block: VectorBlock) -> None:
        """All rows have floats. Two may be the same series, and then at different steps."""
        values, there = block.values, block.present
        lowest, highest, total, first, last = self._numbers
        begun = self._counts[places] > 0
        known = np.where(there, values, np.nan)
        np.fmin.at(lowest, places, np.fmin.reduce(known, axis=1))
        np.fmax.at(highest, places, np.fmax.reduce(known, axis=1))
        total[places[~begun]] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(total, places, np.where(there, values, 0.0).sum(axis=1))
        np.add.at(self._counts, places, np.count_nonzero(there, axis=1))
        rows = np.arange(len(places))
        starts, ends = there.argmax(axis=1), there.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
        # Of what is written twice to one place the last stays: the earliest sample, and the latest.
        early = np.argsort(-starts, kind="stable")
        early = early[~begun[early]]
        first[places[early]] = values[rows, starts][early]
        late = np.argsort(ends, kind="stable")
        last[places[late]] = values[rows, ends][late]

    def frames(self) -> Iterator[bytes]:
        """One frame for each series that has samples, in the order in which they first came."""
        lowest, highest, total, first, last = self._numbers
        with np.errstate(invalid="ignore", divide="ignore"):
            average = total / self._counts
        numbers = np.stack((lowest, highest, average, first, last), axis=1)
        counts: list[int] = self._counts.tolist()
        histograms: list[int] = self._histograms.tolist()
        for labels, count, other, row in zip(self._rows, counts, histograms, numbers, strict=True):
            if count or other:
                yield _frame(labels, count, other, row)


def _frame(labels: Labels, count: int, histograms: int, numbers: F64) -> bytes:
    data: dict[str, object] = {"tags": dict(labels), "label": show_series(labels), "count": count}
    if count:
        data |= zip(_NUMBERS, map(_number, numbers.tolist(), show_floats(numbers)), strict=True)
    if histograms:
        data["histograms"] = histograms
    return b'data: {"type":"summary","data":%s}\n\n' % json_bytes(data)


def _number(value: float, shown: str) -> float | str:
    return value if np.isfinite(value) else shown

"""Samples held in memory: a source for tests, for fresh samples, and for answers that are asked again.

All series lie in one block, sorted by labels, an index says which of them match, and all are cut to a time at once.
Nothing changes after construction; any thread may select.

It must not know queries, and it drops no staleness markers: what a sample means is the engine's matter.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.promql.blocks import F64, I64, Axis, Objects, SeriesBlock, totals_before
from quarterdeck.metrics.promql.kernels.cuts import first_from, picked, side_by_side
from quarterdeck.metrics.promql.labels import Labels, digest, show
from quarterdeck.metrics.promql.series_index import SeriesIndex
from quarterdeck.metrics.promql.source import unlimited
from quarterdeck.metrics.promql.syntax.ast import Matcher


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One series and its samples, by rising time."""

    labels: Labels
    timestamps: I64
    values: F64
    """Where the sample is a histogram: anything."""
    histograms: Objects | None = None
    """For each sample its histogram, or None where it is a float. None: all are floats."""
    starts: I64 | None = None
    """For each sample its start timestamp, or 0; see `SeriesBlock`. None: no sample has one."""


class MemorySource:
    """A `Source` over one block."""

    def __init__(self, block: SeriesBlock) -> None:
        """Take a block that is sorted by labels; its arrays must not change from here on.

        `ValueError` when two series have the same labels, or when labels or times are not in order.
        """
        _check(block)
        self._block: Final = block
        self._index: Final = SeriesIndex(block.axis.labels)

    @staticmethod
    def of(series: Iterable[Series]) -> "MemorySource":
        """A source of these series, in whichever order they come."""
        ordered = sorted(series, key=lambda one: one.labels)
        if not ordered:
            return MemorySource(SeriesBlock.empty())
        counts = np.array([len(one.timestamps) for one in ordered], dtype=np.int64)
        return MemorySource(
            SeriesBlock(
                Axis.of([one.labels for one in ordered]),
                totals_before(counts),
                np.concatenate([one.timestamps for one in ordered], dtype=np.int64),
                np.concatenate([one.values for one in ordered], dtype=np.float64),
                _join_histograms(ordered),
                _join_starts(ordered),
            )
        )

    def __len__(self) -> int:
        """How many series there are."""
        return len(self._block.axis)

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        need: Callable[[int], None] = unlimited,
    ) -> SeriesBlock:
        """See `Source.select`. Series without a sample in that time are left out."""
        block = self._block
        rows = np.flatnonzero(self._index.matching(matchers, need))
        if not rows.size:
            return SeriesBlock.empty()
        first, last = block.offsets[rows], block.offsets[rows + 1]
        low = first_from(block.timestamps, first, last, start_ms)
        high = first_from(block.timestamps, low, last, end_ms + 1)
        there = high > low
        arrays = 2 if block.starts is None else 3
        need((int((high - low).sum()) * arrays + int(np.count_nonzero(there)) + 1) * 8)
        return _cut(block, rows[there], low[there], high[there])

    def shard(self, index: int, count: int) -> "MemorySource":
        """One of `count` parts. Which part a series is in depends on its labels alone, and each is in exactly one."""
        if not 0 <= index < count:
            raise ValueError(f"there is no shard {index} of {count}: count from 0 to before the number of shards")
        rows = np.flatnonzero(self._digests % np.uint64(count) == np.uint64(index))
        return MemorySource(_cut(self._block, rows, self._block.offsets[rows], self._block.offsets[rows + 1]))

    def shards(self, count: int) -> tuple["MemorySource", ...]:
        """All `count` parts."""
        return tuple(self.shard(index, count) for index in range(count))

    @cached_property
    def _digests(self) -> NDArray[np.uint64]:
        return np.array([digest(labels) for labels in self._block.axis.labels], dtype=np.uint64)


def _check(block: SeriesBlock) -> None:
    labels = block.axis.labels
    for before, after in pairwise(labels):
        if before == after:
            raise ValueError(f"{show(after)} is there twice: join the samples of a series first")
        if before > after:
            raise ValueError(f"{show(after)} comes after {show(before)}: sort the series by their labels first")
    # The step from one series to the next may go back in time; the steps within a series may not.
    late = np.flatnonzero(np.diff(block.timestamps) <= 0) + 1
    within = late[~np.isin(late, block.offsets)]
    if within.size:
        row = int(np.count_nonzero(block.offsets <= within[0])) - 1
        raise ValueError(f"{show(labels[row])} has samples whose times do not rise: sort them first")


def _cut(block: SeriesBlock, rows: I64, low: I64, high: I64) -> SeriesBlock:
    """Some series, each from its `low` to before its `high`. No sample is copied while they lie side by side."""
    if not rows.size:
        return SeriesBlock.empty()
    axis = block.axis if rows.size == len(block.axis) else block.axis.take(rows)
    offsets = totals_before(high - low)
    if np.array_equal(low[1:], high[:-1]):
        place = slice(int(low[0]), int(high[-1]))
        timestamps, values = block.timestamps[place], block.values[place]
        histograms = None if block.histograms is None else block.histograms[place]
        starts = None if block.starts is None else block.starts[place]
    else:
        timestamps, values = side_by_side(block.timestamps, block.values, low, high)
        histograms = None
        if block.histograms is not None:
            ends = zip(low.tolist(), high.tolist(), strict=True)
            histograms = np.concatenate([block.histograms[start:end] for start, end in ends])
        starts = None if block.starts is None else picked(block.starts, low, high)
    return SeriesBlock(
        axis,
        offsets,
        timestamps,
        values,
        None if histograms is None else _only_if_any(histograms),
        starts if starts is not None and np.count_nonzero(starts) else None,
    )


def _only_if_any(histograms: Objects) -> Objects | None:
    return histograms if any(one is not None for one in histograms) else None


def _join_starts(series: Sequence[Series]) -> I64 | None:
    if all(one.starts is None for one in series):
        return None
    parts = [np.zeros(len(one.timestamps), np.int64) if one.starts is None else one.starts for one in series]
    return np.concatenate(parts, dtype=np.int64)


def _join_histograms(series: Sequence[Series]) -> Objects | None:
    if all(one.histograms is None for one in series):
        return None
    parts = [
        np.full(len(one.timestamps), None, dtype=object) if one.histograms is None else one.histograms for one in series
    ]
    return np.concatenate(parts)

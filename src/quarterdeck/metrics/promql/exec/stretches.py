"""Stretches of steps, one after the other, as the samples of series.

A block has room for every series at every step; samples take room only where there are any. So this is the form in
which a subquery keeps what its windows need, and in which the answer to a range query is put together.
"""

from collections.abc import Sequence

import numpy as np

from quarterdeck.metrics.promql.blocks import I64, Axis, Grid, Objects, SeriesBlock, VectorBlock, totals_before
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.node import SAME_LABELSET
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.limits import Memory


def as_samples(grid: Grid, block: VectorBlock, memory: Memory) -> SeriesBlock:
    """The values of a block as samples at the times of its steps. They are held: release them when they go."""
    counts = np.count_nonzero(block.present, axis=1)
    offsets = totals_before(counts)
    size = int(offsets[-1])
    memory.need((len(counts) + 1 + 2 * size) * 8)
    samples = SeriesBlock(
        block.axis,
        offsets,
        np.broadcast_to(grid.times(), block.present.shape)[block.present],
        block.values[block.present],
        None if block.histograms is None or not block.is_histogram.any() else block.histograms[block.present],
    )
    memory.hold(samples.size_bytes)
    return samples


def join_stretches(stretches: Sequence[SeriesBlock], memory: Memory) -> SeriesBlock:
    """One stretch after the other; series with the same labels are one."""
    if len(stretches) == 1:
        return stretches[0]
    if not stretches:
        return SeriesBlock.empty()
    memory.need(sum(stretch.size_bytes for stretch in stretches))
    axis, places = one_axis([stretch.axis for stretch in stretches])
    counts = np.zeros(len(axis), np.int64)
    for stretch, place in zip(stretches, places, strict=True):
        counts[place] += np.diff(stretch.offsets)
    offsets = totals_before(counts)
    timestamps, values = np.empty(int(offsets[-1]), np.int64), np.empty(int(offsets[-1]))
    histograms: Objects | None = None
    if any(stretch.histograms is not None for stretch in stretches):
        histograms = np.full(int(offsets[-1]), None, object)
    filled = offsets[:-1].copy()
    for stretch, place in zip(stretches, places, strict=True):
        lengths = np.diff(stretch.offsets)
        target = np.repeat(filled[place] - stretch.offsets[:-1], lengths) + np.arange(len(stretch.values))
        timestamps[target], values[target] = stretch.timestamps, stretch.values
        if histograms is not None and stretch.histograms is not None:
            histograms[target] = stretch.histograms
        filled[place] += lengths
    return SeriesBlock(axis, offsets, timestamps, values, histograms)


def one_axis(axes: Sequence[Axis]) -> tuple[Axis, list[I64]]:
    """All series of some axes, and for each axis where its series are among them."""
    if all(axis is axes[0] for axis in axes):
        return axes[0], [np.arange(len(axes[0]))] * len(axes)
    rows: dict[tuple[Labels, bool], int] = {}
    places: list[I64] = []
    for axis in axes:
        keys = zip(axis.labels, axis.nameless.tolist(), strict=True)
        place = [rows.setdefault(key, len(rows)) for key in keys]
        if len(set(place)) < len(place):
            raise ExecutionError(SAME_LABELSET)
        places.append(np.array(place, np.int64))
    return Axis(tuple(labels for labels, _ in rows), np.array([gone for _, gone in rows], np.bool_)), places

"""Instant selectors whose values lie on the lines between samples (`smoothed`)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import (
    Bool,
    Grid,
    Objects,
    SeriesBlock,
    VectorBlock,
    are_histograms,
    totals_before,
)
from quarterdeck.metrics.promql.exec.histogram_windows import note_change
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.exec.selectors import samples_between
from quarterdeck.metrics.promql.histograms.extended import value_at
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.rates import Window
from quarterdeck.metrics.promql.kernels.extended import smoothed_instant
from quarterdeck.metrics.promql.kernels.windows import window_bounds
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.source import Source


@dataclass
class SmoothedNode:
    """The value at each step, between the samples not farther away than the lookback; the last one holds on."""

    plan: pn.Select
    grid: Grid
    source: Source
    context: Context

    @cached_property
    def samples(self) -> SeriesBlock:
        """All samples that any step may look at."""
        looked_at = self.plan.timing.resolve(self.grid)
        lookback_ms = self.context.lookback_ms
        first_ms, last_ms = looked_at.start_ms - lookback_ms + 1, looked_at.end_ms + lookback_ms
        return samples_between(self.plan, self.source, first_ms, last_ms, self.context)

    def eval(self, grid: Grid) -> VectorBlock:
        block = self.samples
        self.context.memory.need(len(block.axis) * grid.count * 9)
        looked_at = self.plan.timing.resolve(grid)
        lookback_ms, threads = self.context.lookback_ms, self.context.threads
        if block.histograms is None:
            return VectorBlock(block.axis, *smoothed_instant(block, looked_at, lookback_ms, threads))
        is_histogram = are_histograms(block.histograms)
        low, high = window_bounds(block, looked_at, 2 * lookback_ms, threads, offset_ms=-lookback_ms)
        before = totals_before(is_histogram)
        histograms_in = before[high] - before[low]
        mixed = (histograms_in > 0) & (histograms_in < high - low)
        self._note_mixed(block, mixed)
        found: Objects = np.full(mixed.shape, None, object)
        times_ms = looked_at.times().tolist()
        for row, step in self.context.watched(np.argwhere((histograms_in > 0) & ~mixed).tolist()):
            samples = slice(int(low[row, step]), int(high[row, step]))
            found[row, step] = self._value(block, block.histograms, row, samples, times_ms[step])
        values, present = smoothed_instant(block.filter(~is_histogram), looked_at, lookback_ms, threads)
        return VectorBlock(block.axis, values, (present & ~mixed) | are_histograms(found), found)

    def _note_mixed(self, block: SeriesBlock, mixed: Bool) -> None:
        for row in np.flatnonzero(mixed.any(axis=1)).tolist():
            name = lb.get(block.axis.labels[row], METRIC_NAME)
            self.context.notes.warn(notes.mixed_floats_histograms(name), self.plan.span)

    def _value(
        self, block: SeriesBlock, histograms: Objects, row: int, samples: slice, time_ms: int
    ) -> NativeHistogram | None:
        window = Window(block.timestamps[samples].tolist(), histograms[samples].tolist(), time_ms, time_ms)
        change = value_at(window, time_ms)
        note_change(change, lb.get(block.axis.labels[row], METRIC_NAME), self.context, self.plan.span)
        return change.histogram

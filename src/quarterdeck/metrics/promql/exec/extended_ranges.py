"""Ranges that know the samples around them (`anchored`, `smoothed`): functions over them, and what they hold."""

from dataclasses import dataclass

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import (
    F64,
    I64,
    Axis,
    Bool,
    Grid,
    Objects,
    SeriesBlock,
    VectorBlock,
    are_histograms,
    totals_before,
)
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.histogram_windows import HistogramWindows, differing_samples
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.exec.range_functions import COMPARING, COUNTER_FUNCTIONS, KERNELS, note_non_counters
from quarterdeck.metrics.promql.exec.selectors import SelectRangeNode
from quarterdeck.metrics.promql.kernels.extended import over_extended_windows
from quarterdeck.metrics.promql.kernels.windows import window_bounds
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import Extension


@dataclass(frozen=True)
class ExtendedCallNode:
    """A function over windows that know the samples around them."""

    plan: pn.RangeCall
    selector: SelectRangeNode
    context: Context

    @property
    def smoothed(self) -> bool:
        """Whether samples after a window count."""
        return self.selector.plan.extension is Extension.SMOOTHED

    def eval(self, grid: Grid) -> VectorBlock:
        block, looked_at = self.selector.eval(grid)
        self.context.memory.need(len(block.axis) * grid.count * 9)
        axis = block.axis.without_names
        if self.plan.function in COMPARING and not (block.histograms is None and block.starts is None):
            result = self._compare(axis, block, looked_at)
        elif block.histograms is None:
            result = VectorBlock(axis, *self._floats(block, looked_at))
        else:
            result = self._mixed(axis, block, block.histograms, looked_at)
        if self.plan.function in COUNTER_FUNCTIONS:
            note_non_counters(result, self.context, self.plan.arg_spans[0])
        return result

    def _floats(self, block: SeriesBlock, looked_at: Grid) -> tuple[F64, Bool]:
        return over_extended_windows(
            KERNELS[self.plan.function],
            block,
            looked_at,
            self.selector.range_ms,
            self.context.lookback_ms,
            self.context.threads,
            smoothed=self.smoothed,
        )

    def _around(self, block: SeriesBlock, looked_at: Grid) -> tuple[I64, I64]:
        """For each series and step the first sample that counts, and the one after the last."""
        before_ms = self.context.lookback_ms
        after_ms = before_ms if self.smoothed else 0
        length_ms = before_ms + self.selector.range_ms + after_ms
        return window_bounds(block, looked_at, length_ms, self.context.threads, offset_ms=-after_ms)

    def _mixed(self, axis: Axis, block: SeriesBlock, histograms: Objects, looked_at: Grid) -> VectorBlock:
        """Rates over samples some of which are histograms; a window that has both kinds yields nothing."""
        is_histogram = are_histograms(histograms)
        low, high = self._around(block, looked_at)
        before = totals_before(is_histogram)
        histograms_in = before[high] - before[low]
        floats_in = high - low - histograms_in
        mixed = (floats_in > 0) & (histograms_in > 0)
        selector = self.selector.plan
        for row in np.flatnonzero(mixed.any(axis=1)).tolist():
            name = lb.get(block.axis.labels[row], METRIC_NAME)
            self.context.notes.warn(notes.mixed_floats_histograms(name), selector.span)
        windows = HistogramWindows(
            self.plan.function,
            block,
            histograms,
            low,
            high,
            looked_at,
            self.selector.range_ms,
            self.context,
            selector.span,
            selector.extension,
        )
        found = windows.results((floats_in == 0) & (histograms_in > 0))
        values, present = self._floats(block.filter(~is_histogram), looked_at)
        return VectorBlock(axis, values, (present & ~mixed) | are_histograms(found), found)

    def _compare(self, axis: Axis, block: SeriesBlock, looked_at: Grid) -> VectorBlock:
        """Changes and resets over both kinds, and over samples with start timestamps."""
        differs = differing_samples(block, self.plan.function == "resets")
        totals = totals_before(differs)
        reach, high = self._around(block, looked_at)
        inside, _ = window_bounds(block, looked_at, self.selector.range_ms, self.context.threads)
        present = high > inside
        first = np.where(inside > reach, inside - 1, inside)
        changes = totals[np.where(present, high, 0)] - totals[np.where(present, first + 1, 0)]
        return VectorBlock(axis, changes.astype(np.float64), present)


@dataclass(frozen=True)
class EdgedSamplesNode:
    """The samples of one window with a sample at each of its edges, as a query that asks for a range shows them."""

    selector: SelectRangeNode

    @property
    def range_ms(self) -> int:
        return self.selector.range_ms

    def eval(self, grid: Grid) -> tuple[SeriesBlock, Grid]:
        block, looked_at = self.selector.eval(grid)
        extension = self.selector.plan.extension
        if block.histograms is not None and are_histograms(block.histograms).any():
            raise ExecutionError(
                f"{extension} modifier is not supported with histograms", "ask for floats, or a function of the range"
            )
        return self._edged(block, looked_at.end_ms, extension is Extension.SMOOTHED), looked_at

    def _edged(self, block: SeriesBlock, end_ms: int, smoothed: bool) -> SeriesBlock:
        bounds = zip(block.offsets[:-1].tolist(), block.offsets[1:].tolist(), strict=True)
        samples = [
            _with_edges(block.timestamps[low:high], block.values[low:high], end_ms - self.range_ms, end_ms, smoothed)
            for low, high in bounds
        ]
        if not samples:
            return block
        lengths = np.array([len(times) for times, _ in samples], np.int64)
        return SeriesBlock(
            block.axis,
            totals_before(lengths),
            np.concatenate([times for times, _ in samples]),
            np.concatenate([values for _, values in samples]),
        )


def _with_edges(times: I64, values: F64, begin_ms: int, end_ms: int, smoothed: bool) -> tuple[I64, F64]:
    """The samples of a series within a window, with one at each edge; none if there is none after its beginning."""
    first = max(0, int(np.searchsorted(times, begin_ms, "right")) - 1)
    last = len(times) - 1
    if smoothed:
        last = min(last, int(np.searchsorted(times, end_ms, "left")))
    if last < 0 or times[last] <= begin_ms:
        return times[:0], values[:0]
    left, right = values[first], values[last]
    if smoothed and times[first] < begin_ms:
        left = _between(times, values, first, begin_ms)
    if last and times[last] > end_ms:
        right = _between(times, values, last - 1, end_ms)
    inner = slice(first + (times[first] <= begin_ms), last + (times[last] < end_ms))
    return (
        np.concatenate(([begin_ms], times[inner], [end_ms])),
        np.concatenate(([left], values[inner], [right])),
    )


def _between(times: I64, values: F64, at: int, time_ms: int) -> float:
    """The value at a time between sample `at` and the next, on the line that joins them."""
    with np.errstate(all="ignore"):
        rise, length_ms = values[at + 1] - values[at], times[at + 1] - times[at]
        return float(values[at] + rise * (time_ms - times[at]) / length_ms)

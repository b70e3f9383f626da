"""Functions over the samples in a window of each series.

Floats go through the kernels. A series that also has native histograms in it is told apart window by window: some
functions look at the floats alone and say so, others refuse a mix.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

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
    objects_size_bytes,
    totals_before,
)
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.histogram_windows import HistogramWindows, differing_samples
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, Windows, scalar
from quarterdeck.metrics.promql.exec.selections import note_quantiles
from quarterdeck.metrics.promql.exec.selectors import gather
from quarterdeck.metrics.promql.floats import show_float
from quarterdeck.metrics.promql.kernels.windows import WindowFunction, over_windows, window_bounds
from quarterdeck.metrics.promql.kernels.windows_starts import overlaps
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.limits import CELL_BYTES
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.spans import Span

KERNELS: Final[Mapping[str, WindowFunction]] = MappingProxyType(
    {
        "avg_over_time": WindowFunction.AVG,
        "changes": WindowFunction.CHANGES,
        "count_over_time": WindowFunction.COUNT,
        "delta": WindowFunction.DELTA,
        "deriv": WindowFunction.DERIV,
        "double_exponential_smoothing": WindowFunction.DOUBLE_EXPONENTIAL,
        "first_over_time": WindowFunction.FIRST,
        "idelta": WindowFunction.IDELTA,
        "increase": WindowFunction.INCREASE,
        "irate": WindowFunction.IRATE,
        "last_over_time": WindowFunction.LAST,
        "mad_over_time": WindowFunction.MAD,
        "max_over_time": WindowFunction.MAX,
        "min_over_time": WindowFunction.MIN,
        "predict_linear": WindowFunction.PREDICT_LINEAR,
        "present_over_time": WindowFunction.PRESENT,
        "quantile_over_time": WindowFunction.QUANTILE,
        "rate": WindowFunction.RATE,
        "resets": WindowFunction.RESETS,
        "stddev_over_time": WindowFunction.STDDEV,
        "stdvar_over_time": WindowFunction.STDVAR,
        "sum_over_time": WindowFunction.SUM,
        "ts_of_first_over_time": WindowFunction.TS_OF_FIRST,
        "ts_of_last_over_time": WindowFunction.TS_OF_LAST,
        "ts_of_max_over_time": WindowFunction.TS_OF_MAX,
        "ts_of_min_over_time": WindowFunction.TS_OF_MIN,
    }
)

COUNTER_FUNCTIONS: Final = frozenset({"rate", "increase"})
COUNTER_SUFFIXES: Final = ("_total", "_sum", "_count", "_bucket")

KEEPING_NAMES: Final = frozenset({"last_over_time", "first_over_time"})
"""These act like an offset."""

REFUSING_MIX: Final = frozenset({"rate", "increase", "delta", "sum_over_time", "avg_over_time"})
"""A window with both kinds of samples yields nothing and a warning."""

OF_LAST_TWO: Final = frozenset({"irate", "idelta"})
OF_ANY_SAMPLE: Final = frozenset({"count_over_time", "present_over_time"})
PICKING: Final = frozenset({"last_over_time", "first_over_time", "ts_of_last_over_time", "ts_of_first_over_time"})
COMPARING: Final = frozenset({"changes", "resets"})


@dataclass(frozen=True)
class RangeCallNode:
    """A function over windows."""

    plan: pn.RangeCall
    windows: Windows
    args: tuple[ExecNode, ...]
    context: Context

    def eval(self, grid: Grid) -> VectorBlock:
        block, looked_at = self.windows.eval(grid)
        self.context.memory.need(len(block.axis) * grid.count * _cell_bytes(block) + _starts_bytes(block))
        parameters = self._parameters(grid, looked_at, block)
        axis = block.axis if self.plan.function in KEEPING_NAMES else block.axis.without_names
        if block.histograms is not None:
            result = self._mixed(axis, block, block.histograms, looked_at, parameters)
        elif block.starts is not None and self.plan.function == "resets":
            result = compared(axis, block, *self._bounds(block, looked_at), resets=True)
        else:
            values, present = self._floats(block, looked_at, parameters)
            result = VectorBlock(axis, values, present)
            self._note_overlaps(block, looked_at)
        if self.plan.function in COUNTER_FUNCTIONS:
            note_non_counters(result, self.context, self.plan.arg_spans[0])
        return result

    def _parameters(self, grid: Grid, looked_at: Grid, block: SeriesBlock) -> tuple[F64, ...]:
        values = [scalar(arg, grid).values for arg in self.args]
        match self.plan.function:
            case "quantile_over_time":
                wrong = ~((values[0] >= 0) & (values[0] <= 1))
                if wrong.any():
                    floats = block if block.histograms is None else block.filter(~are_histograms(block.histograms))
                    note_quantiles(values[0][self._asked(floats, looked_at)], self.plan.arg_spans[0], self.context)
            case "predict_linear":
                # The kernel predicts from the end of the window; the query asks from the step.
                values[0] = values[0] + (grid.times() - looked_at.times()) / 1000
            case "double_exponential_smoothing":
                for factor, name in zip(values, ("smoothing", "trend"), strict=True):
                    wrong = (factor <= 0) | (factor >= 1)
                    if wrong.any():
                        _check_factor(factor[wrong & self._asked(block, looked_at)], name)
            case _:
                pass
        return tuple(values)

    def _asked(self, block: SeriesBlock, looked_at: Grid) -> Bool:
        """The steps at which some window has a sample: nobody minds a wrong argument elsewhere."""
        _, present = over_windows(WindowFunction.PRESENT, block, looked_at, self.windows.range_ms, self.context.threads)
        return present.any(axis=0).reshape(-1)

    def _floats(self, block: SeriesBlock, looked_at: Grid, parameters: tuple[F64, ...]) -> tuple[F64, Bool]:
        return over_windows(
            KERNELS[self.plan.function],
            block,
            looked_at,
            self.windows.range_ms,
            self.context.threads,
            parameters,
        )

    def _mixed(
        self, axis: Axis, block: SeriesBlock, histograms: Objects, looked_at: Grid, parameters: tuple[F64, ...]
    ) -> VectorBlock:
        """Windows over samples some of which are histograms."""
        name = self.plan.function
        is_histogram = are_histograms(histograms)
        low, high = self._bounds(block, looked_at)
        before = totals_before(is_histogram)
        in_window = high - low
        histograms_in = before[high] - before[low]
        floats_in = in_window - histograms_in
        if name in OF_ANY_SAMPLE:
            values = in_window.astype(np.float64) if name == "count_over_time" else np.ones(in_window.shape)
            return VectorBlock(axis, values, in_window > 0)
        if name in PICKING:
            return self._pick(axis, block, low, high)
        if name in COMPARING:
            return compared(axis, block, low, high, resets=name == "resets")
        floats = block.filter(~is_histogram)
        values, present = self._floats(floats, looked_at, parameters)
        mixed = (floats_in > 0) & (histograms_in > 0)
        windows = HistogramWindows(
            name, block, histograms, low, high, looked_at, self.windows.range_ms, self.context, self.plan.range.span
        )
        if name in OF_LAST_TWO:
            return self._last_two(axis, values, present, is_histogram, windows)
        if name in REFUSING_MIX:
            self._note_rows(block.axis, mixed, notes.mixed_floats_histograms, warn=True)
            self._note_overlaps(block, looked_at, histograms_in == 0)
            starts_count = block.starts is not None and name in COUNTER_FUNCTIONS
            enough = 1 if starts_count or name.endswith("_over_time") else 2
            found = windows.results((floats_in == 0) & (histograms_in >= enough))
            return VectorBlock(axis, values, (present & ~mixed) | are_histograms(found), found)
        self._note_rows(block.axis, mixed, notes.ignored_in_range, warn=False)
        return VectorBlock(axis, values, present)

    def _bounds(self, block: SeriesBlock, looked_at: Grid) -> tuple[I64, I64]:
        return window_bounds(block, looked_at, self.windows.range_ms, self.context.threads)

    def _note_overlaps(self, block: SeriesBlock, looked_at: Grid, of_floats: Bool | None = None) -> None:
        """Say which counters have start timestamps that contradict each other, in windows of floats; what is found in
        windows of histograms is told with their change."""
        if block.starts is None or self.plan.function not in COUNTER_FUNCTIONS:
            return
        wrong = overlaps(block.timestamps, block.starts)
        if not wrong.any():
            return
        low, high = self._bounds(block, looked_at)
        totals = totals_before(wrong)
        # The first sample of a window has none before it there.
        where = totals[high] > totals[np.minimum(low + 1, high)]
        self._note_rows(
            block.axis, where if of_floats is None else where & of_floats, notes.overlapping_start, warn=True
        )

    def _note_rows(self, axis: Axis, where: Bool, text: Callable[[str], str], warn: bool) -> None:
        for row in np.flatnonzero(where.any(axis=1)).tolist():
            shown = text(lb.get(axis.labels[row], METRIC_NAME))
            if warn:
                self.context.notes.warn(shown, self.plan.arg_spans[0])
            else:
                self.context.notes.inform(shown, self.plan.arg_spans[0])

    def _pick(self, axis: Axis, block: SeriesBlock, low: I64, high: I64) -> VectorBlock:
        """The first or the last sample of a window, whatever it is."""
        present = high > low
        index = np.where(present, high - 1 if "last" in self.plan.function else low, 0)
        if self.plan.function.startswith("ts_of"):
            return VectorBlock(axis, block.timestamps[index] / 1000, present)
        return VectorBlock(axis, block.values[index], present, gather(block.histograms, np.where(present, index, -1)))

    def _last_two(
        self, axis: Axis, values: F64, present: Bool, is_histogram: Bool, windows: HistogramWindows
    ) -> VectorBlock:
        two = windows.high - windows.low >= 2
        last = np.where(two, is_histogram[np.where(two, windows.high - 1, 0)], False)
        before = np.where(two, is_histogram[np.where(two, windows.high - 2, 0)], False)
        self._note_rows(windows.block.axis, two & (last != before), notes.mixed_floats_histograms, warn=True)
        found = windows.results(two & last & before)
        there = (present & two & ~last & ~before) | are_histograms(found)
        return VectorBlock(axis, values, there, found)


def compared(axis: Axis, block: SeriesBlock, low: I64, high: I64, *, resets: bool) -> VectorBlock:
    """How many samples are a reset, or a change, after the one before them, among those of each window."""
    totals = totals_before(differing_samples(block, resets))
    present = high > low
    first = np.where(present, low + 1, 0)
    last = np.where(present, high, 0)
    return VectorBlock(axis, (totals[last] - totals[first]).astype(np.float64), present)


def _cell_bytes(block: SeriesBlock) -> int:
    """What a cell of the result takes; the bounds of its window if they are needed; one that may be a histogram also
    that."""
    if block.histograms is None:
        return CELL_BYTES if block.starts is None else CELL_BYTES + 24
    return CELL_BYTES + 24 + objects_size_bytes(block.histograms) // max(1, len(block.histograms))


def _starts_bytes(block: SeriesBlock) -> int:
    """What is worked out for each sample that may have a start timestamp: whether it is a reset, and how many are."""
    return 0 if block.starts is None else 10 * len(block.timestamps)


def note_non_counters(result: VectorBlock, context: Context, span: Span) -> None:
    """Say which of the floats that were taken for counters are not named like one."""
    names = {
        lb.get(result.axis.labels[row], METRIC_NAME) for row in np.flatnonzero(result.is_float.any(axis=1)).tolist()
    }
    for name in names:
        if name and not name.endswith(COUNTER_SUFFIXES):
            context.notes.inform(notes.possible_non_counter(name), span)


def _check_factor(wrong: F64, name: str) -> None:
    if len(wrong):
        short = "sf" if name == "smoothing" else "tf"
        shown = f"{wrong[0]:f}" if np.isfinite(wrong[0]) else show_float(float(wrong[0]))
        raise ExecutionError(f"invalid {name} factor. Expected: 0 < {short} < 1, got: {shown}")

"""Functions over windows of samples, for all series and steps of a query at once.

For the step at t the window is (t - offset - range, t - offset]. Samples are floats: the caller has taken histograms
and, for ranges, staleness markers away. Results are those of Prometheus 3.14, to the last bit where the modules of the
families (`windows_*`) do not say otherwise. Does not know labels, nor what a function is called in PromQL.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Axis, Bool, Grid, SeriesBlock
from quarterdeck.metrics.promql.kernels import windows_extremes as extremes
from quarterdeck.metrics.promql.kernels import windows_ranks as ranks
from quarterdeck.metrics.promql.kernels import windows_rates as rates
from quarterdeck.metrics.promql.kernels import windows_scan as scan
from quarterdeck.metrics.promql.kernels import windows_smoothing as smoothing
from quarterdeck.metrics.promql.kernels import windows_spread as spread
from quarterdeck.metrics.promql.kernels import windows_starts as starting
from quarterdeck.metrics.promql.kernels import windows_sums as sums
from quarterdeck.metrics.promql.kernels import windows_trends as trends
from quarterdeck.metrics.promql.kernels.compile import given, warms
from quarterdeck.metrics.promql.kernels.threads import Threads


class WindowFunction(StrEnum):
    """What can be asked of a window. An empty one has no result; those marked with 2 need two samples."""

    RATE = "rate"  # 2
    INCREASE = "increase"  # 2
    DELTA = "delta"  # 2
    IRATE = "irate"  # 2
    IDELTA = "idelta"  # 2
    RESETS = "resets"
    CHANGES = "changes"
    DERIV = "deriv"  # 2
    PREDICT_LINEAR = "predict_linear"  # 2; parameter: seconds
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COUNT = "count"
    PRESENT = "present"
    LAST = "last"
    FIRST = "first"
    STDDEV = "stddev"
    STDVAR = "stdvar"
    QUANTILE = "quantile"  # parameter: which, from 0 to 1
    MAD = "mad"
    DOUBLE_EXPONENTIAL = "double_exponential"  # 2; parameters: smoothing factor, trend factor
    TS_OF_MIN = "ts_of_min"
    TS_OF_MAX = "ts_of_max"
    TS_OF_LAST = "ts_of_last"
    TS_OF_FIRST = "ts_of_first"


_SERIES_WORK: Final = 20_000_000
"""Work on one series, in samples, beyond which its steps are cut into pieces: within one nothing can be stopped."""

_Kernel: TypeAlias = Callable[[int, int, I64, I64, F64, F64, int, int, int, int, int, F64, Bool], None]
_StartsKernel: TypeAlias = Callable[[int, int, I64, I64, F64, I64, Bool, int, int, int, int, int, F64, Bool], None]


@dataclass(frozen=True, slots=True)
class _Entry:
    kernel: _Kernel
    mode: int
    parameters: int = 0
    cell_cost: float = 1
    """How long a cell takes, measured in samples that are only looked at."""
    window_cost: float = 0
    """The same for each sample of its window."""


_ENTRIES: Final = {
    WindowFunction.RATE: _Entry(rates.rates, rates.RATE, cell_cost=4, window_cost=0.05),
    WindowFunction.INCREASE: _Entry(rates.rates, rates.INCREASE, cell_cost=4, window_cost=0.05),
    WindowFunction.DELTA: _Entry(rates.rates, rates.DELTA, cell_cost=4),
    WindowFunction.IRATE: _Entry(rates.instant_rates, rates.IRATE, cell_cost=2),
    WindowFunction.IDELTA: _Entry(rates.instant_rates, rates.IDELTA, cell_cost=2),
    WindowFunction.RESETS: _Entry(rates.transitions, rates.RESETS),
    WindowFunction.CHANGES: _Entry(rates.transitions, rates.CHANGES),
    WindowFunction.DERIV: _Entry(trends.lines, trends.DERIV, cell_cost=20),
    WindowFunction.PREDICT_LINEAR: _Entry(trends.lines, trends.PREDICT_LINEAR, 1, cell_cost=20),
    WindowFunction.SUM: _Entry(sums.sums, sums.SUM, cell_cost=8),
    WindowFunction.AVG: _Entry(sums.sums, sums.AVG, cell_cost=8),
    WindowFunction.MIN: _Entry(extremes.extremes, extremes.MIN, cell_cost=8),
    WindowFunction.MAX: _Entry(extremes.extremes, extremes.MAX, cell_cost=8),
    WindowFunction.COUNT: _Entry(scan.edges, scan.COUNT),
    WindowFunction.PRESENT: _Entry(scan.edges, scan.PRESENT),
    WindowFunction.LAST: _Entry(scan.edges, scan.LAST),
    WindowFunction.FIRST: _Entry(scan.edges, scan.FIRST),
    WindowFunction.STDDEV: _Entry(spread.spreads, spread.STDDEV, cell_cost=20),
    WindowFunction.STDVAR: _Entry(spread.spreads, spread.STDVAR, cell_cost=20),
    WindowFunction.QUANTILE: _Entry(ranks.ranks, ranks.QUANTILE, 1, cell_cost=50, window_cost=0.1),
    WindowFunction.MAD: _Entry(ranks.ranks, ranks.MAD, cell_cost=50, window_cost=10),
    WindowFunction.DOUBLE_EXPONENTIAL: _Entry(smoothing.smoothings, 0, 2, cell_cost=10, window_cost=0.3),
    WindowFunction.TS_OF_MIN: _Entry(extremes.extremes, extremes.TS_OF_MIN, cell_cost=8),
    WindowFunction.TS_OF_MAX: _Entry(extremes.extremes, extremes.TS_OF_MAX, cell_cost=8),
    WindowFunction.TS_OF_LAST: _Entry(scan.edges, scan.TS_OF_LAST),
    WindowFunction.TS_OF_FIRST: _Entry(scan.edges, scan.TS_OF_FIRST),
}


_FROM_STARTS: Final[dict[WindowFunction, tuple[_StartsKernel, int]]] = {
    WindowFunction.RATE: (starting.rates_from_starts, starting.RATE),
    WindowFunction.INCREASE: (starting.rates_from_starts, starting.INCREASE),
    WindowFunction.IRATE: (starting.instant_rates_from_starts, starting.IRATE),
}
"""The functions that look at start timestamps, if the block has any. (So does `resets`; its callers count for it what
they know to be resets.)"""


def over_windows(
    function: WindowFunction,
    block: SeriesBlock,
    grid: Grid,
    range_ms: int,
    threads: Threads,
    parameters: tuple[F64, ...] = (),
    offset_ms: int = 0,
) -> tuple[F64, Bool]:
    """For each series and step the function of the window: the values (NaN where absent), and which are present.

    A parameter has one value for each step. RESETS does not look at start timestamps.
    """
    entry = _ENTRIES[function]
    if len(parameters) != entry.parameters:
        raise ValueError(f"{function} takes {entry.parameters} parameters, not {len(parameters)}")
    cost = entry.cell_cost
    if entry.window_cost:
        cost += entry.window_cost * _samples_in_window(block, grid, range_ms)
    pieces = min(grid.count, int(cost * grid.count) // _SERIES_WORK + 1)
    if pieces > 1:
        found = [
            over_windows(
                function,
                block,
                grid.cut(low, high),
                range_ms,
                threads,
                tuple(parameter[low:high] for parameter in parameters),
                offset_ms,
            )
            for low, high in pairwise(grid.count * piece // pieces for piece in range(pieces + 1))
        ]
        return np.concatenate([out for out, _ in found], axis=1), np.concatenate([there for _, there in found], axis=1)
    series = len(block.offsets) - 1
    out = np.empty((series, grid.count))
    present = np.empty((series, grid.count), np.bool_)
    offsets, timestamps, values = given(block.offsets), given(block.timestamps), given(block.values)
    rows = given(np.array(parameters, np.float64).reshape(len(parameters), grid.count))

    def part(low: int, high: int) -> None:
        entry.kernel(
            low,
            high,
            offsets,
            timestamps,
            values,
            rows,
            grid.start_ms,
            grid.step_ms,
            range_ms,
            offset_ms,
            entry.mode,
            out,
            present,
        )

    if block.starts is not None and function in _FROM_STARTS:
        started = _part_from_starts(function, block, block.starts, grid, range_ms, offset_ms, out, present)
        threads.run(block.offsets, int(cost * grid.count), started)
    else:
        threads.run(block.offsets, int(cost * grid.count), part)
    return out, present


def _part_from_starts(
    function: WindowFunction,
    block: SeriesBlock,
    starts: I64,
    grid: Grid,
    range_ms: int,
    offset_ms: int,
    out: F64,
    present: Bool,
) -> Callable[[int, int], None]:
    kernel, mode = _FROM_STARTS[function]
    offsets, timestamps, values = given(block.offsets), given(block.timestamps), given(block.values)
    starts, restarted = given(starts), given(starting.restarts(block.timestamps, starts))

    def part(low: int, high: int) -> None:
        kernel(
            low,
            high,
            offsets,
            timestamps,
            values,
            starts,
            restarted,
            grid.start_ms,
            grid.step_ms,
            range_ms,
            offset_ms,
            mode,
            out,
            present,
        )

    return part


def instant(
    block: SeriesBlock, grid: Grid, lookback_ms: int, threads: Threads, offset_ms: int = 0
) -> tuple[F64, Bool, I64]:
    """For each series and step the last sample that is not older than the lookback.

    The values (NaN where absent), which are present, and where in the block the sample is (-1 where absent). A sample
    that is a staleness marker makes the cell absent.
    """
    series = len(block.offsets) - 1
    out = np.empty((series, grid.count))
    present = np.empty((series, grid.count), np.bool_)
    found = np.empty((series, grid.count), np.int64)
    offsets, timestamps, values = given(block.offsets), given(block.timestamps), given(block.values)
    bits = given(values.view(np.int64))
    start_ms = grid.start_ms - offset_ms

    def part(low: int, high: int) -> None:
        scan.instants(
            low, high, offsets, timestamps, values, bits, start_ms, grid.step_ms, lookback_ms, out, present, found
        )

    threads.run(block.offsets, grid.count, part)
    return out, present, found


def window_bounds(
    block: SeriesBlock, grid: Grid, range_ms: int, threads: Threads, offset_ms: int = 0
) -> tuple[I64, I64]:
    """For each series and step where in the block the window begins, and where the first sample after it is."""
    series = len(block.offsets) - 1
    lows = np.empty((series, grid.count), np.int64)
    highs = np.empty((series, grid.count), np.int64)
    offsets, timestamps = given(block.offsets), given(block.timestamps)
    start_ms = grid.start_ms - offset_ms

    def part(low: int, high: int) -> None:
        scan.bounds(low, high, offsets, timestamps, start_ms, grid.step_ms, range_ms, lows, highs)

    threads.run(block.offsets, grid.count, part)
    return lows, highs


def _samples_in_window(block: SeriesBlock, grid: Grid, range_ms: int) -> float:
    """About how many: as if the samples of the block were spread evenly over all windows."""
    per_series = len(block.timestamps) / max(len(block.offsets) - 1, 1)
    return per_series * range_ms / max(grid.end_ms - grid.start_ms + range_ms, 1)


@warms
def warm_windows() -> None:
    """Every function once, on one series of two samples."""
    block = SeriesBlock(Axis.of(()), np.array([0, 2]), np.array([0, 1000]), np.array([1.0, 2.0]))
    grid = Grid(1000, 1000, 1)
    with Threads(1) as threads:
        for function, entry in _ENTRIES.items():
            over_windows(function, block, grid, 2000, threads, tuple(np.full(1, 0.5) for _ in range(entry.parameters)))
        started = replace(block, starts=np.array([0, 500]))
        for function in _FROM_STARTS:
            over_windows(function, started, grid, 2000, threads)
        instant(block, grid, 2000, threads)
        window_bounds(block, grid, 2000, threads)

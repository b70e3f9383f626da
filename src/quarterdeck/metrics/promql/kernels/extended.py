"""Functions over windows that know the samples around them, for all series and steps of a query at once.

Samples are floats without staleness markers, as for `windows`. Does not know labels.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, Axis, Bool, Grid, SeriesBlock
from quarterdeck.metrics.promql.kernels import extended_windows as kernels
from quarterdeck.metrics.promql.kernels.compile import given, warms
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.kernels.windows import WindowFunction

_RATES: Final = {
    WindowFunction.RATE: kernels.RATE,
    WindowFunction.INCREASE: kernels.INCREASE,
    WindowFunction.DELTA: kernels.DELTA,
}
_TRANSITIONS: Final = {WindowFunction.RESETS: kernels.RESETS, WindowFunction.CHANGES: kernels.CHANGES}
_CELL_COST: Final = 4


def over_extended_windows(
    function: WindowFunction,
    block: SeriesBlock,
    grid: Grid,
    range_ms: int,
    lookback_ms: int,
    threads: Threads,
    *,
    smoothed: bool,
) -> tuple[F64, Bool]:
    """For each series and step the function of the window: the values (NaN where absent), and which are present."""
    if function not in _RATES and (smoothed or function not in _TRANSITIONS):
        raise ValueError(f"{function} does not know the samples around a window")
    out, present = _cells(block, grid)
    offsets, timestamps, values = given(block.offsets), given(block.timestamps), given(block.values)
    start_ms, step_ms = grid.start_ms, grid.step_ms

    def rates(low: int, high: int) -> None:
        kernels.extended_rates(
            low,
            high,
            offsets,
            timestamps,
            values,
            start_ms,
            step_ms,
            range_ms,
            lookback_ms,
            smoothed,
            _RATES[function],
            out,
            present,
        )

    def transitions(low: int, high: int) -> None:
        kernels.anchored_transitions(
            low,
            high,
            offsets,
            timestamps,
            values,
            start_ms,
            step_ms,
            range_ms,
            lookback_ms,
            _TRANSITIONS[function],
            out,
            present,
        )

    threads.run(block.offsets, _CELL_COST * grid.count, rates if function in _RATES else transitions)
    return out, present


def smoothed_instant(block: SeriesBlock, grid: Grid, lookback_ms: int, threads: Threads) -> tuple[F64, Bool]:
    """For each series and step the value on the line between the samples around it.

    The last sample holds for a lookback; before the first one there is no value.
    """
    out, present = _cells(block, grid)
    offsets, timestamps, values = given(block.offsets), given(block.timestamps), given(block.values)

    def part(low: int, high: int) -> None:
        kernels.smoothed_instants(
            low, high, offsets, timestamps, values, grid.start_ms, grid.step_ms, lookback_ms, out, present
        )

    threads.run(block.offsets, _CELL_COST * grid.count, part)
    return out, present


def _cells(block: SeriesBlock, grid: Grid) -> tuple[F64, Bool]:
    shape = (len(block.offsets) - 1, grid.count)
    return np.empty(shape), np.empty(shape, np.bool_)


@warms
def warm_extended_windows() -> None:
    """Every function once, on one series of two samples."""
    block = SeriesBlock(Axis.of(()), np.array([0, 2]), np.array([0, 1000]), np.array([1.0, 2.0]))
    grid = Grid(1000, 1000, 1)
    with Threads(1) as threads:
        for function in (*_RATES, *_TRANSITIONS):
            over_extended_windows(function, block, grid, 2000, 1000, threads, smoothed=function in _RATES)
        smoothed_instant(block, grid, 2000, threads)

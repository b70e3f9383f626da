"""double_exponential_smoothing: the smoothed value at the end of a window, which depends on where the window begins.

Windows share no work, and within one each sample waits for the one before. Where windows overlap much all that
contain a sample take it at the same time, so that the processor works on several at once. Each still sees its samples
in order and with the rounding of Prometheus. The time is that of steps x samples in a window.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_scan import find_windows, overlap_much

_SMALL: Final = 8
"""Samples in a window up to which taking one window after the other is as fast."""


@part_of_kernel
def smooth(values: F64, first: int, past: int, smoothing: float, trending: float) -> float:
    """The smoothed value at the end of a window of two samples or more."""
    before = 0.0
    now = values[first]
    trend = values[first + 1] - values[first]
    for at in range(first + 1, past):
        if at > first + 1:
            trend = trending * (now - before) + (1.0 - trending) * trend
        new = smoothing * values[at] + (1.0 - smoothing) * (now + trend)
        before = now
        now = new
    return now


@part_of_kernel
def advance(levels: F64, trends: F64, low: int, high: int, value: float, smoothing: float, trending: float) -> None:
    """One sample more for the windows from `low` to before `high`."""
    # Of indices without a sign the compiler knows that they do not count from the end, and takes several at once.
    for window in range(np.uint64(low), np.uint64(high)):
        level = levels[window]
        trend = trends[window]
        new = smoothing * value + (1.0 - smoothing) * (level + trend)
        trends[window] = trending * (new - level) + (1.0 - trending) * trend
        levels[window] = new


@part_of_kernel
def smooth_together(
    values: F64, lows: I64, highs: I64, smoothing: float, trending: float, trends: F64, levels: F64
) -> None:
    """All windows of a series. `levels` is the result, where a window has two samples or more.

    A sample is the first of the windows from `begun` on, the second of those from `running` on, the third or a later
    one of those from `left` on, and in none before. `trends` are those with which the next sample is foreseen.
    """
    steps = lows.size
    left = 0
    running = 0
    begun = 0
    for at in range(lows[0], highs[-1]):
        value = values[at]
        while left < steps and highs[left] <= at:
            left += 1
        while running < begun:
            trends[running] = value - levels[running]
            running += 1
        if left < running:
            advance(levels, trends, left, running, value, smoothing, trending)
        while begun < steps and lows[begun] <= at:
            levels[begun] = value
            begun += 1


@part_of_kernel
def is_constant(row: F64) -> bool:
    """Whether all numbers are equal."""
    same = True
    for at in range(row.size):
        same &= row[at] == row[0]
    return same


@kernel
def smoothings(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    values: F64,
    parameters: F64,
    start_ms: int,
    step_ms: int,
    range_ms: int,
    offset_ms: int,
    _mode: int,
    out: F64,
    present: Bool,
) -> None:
    """Double exponential smoothing; the parameters are the smoothing factor and the trend factor."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    trends = np.empty(steps, np.float64)
    steady = steps > 0 and is_constant(parameters[0]) and is_constant(parameters[1])
    for series in range(low, high):
        find_windows(
            timestamps, offsets[series], offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs
        )
        together = steady and overlap_much(lows, highs, _SMALL)
        if together:
            smooth_together(values, lows, highs, parameters[0, 0], parameters[1, 0], trends, out[series])
        for step in range(steps):
            first = int(lows[step])
            past = int(highs[step])
            result = np.nan
            if past - first >= 2:
                if together:
                    result = out[series, step]
                else:
                    result = smooth(values, first, past, parameters[0, step], parameters[1, step])
            out[series, step] = result
            present[series, step] = past - first >= 2

"""deriv and predict_linear: the line of least squares through a window.

Small windows, and values that are not finite or whose sums may overflow, are computed as Prometheus does: four
compensated sums over the samples of each window. Windows that overlap much share their work as in `windows_sums`: the
sums over two stretches, added, are those over both. Times and values are taken relative to a sample of both, so that
nothing large cancels out where a series varies little around a large number. Prometheus takes the values as they are,
and what the line rises in a window is wrong by some of their last bits. So the results are the same to twelve digits
while the values are not more than some hundred times that rise; beyond that ours is the better one.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_scan import find_windows, is_tame, longest, overlap_much
from quarterdeck.metrics.promql.kernels.windows_sums import add, error_of

DERIV: Final = 0
PREDICT_LINEAR: Final = 1

_LIMIT: Final = 1e250
"""The products of these with times, and the sum of many, do not overflow."""
_SMALL: Final = 16
"""Samples in a window up to which it is computed anew, to the last bit of Prometheus, though that is slower."""
_FAR: Final = 8
"""Ranges between a window and its step from which Prometheus' rounding of times shows: there it is done as it does."""


@part_of_kernel
def add_finite(value: float, total: float, lost: float) -> tuple[float, float]:
    """What `add` gives, without branches, where nothing overflows."""
    new = total + value
    return new, lost + error_of(total, value, new)


@part_of_kernel
def fit_line(timestamps: I64, values: F64, first: int, past: int, zero_ms: int, tame: bool) -> tuple[float, float]:
    """The line of least squares: its slope a second, and its value at the time `zero_ms`."""
    x_sum = 0.0
    x_lost = 0.0
    y_sum = 0.0
    y_lost = 0.0
    xy_sum = 0.0
    xy_lost = 0.0
    xx_sum = 0.0
    xx_lost = 0.0
    level = values[first]
    is_level = True
    for at in range(first, past):
        y = values[at]
        x = float(timestamps[at] - zero_ms) / 1e3
        # The first differs from itself if it is NaN.
        is_level &= (y == level) | (at == first)
        if tame:
            x_sum, x_lost = add_finite(x, x_sum, x_lost)
            y_sum, y_lost = add_finite(y, y_sum, y_lost)
            xy_sum, xy_lost = add_finite(x * y, xy_sum, xy_lost)
            xx_sum, xx_lost = add_finite(x * x, xx_sum, xx_lost)
        else:
            x_sum, x_lost = add(x, x_sum, x_lost)
            y_sum, y_lost = add(y, y_sum, y_lost)
            xy_sum, xy_lost = add(x * y, xy_sum, xy_lost)
            xx_sum, xx_lost = add(x * x, xx_sum, xx_lost)
    if is_level:
        if np.isinf(level):
            return np.nan, np.nan
        return 0.0, level
    count = float(past - first)
    x_sum += x_lost
    y_sum += y_lost
    xy_sum += xy_lost
    xx_sum += xx_lost
    slope = (xy_sum - x_sum * y_sum / count) / (xx_sum - x_sum * x_sum / count)
    return slope, y_sum / count - slope * x_sum / count


@part_of_kernel
def slide(
    timestamps: I64,
    values: F64,
    begin: int,
    lows: I64,
    highs: I64,
    start_ms: int,
    step_ms: int,
    parameters: F64,
    mode: int,
    sums: F64,
    out: F64,
    present: Bool,
) -> None:
    """All windows of a series; `sums` are those of x, y, x * x and x * y over [k, middle), at k - begin.

    Here x and y are the milliseconds and the rise since the sample before `middle`. Every window contains that sample:
    no outlier spoils the digits of a window that it is not in.
    """
    middle = begin
    done = begin
    pivot_ms = 0
    pivot = 0.0
    x_sum = 0.0
    y_sum = 0.0
    y_lost = 0.0
    xx_sum = 0.0
    xx_lost = 0.0
    xy_sum = 0.0
    xy_lost = 0.0
    compared = begin
    changed = begin  # the last sample up to there that differs from the one before it
    for step in range(lows.size):
        first = int(lows[step])
        past = int(highs[step])
        present[step] = past - first >= 2
        if past - first < 2:
            out[step] = np.nan
            continue
        for at in range(max(compared, first + 1), past):
            if values[at] != values[at - 1]:
                changed = at
        compared = past
        if first >= middle:
            pivot_ms = timestamps[past - 1]
            pivot = values[past - 1]
            x_sum = 0.0
            y_sum = 0.0
            y_lost = 0.0
            xx_sum = 0.0
            xx_lost = 0.0
            xy_sum = 0.0
            xy_lost = 0.0
            for at in range(past - 1, first - 1, -1):
                x = float(timestamps[at] - pivot_ms)
                y = values[at] - pivot
                x_sum += x  # whole numbers: this is exact
                y_sum, y_lost = add_finite(y, y_sum, y_lost)
                xx_sum, xx_lost = add_finite(x * x, xx_sum, xx_lost)
                xy_sum, xy_lost = add_finite(x * y, xy_sum, xy_lost)
                sums[at - begin, 0] = x_sum
                sums[at - begin, 1] = y_sum + y_lost
                sums[at - begin, 2] = xx_sum + xx_lost
                sums[at - begin, 3] = xy_sum + xy_lost
            middle = past
            done = past
            x_sum = 0.0
            y_sum = 0.0
            y_lost = 0.0
            xx_sum = 0.0
            xx_lost = 0.0
            xy_sum = 0.0
            xy_lost = 0.0
        for at in range(done, past):
            x = float(timestamps[at] - pivot_ms)
            y = values[at] - pivot
            x_sum += x
            y_sum, y_lost = add_finite(y, y_sum, y_lost)
            xx_sum, xx_lost = add_finite(x * x, xx_sum, xx_lost)
            xy_sum, xy_lost = add_finite(x * y, xy_sum, xy_lost)
        done = past
        slope = 0.0
        level = values[first]
        if changed > first:
            count = float(past - first)
            x_mean = (sums[first - begin, 0] + x_sum) / count
            y_both = sums[first - begin, 1] + (y_sum + y_lost)
            xx = (sums[first - begin, 2] + (xx_sum + xx_lost)) - x_mean * x_mean * count
            xy = (sums[first - begin, 3] + (xy_sum + xy_lost)) - x_mean * y_both
            slope = xy * 1e3 / xx
            to_zero_s = (float(start_ms + step * step_ms - pivot_ms) - x_mean) / 1e3
            level = pivot + (y_both / count + slope * to_zero_s)
        out[step] = slope if mode == DERIV else slope * parameters[0, step] + level


@kernel
def lines(
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
    mode: int,
    out: F64,
    present: Bool,
) -> None:
    """DERIV and PREDICT_LINEAR, which has one parameter: by how many seconds to look ahead of the step's time."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    sums = np.empty((longest(offsets, low, high), 4), np.float64)
    is_near = mode == DERIV or abs(offset_ms) <= _FAR * range_ms
    for series in range(low, high):
        begin = int(offsets[series])
        find_windows(timestamps, begin, offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs)
        if steps == 0:
            continue
        tame = is_tame(values, lows[0], highs[-1], _LIMIT)
        if tame and is_near and overlap_much(lows, highs, _SMALL):
            slide(
                timestamps,
                values,
                begin,
                lows,
                highs,
                start_ms,
                step_ms,
                parameters,
                mode,
                sums,
                out[series],
                present[series],
            )
            continue
        for step in range(steps):
            first = int(lows[step])
            past = int(highs[step])
            result = np.nan
            if past - first >= 2:
                if mode == DERIV:
                    result = fit_line(timestamps, values, first, past, timestamps[first], tame)[0]
                else:
                    slope, level = fit_line(timestamps, values, first, past, start_ms + step * step_ms, tame)
                    result = slope * parameters[0, step] + level
            out[series, step] = result
            present[series, step] = past - first >= 2

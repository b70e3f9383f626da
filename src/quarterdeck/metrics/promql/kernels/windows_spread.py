"""stddev and stdvar over time.

Values that are not finite, or whose squares may overflow, are computed as Prometheus does. Of the others small windows
are read twice, first for the mean. Windows that overlap much share their work as in `windows_sums`: two stretches of
samples, each with its mean and sum of squared deviations, make one (Chan, Golub and LeVeque 1979). Values are taken
relative to one of them, so that little is lost when a series varies little around a large number, and nothing when it
is constant. Prometheus loses more there: the results are the same to twelve digits while the mean is not more than
some thousand standard deviations, and beyond that ours is the better one.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_scan import find_windows, is_tame, longest, overlap_much
from quarterdeck.metrics.promql.kernels.windows_sums import add

STDVAR: Final = 0
STDDEV: Final = 1

_LIMIT: Final = 1e140
"""The squares of these, and the sum of many, do not overflow."""
_SMALL: Final = 16
"""Samples in a window up to which reading it twice is as fast."""


@part_of_kernel
def variance_in_order(values: F64, first: int, past: int) -> float:
    """As Prometheus does it: Welford's method with compensated sums."""
    mean = 0.0
    mean_lost = 0.0
    squares = 0.0
    squares_lost = 0.0
    for at in range(first, past):
        value = values[at]
        delta = value - (mean + mean_lost)
        mean, mean_lost = add(delta / float(at - first + 1), mean, mean_lost)
        squares, squares_lost = add(delta * (value - (mean + mean_lost)), squares, squares_lost)
    return (squares + squares_lost) / float(past - first)


@part_of_kernel
def variance_in_two_passes(values: F64, first: int, past: int) -> float:
    """The mean first: relative to a value of the window, so that what rounding takes from it does not matter."""
    pivot = values[first]
    total = 0.0
    for at in range(first, past):
        total += values[at] - pivot
    count = float(past - first)
    mean = total / count
    squares = 0.0
    for at in range(first, past):
        delta = (values[at] - pivot) - mean
        squares += delta * delta
    return squares / count


@part_of_kernel
def slide(
    values: F64, begin: int, lows: I64, highs: I64, is_root: bool, means: F64, squares: F64, out: F64, present: Bool
) -> None:
    """All windows of a series; `means` and `squares` are those of [k, middle), at k - begin.

    Both stretches are relative to a sample of theirs that every window with the stretch contains: the one before
    `middle` and the one at it. An outlier then spoils the digits of no window that it is not in.
    """
    middle = begin
    done = begin
    pivot = 0.0
    mean = 0.0
    square = 0.0
    for step in range(lows.size):
        first = int(lows[step])
        past = int(highs[step])
        if past == first:
            out[step] = np.nan
            present[step] = False
            continue
        if first >= middle:
            pivot = values[past - 1]
            mean = 0.0
            square = 0.0
            for at in range(past - 1, first - 1, -1):
                value = values[at] - pivot
                delta = value - mean
                mean += delta / float(past - at)
                square += delta * (value - mean)
                means[at - begin] = mean
                squares[at - begin] = square
            middle = past
            done = past
            mean = 0.0
            square = 0.0
        for at in range(done, past):
            value = values[at] - values[middle]
            delta = value - mean
            mean += delta / float(at - middle + 1)
            square += delta * (value - mean)
        done = past
        variance = squares[first - begin]
        count = float(past - first)
        if past > middle:
            apart = (mean - means[first - begin]) + (values[middle] - pivot)
            variance += square + apart * apart * (float(middle - first) * float(past - middle) / count)
        variance /= count
        out[step] = np.sqrt(variance) if is_root else variance
        present[step] = True


@kernel
def spreads(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    values: F64,
    _parameters: F64,
    start_ms: int,
    step_ms: int,
    range_ms: int,
    offset_ms: int,
    mode: int,
    out: F64,
    present: Bool,
) -> None:
    """STDVAR and STDDEV."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    most = longest(offsets, low, high)
    means = np.empty(most, np.float64)
    squares = np.empty(most, np.float64)
    for series in range(low, high):
        begin = int(offsets[series])
        find_windows(timestamps, begin, offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs)
        if steps == 0:
            continue
        tame = is_tame(values, lows[0], highs[-1], _LIMIT)
        if tame and overlap_much(lows, highs, _SMALL):
            slide(values, begin, lows, highs, mode == STDDEV, means, squares, out[series], present[series])
            continue
        for step in range(steps):
            first = int(lows[step])
            past = int(highs[step])
            result = np.nan
            if past > first and tame:
                result = variance_in_two_passes(values, first, past)
            elif past > first:
                result = variance_in_order(values, first, past)
            out[series, step] = np.sqrt(result) if mode == STDDEV else result
            present[series, step] = past > first

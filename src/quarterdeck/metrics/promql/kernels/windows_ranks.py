"""quantile and mad over time.

Small windows are kept sorted (`windows_sorted`); for the quantiles of large ones the samples are counted by rank
(`windows_tally`). In both NaN is not among the numbers but counted apart: it sorts before all of them.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_scan import find_windows, longest, overlap_much
from quarterdeck.metrics.promql.kernels.windows_sorted import fill, move
from quarterdeck.metrics.promql.kernels.windows_tally import nth, put, rank, stretches

QUANTILE: Final = 0
MAD: Final = 1

_MANY: Final = 256
"""When so many samples come and go, sorting anew is faster however long the window: moving one takes time in
proportion to it, and for a window of a million that is seconds."""
_SMALL: Final = 24
"""Samples in a window up to which keeping them sorted is faster."""


@part_of_kernel
def place_in(phi: float, count: int) -> tuple[int, float]:
    """Where a quantile lies among `count` values: after which of them, and how far towards the next."""
    at = phi * (float(count) - 1.0)
    floor = np.floor(at)
    return max(0, int(floor)), at - floor


@part_of_kernel
def beyond(phi: float) -> float:
    """The quantile if it needs no values: for a `phi` that is not between 0 and 1."""
    if np.isnan(phi):
        return np.nan
    return np.inf if phi > 1 else -np.inf


@part_of_kernel
def quantile(numbers: F64, size: int, count: int, phi: float) -> float:
    """Between two of `count` values, of which the last `size` are the numbers and the others NaN."""
    if not 0 <= phi <= 1:
        return beyond(phi)
    lower, weight = place_in(phi, count)
    upper = min(count - 1, lower + 1)
    nans = count - size
    if lower < nans:
        return np.nan
    return numbers[lower - nans] * (1.0 - weight) + numbers[upper - nans] * weight


@part_of_kernel
def deviation(numbers: F64, size: int, count: int) -> float:
    """The median of the distances from the median; NaN if any sample is.

    Both ways from the median the distances rise: how many of the nearest half lie on each side is found by bisection.
    """
    median = quantile(numbers, size, count, 0.5)
    if size < count or np.isnan(median):
        return np.nan
    lower, weight = place_in(0.5, count)
    upper = min(count - 1, lower + 1)
    if np.isinf(median):
        # Infinity has no distance from itself; everything else is infinitely far.
        same = 0
        for place in range(size):
            same += numbers[place] == median
        return np.nan if lower < same else np.inf * (1.0 - weight) + np.inf * weight
    # Of the nearest `near` samples, `left` are among those up to `middle`, and the others follow it.
    near = lower + 1
    middle = lower
    left = max(0, near - (size - middle - 1))
    most = min(middle + 1, near)
    while left < most:
        half = (left + most) // 2
        if abs(numbers[middle - half] - median) < abs(numbers[middle + near - half] - median):
            left = half + 1
        else:
            most = half
    right = near - left
    at_lower = 0.0
    if left > 0:
        at_lower = abs(numbers[middle - left + 1] - median)
    if right > 0:
        at_lower = max(at_lower, abs(numbers[middle + right] - median))
    at_upper = np.inf
    if left <= middle:
        at_upper = abs(numbers[middle - left] - median)
    if middle + right + 1 < size:
        at_upper = min(at_upper, abs(numbers[middle + right + 1] - median))
    if upper == lower:
        at_upper = at_lower
    return at_lower * (1.0 - weight) + at_upper * weight


@part_of_kernel
def keep_sorted(
    values: F64, begin: int, lows: I64, highs: I64, is_mad: bool, phis: F64, numbers: F64, spare: F64, out: F64
) -> None:
    """All windows of a series that are not empty, sorted one after the other."""
    held = begin
    past_held = begin
    size = 0
    for step in range(lows.size):
        first = int(lows[step])
        past = int(highs[step])
        if past == first:
            continue
        if (first - held) + (past - past_held) > min((past - first) // 2, _MANY):
            size = fill(values, first, past, numbers, spare)
        else:
            size = move(values, held, first, past_held, past, numbers, size)
        held = first
        past_held = past
        if is_mad:
            out[step] = deviation(numbers, size, past - first)
        else:
            out[step] = quantile(numbers, size, past - first, phis[step])


@part_of_kernel
def count_by_rank(values: F64, lows: I64, highs: I64, phis: F64, out: F64) -> None:
    """The quantiles of all windows of a series that are not empty."""
    begin = int(lows[0])
    span = int(highs[-1]) - begin
    order, ranks_of, size = rank(values, begin, begin + span)
    ones = np.zeros(size + 1, np.int64)
    by_16 = np.zeros(stretches(size, 4), np.int64)
    by_256 = np.zeros(stretches(size, 8), np.int64)
    by_4096 = np.zeros(stretches(size, 12), np.int64)
    held = begin
    past_held = begin
    numbers = 0
    for step in range(lows.size):
        first = int(lows[step])
        past = int(highs[step])
        for at in range(past_held, past):
            if ranks_of[at - begin] >= 0:
                put(ranks_of[at - begin], 1, ones, by_16, by_256, by_4096)
                numbers += 1
        for at in range(held, first):
            if ranks_of[at - begin] >= 0:
                put(ranks_of[at - begin], -1, ones, by_16, by_256, by_4096)
                numbers -= 1
        held = first
        past_held = past
        count = past - first
        phi = phis[step]
        if count == 0:
            continue
        if not 0 <= phi <= 1:
            out[step] = beyond(phi)
            continue
        lower, weight = place_in(phi, count)
        nans = count - numbers
        if lower < nans:
            out[step] = np.nan
            continue
        upper = min(count - 1, lower + 1)
        left = values[order[nth(lower - nans, ones, by_16, by_256, by_4096)]]
        right = values[order[nth(upper - nans, ones, by_16, by_256, by_4096)]]
        out[step] = left * (1.0 - weight) + right * weight


@kernel
def ranks(
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
    """QUANTILE, whose parameter is which one, and MAD."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    phis = np.empty(steps, np.float64)
    if mode == QUANTILE:
        for step in range(steps):  # a slice of another would have seconds of numba's compiled with it
            phis[step] = parameters[0, step]
    most = longest(offsets, low, high)
    numbers = np.empty(most, np.float64)
    spare = np.empty(most, np.float64)
    for series in range(low, high):
        begin = int(offsets[series])
        find_windows(timestamps, begin, offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs)
        if steps == 0:
            continue
        for step in range(steps):
            out[series, step] = np.nan
            present[series, step] = highs[step] > lows[step]
        if mode == QUANTILE and overlap_much(lows, highs, _SMALL):
            count_by_rank(values, lows, highs, phis, out[series])
        else:
            keep_sorted(values, begin, lows, highs, mode == MAD, phis, numbers, spare, out[series])

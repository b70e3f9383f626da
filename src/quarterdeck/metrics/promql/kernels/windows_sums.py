"""sum and avg over time, with a second number beside each sum for what rounding took from it.

Windows that overlap much share their work: a window is [low, middle) and [middle, high), where the sums over
[k, middle) are known for every k and the sum over [middle, high) grows. When `low` has come to `middle`, `middle` moves
on to `high`. Nothing is ever subtracted, so no sample that has left leaves its rounding behind. The sum is the one that
adding from left to right gives, but for the last bit in rare cases; where sums may overflow, and for small windows, it
is added from left to right as Prometheus does.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_scan import find_windows, is_tame, longest, overlap_much

SUM: Final = 0
AVG: Final = 1

_LIMIT: Final = 1e300
"""A hundred million of these can be added before there is an overflow."""
_SMALL: Final = 16
"""Samples in a window up to which adding them anew is as fast."""


@part_of_kernel
def add(value: float, total: float, lost: float) -> tuple[float, float]:
    """One value more in a compensated sum (Neumaier's): the new total, and what all rounding so far has lost."""
    new = total + value
    if np.isinf(new):
        return new, 0.0
    if abs(total) >= abs(value):
        return new, lost + ((total - new) + value)
    return new, lost + ((value - new) + total)


@part_of_kernel
def error_of(left: float, right: float, total: float) -> float:
    """What `left + right` lost when it was rounded to the total, exactly; nothing may overflow."""
    part = total - left
    return (left - (total - part)) + (right - part)


@part_of_kernel
def sum_in_order(values: F64, first: int, past: int) -> float:
    """As Prometheus does it."""
    total = 0.0
    lost = 0.0
    for at in range(first, past):
        total, lost = add(values[at], total, lost)
    return total + lost


@part_of_kernel
def mean_in_order(values: F64, first: int, past: int) -> float:
    """As Prometheus does it: from the moment when the sum would overflow, the mean itself is carried on."""
    total = values[first]
    lost = 0.0
    mean = 0.0
    overflown = False
    for at in range(first + 1, past):
        count = float(at - first + 1)
        if not overflown:
            new_total, new_lost = add(values[at], total, lost)
            if not np.isinf(new_total):
                total = new_total
                lost = new_lost
                continue
            overflown = True
            mean = total / (count - 1.0)
            lost /= count - 1.0
        share = (count - 1.0) / count
        mean, lost = add(values[at] / count, share * mean, share * lost)
    if overflown:
        return mean + lost
    count = float(past - first)
    return total / count + lost / count


@part_of_kernel
def slide(
    values: F64, begin: int, lows: I64, highs: I64, is_mean: bool, totals: F64, losses: F64, out: F64, present: Bool
) -> None:
    """All windows of a series; `totals` and `losses` are the sums over [k, middle), at k - begin."""
    middle = begin
    done = begin
    total = 0.0
    lost = 0.0
    for step in range(lows.size):
        first = int(lows[step])
        past = int(highs[step])
        if past == first:
            out[step] = np.nan
            present[step] = False
            continue
        if first >= middle:
            total = 0.0
            lost = 0.0
            for at in range(past - 1, first - 1, -1):
                new = total + values[at]
                lost += error_of(total, values[at], new)
                total = new
                totals[at - begin] = total
                losses[at - begin] = lost
            middle = past
            done = past
            total = 0.0
            lost = 0.0
        for at in range(done, past):
            new = total + values[at]
            lost += error_of(total, values[at], new)
            total = new
        done = past
        left = totals[first - begin]
        both = left + total
        both_lost = losses[first - begin] + lost + error_of(left, total, both)
        if is_mean:
            count = float(past - first)
            out[step] = both / count + both_lost / count
        else:
            out[step] = both + both_lost
        present[step] = True


@kernel
def sums(
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
    """SUM and AVG."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    most = longest(offsets, low, high)
    totals = np.empty(most, np.float64)
    losses = np.empty(most, np.float64)
    for series in range(low, high):
        begin = int(offsets[series])
        find_windows(timestamps, begin, offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs)
        if steps == 0:
            continue
        if overlap_much(lows, highs, _SMALL) and is_tame(values, lows[0], highs[-1], _LIMIT):
            slide(values, begin, lows, highs, mode == AVG, totals, losses, out[series], present[series])
            continue
        for step in range(steps):
            first = int(lows[step])
            past = int(highs[step])
            result = np.nan
            if past > first:
                result = mean_in_order(values, first, past) if mode == AVG else sum_in_order(values, first, past)
            out[series, step] = result
            present[series, step] = past > first

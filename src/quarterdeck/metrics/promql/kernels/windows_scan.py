"""Which samples lie in which window, and the functions that need no more than that.

A window is left-open: for the step at t it holds the samples in (t - offset - range, t - offset]. All steps of a
series are found in one walk along its samples. Every kernel over windows has the signature of `edges`.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, STALE_BITS, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel

COUNT: Final = 0
PRESENT: Final = 1
FIRST: Final = 2
LAST: Final = 3
TS_OF_FIRST: Final = 4
TS_OF_LAST: Final = 5

# Beyond this many the next sample is farther away than a usual step: leap instead of walk.
_WALK: Final = 8


@part_of_kernel
def after(timestamps: I64, at: int, end: int, limit_ms: int) -> int:
    """The first index from `at` on whose time is later than the limit, or `end`."""
    for _ in range(_WALK):
        if at >= end or timestamps[at] > limit_ms:
            return at
        at += 1
    reach = _WALK
    while at + reach < end and timestamps[at + reach] <= limit_ms:
        at += reach + 1
        reach *= 2
    high = min(at + reach, end)
    while at < high:
        middle = (at + high) // 2
        if timestamps[middle] <= limit_ms:
            at = middle + 1
        else:
            high = middle
    return at


@part_of_kernel
def find_windows(
    timestamps: I64, begin: int, end: int, start_ms: int, step_ms: int, range_ms: int, lows: I64, highs: I64
) -> None:
    """For each step the first sample of its window and the one past the last; `start_ms` is without the offset."""
    low = begin
    high = begin
    for step in range(lows.size):
        time_ms = start_ms + step * step_ms
        high = after(timestamps, high, end, time_ms)
        low = after(timestamps, low, high, time_ms - range_ms)
        lows[step] = low
        highs[step] = high


@part_of_kernel
def longest(offsets: I64, low: int, high: int) -> int:
    """The number of samples of the longest series."""
    most = 0
    for series in range(low, high):
        most = max(most, offsets[series + 1] - offsets[series])
    return most


@part_of_kernel
def is_tame(values: F64, begin: int, end: int, limit: float) -> bool:
    """Whether all values are numbers between minus the limit and the limit."""
    wild = False
    for at in range(begin, end):
        wild |= not (abs(values[at]) <= limit)
    return not wild


@part_of_kernel
def overlap_much(lows: I64, highs: I64, least: int) -> bool:
    """Whether it is worth while to carry something over from window to window.

    It is not when windows have no more than `least` samples on average, or when most samples are in few windows.
    """
    total = 0
    for step in range(lows.size):
        total += highs[step] - lows[step]
    return total > least * lows.size and total > 4 * (highs[-1] - lows[0])


@kernel
def bounds(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    start_ms: int,
    step_ms: int,
    range_ms: int,
    lows: I64,
    highs: I64,
) -> None:
    """The windows themselves; `start_ms` is without the offset."""
    for series in range(low, high):
        find_windows(
            timestamps,
            offsets[series],
            offsets[series + 1],
            start_ms,
            step_ms,
            range_ms,
            lows[series],
            highs[series],
        )


@kernel
def instants(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    values: F64,
    bits: I64,
    start_ms: int,
    step_ms: int,
    lookback_ms: int,
    out: F64,
    present: Bool,
    found: I64,
) -> None:
    """The last sample in each window, unless it is a staleness marker. `bits` are the values, looked at as integers."""
    for series in range(low, high):
        begin = int(offsets[series])
        end = int(offsets[series + 1])
        at = begin
        for step in range(out.shape[1]):
            time_ms = start_ms + step * step_ms
            at = after(timestamps, at, end, time_ms)
            if at > begin and timestamps[at - 1] > time_ms - lookback_ms and bits[at - 1] != STALE_BITS:
                out[series, step] = values[at - 1]
                present[series, step] = True
                found[series, step] = at - 1
            else:
                out[series, step] = np.nan
                present[series, step] = False
                found[series, step] = -1


@kernel
def edges(
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
    """What the first and the last sample of a window tell: COUNT, PRESENT, FIRST, LAST, TS_OF_FIRST, TS_OF_LAST.

    As in every such kernel: writes the rows from `low` to before `high`; where a cell is not present its value is NaN.
    """
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    for series in range(low, high):
        begin = int(offsets[series])
        find_windows(timestamps, begin, offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs)
        for step in range(steps):
            first = int(lows[step])
            past = int(highs[step])
            result = np.nan
            if past > first:
                if mode == COUNT:
                    result = float(past - first)
                elif mode == PRESENT:
                    result = 1.0
                elif mode == FIRST:
                    result = values[first]
                elif mode == LAST:
                    result = values[past - 1]
                elif mode == TS_OF_FIRST:
                    result = timestamps[first] / 1000.0
                else:
                    result = timestamps[past - 1] / 1000.0
            out[series, step] = result
            present[series, step] = past > first

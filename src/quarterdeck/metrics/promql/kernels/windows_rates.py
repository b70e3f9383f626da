"""How a counter or a gauge moved within a window: rate, increase, delta; irate, idelta; resets, changes.

All of them round exactly as Prometheus does. The loops do not go over the samples of each window: resets and changes
are found once for a series.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_scan import find_windows, longest

RATE: Final = 0
INCREASE: Final = 1
DELTA: Final = 2

IRATE: Final = 0
IDELTA: Final = 1

RESETS: Final = 0
CHANGES: Final = 1


@part_of_kernel
def find_resets(values: F64, first: int, past: int, resets: I64) -> int:
    """Write down the samples that are lower than the one before them; how many there are."""
    count = 0
    for at in range(first + 1, past):
        # Without a branch: in a gauge every second sample is a reset.
        resets[count] = at
        count += values[at] < values[at - 1]
    return count


@part_of_kernel
def extrapolate(
    change: float, is_counter: bool, first_value: float, to_start_s: float, sampled_s: float, to_end_s: float, gaps: int
) -> float:
    """By which factor the change between the first and the last sample is stretched to the window.

    Up to the edge of the window if the edge is no farther than 1.1 of the mean gap between samples, else by half a
    gap: then the series probably begins or ends there. A counter is not stretched to before it was zero.
    """
    mean_gap_s = sampled_s / gaps
    threshold_s = mean_gap_s * 1.1
    if to_start_s >= threshold_s:
        to_start_s = mean_gap_s / 2
    if is_counter and change > 0 and first_value >= 0:
        to_zero_s = sampled_s * (first_value / change)
        if to_zero_s < to_start_s:  # noqa: PLR1730 - min() need not say the same about NaN
            to_start_s = to_zero_s
    if to_end_s >= threshold_s:
        to_end_s = mean_gap_s / 2
    return (sampled_s + to_start_s + to_end_s) / sampled_s


@kernel
def rates(
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
    """RATE, INCREASE and DELTA: the change within a window, stretched to its edges. Needs two samples."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    resets = np.empty(longest(offsets, low, high) + 1, np.int64)
    # As Go turns a duration into seconds.
    range_s = float(range_ms // 1000) + float((range_ms % 1000) * 1_000_000) / 1e9
    is_counter = mode != DELTA
    for series in range(low, high):
        find_windows(
            timestamps, offsets[series], offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs
        )
        count = 0
        if is_counter and steps > 0:
            count = find_resets(values, lows[0], highs[-1], resets)
        next_reset = 0
        for step in range(steps):
            first = int(lows[step])
            last = int(highs[step]) - 1
            if last <= first:
                out[series, step] = np.nan
                present[series, step] = False
                continue
            change = values[last] - values[first]
            while next_reset < count and resets[next_reset] <= first:
                next_reset += 1
            reset = next_reset
            while reset < count and resets[reset] <= last:
                change += values[resets[reset] - 1]
                reset += 1
            end_ms = start_ms - offset_ms + step * step_ms
            factor = extrapolate(
                change,
                is_counter,
                values[first],
                (timestamps[first] - (end_ms - range_ms)) / 1000.0,
                (timestamps[last] - timestamps[first]) / 1000.0,
                (end_ms - timestamps[last]) / 1000.0,
                last - first,
            )
            if mode == RATE:
                factor /= range_s
            out[series, step] = change * factor
            present[series, step] = True


@kernel
def instant_rates(
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
    """IRATE and IDELTA: from the last two samples of a window, if they are not of one time."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    for series in range(low, high):
        find_windows(
            timestamps, offsets[series], offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs
        )
        for step in range(steps):
            last = int(highs[step]) - 1
            if last <= lows[step] or timestamps[last] == timestamps[last - 1]:
                out[series, step] = np.nan
                present[series, step] = False
                continue
            result = values[last]
            # After a reset a counter has grown by all that it is now.
            if mode == IDELTA or not (values[last] < values[last - 1]):
                result -= values[last - 1]
            if mode == IRATE:
                result /= (timestamps[last] - timestamps[last - 1]) / 1000.0
            out[series, step] = result
            present[series, step] = True


@kernel
def transitions(
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
    """RESETS and CHANGES: how often a sample is lower than, or differs from, the one before it."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    before = np.empty(longest(offsets, low, high) + 1, np.int64)
    for series in range(low, high):
        begin = int(offsets[series])
        end = int(offsets[series + 1])
        find_windows(timestamps, begin, end, start_ms - offset_ms, step_ms, range_ms, lows, highs)
        count = 0
        before[0] = 0
        for at in range(begin + 1, end):
            value = values[at]
            previous = values[at - 1]
            if mode == RESETS:
                count += value < previous
            else:
                count += (value != previous) & ((value == value) | (previous == previous))  # noqa: PLR0124 - not NaN
            before[at - begin] = count
        for step in range(steps):
            first = int(lows[step]) - begin
            last = int(highs[step]) - begin - 1
            out[series, step] = float(before[last] - before[first]) if last >= first else np.nan
            present[series, step] = last >= first

"""Windows that know the samples around them: the values at their edges are taken or interpolated from these.

A window of the step at t is (t - range, t]. Samples up to a lookback before it count, and when smoothed those up to a
lookback after it as well. Anchored, the last sample before the window stands for its beginning. Smoothed, the values at
both ends lie on the lines between the samples around them. All round as Prometheus does.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_rates import find_resets
from quarterdeck.metrics.promql.kernels.windows_scan import after, longest

RATE: Final = 0
INCREASE: Final = 1
DELTA: Final = 2

RESETS: Final = 0
CHANGES: Final = 1


@part_of_kernel
def interpolate(timestamps: I64, values: F64, at: int, time_ms: int, is_counter: bool) -> float:
    """The value at a time between sample `at` and the next; a counter that starts over in between starts from 0."""
    before = values[at]
    following = values[at + 1]
    if is_counter and following < before:
        before = 0.0
    passed_ms = float(time_ms - timestamps[at])
    return before + (following - before) * passed_ms / float(timestamps[at + 1] - timestamps[at])


@kernel
def extended_rates(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    values: F64,
    start_ms: int,
    step_ms: int,
    range_ms: int,
    lookback_ms: int,
    smoothed: bool,
    mode: int,
    out: F64,
    present: Bool,
) -> None:
    """RATE, INCREASE and DELTA: the change from edge to edge. Needs one sample in the window, or one on either side."""
    resets = np.empty(longest(offsets, low, high) + 1, np.int64)
    # As Go turns a duration into seconds.
    range_s = float(range_ms // 1000) + float((range_ms % 1000) * 1_000_000) / 1e9
    is_counter = mode != DELTA
    for series in range(low, high):
        begin = int(offsets[series])
        end = int(offsets[series + 1])
        count = find_resets(values, begin, end, resets) if is_counter else 0
        next_reset = 0
        reach = begin
        inside = begin
        past = begin
        for step in range(out.shape[1]):
            end_ms = start_ms + step * step_ms
            begin_ms = end_ms - range_ms
            reach = after(timestamps, reach, end, begin_ms - lookback_ms)
            inside = after(timestamps, inside, end, begin_ms)
            past = after(timestamps, past, end, end_ms - 1 if smoothed else end_ms)
            # Smoothed, the first sample at or after the window's end; else, or if there is none, the last before it.
            last = past
            if not smoothed or past == end or timestamps[past] > end_ms + lookback_ms:
                last = past - 1
            first = inside - 1 if inside > reach else inside
            if last < inside or (smoothed and timestamps[first] > end_ms):
                out[series, step] = np.nan
                present[series, step] = False
                continue
            left = values[first]
            if smoothed and timestamps[first] < begin_ms:
                left = interpolate(timestamps, values, first, begin_ms, is_counter)
            right = values[last]
            if timestamps[last] > end_ms:
                right = interpolate(timestamps, values, last - 1, end_ms, is_counter)
            change = right - left
            if is_counter:
                # The edges know of the resets next to them: only samples within the window are compared.
                within = last - 1 if timestamps[last] >= end_ms else last
                previous = left
                reached = 0.0
                if inside <= within:
                    if values[inside] < left:
                        reached += left
                    while next_reset < count and resets[next_reset] <= inside:
                        next_reset += 1
                    reset = next_reset
                    while reset < count and resets[reset] <= within:
                        reached += values[resets[reset] - 1]
                        reset += 1
                    previous = values[within]
                if right < previous:
                    reached += previous
                change += reached
            if mode == RATE:
                change /= range_s
            out[series, step] = change
            present[series, step] = True


@kernel
def anchored_transitions(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    values: F64,
    start_ms: int,
    step_ms: int,
    range_ms: int,
    lookback_ms: int,
    mode: int,
    out: F64,
    present: Bool,
) -> None:
    """RESETS and CHANGES from the last sample before the window on. Needs a sample in the window."""
    before = np.empty(longest(offsets, low, high) + 1, np.int64)
    for series in range(low, high):
        begin = int(offsets[series])
        end = int(offsets[series + 1])
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
        reach = begin
        inside = begin
        past = begin
        for step in range(out.shape[1]):
            end_ms = start_ms + step * step_ms
            reach = after(timestamps, reach, end, end_ms - range_ms - lookback_ms)
            inside = after(timestamps, inside, end, end_ms - range_ms)
            past = after(timestamps, past, end, end_ms)
            first = inside - 1 if inside > reach else inside
            there = past > inside
            out[series, step] = float(before[past - 1 - begin] - before[first - begin]) if there else np.nan
            present[series, step] = there


@kernel
def smoothed_instants(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    values: F64,
    start_ms: int,
    step_ms: int,
    lookback_ms: int,
    out: F64,
    present: Bool,
) -> None:
    """The value at each time, on the line between the samples around it; after the last sample, that sample."""
    for series in range(low, high):
        end = int(offsets[series + 1])
        reach = int(offsets[series])
        at = reach
        for step in range(out.shape[1]):
            time_ms = start_ms + step * step_ms
            reach = after(timestamps, reach, end, time_ms - lookback_ms)
            at = after(timestamps, at, end, time_ms - 1)
            present[series, step] = True
            if at < end and timestamps[at] == time_ms:
                out[series, step] = values[at]
            elif at <= reach:
                out[series, step] = np.nan
                present[series, step] = False
            elif at < end and timestamps[at] <= time_ms + lookback_ms:
                out[series, step] = interpolate(timestamps, values, at - 1, time_ms, False)
            else:
                out[series, step] = values[at - 1]

"""min and max over time, and when they were.

A NaN counts only if there is nothing else. Of equal values `min` and `max` take the first (which matters for 0 and -0),
`ts_of_min` and `ts_of_max` the last. Windows share their work as in `windows_sums`, and the result is exact.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_scan import find_windows, longest

MIN: Final = 0
MAX: Final = 1
TS_OF_MIN: Final = 2
TS_OF_MAX: Final = 3


@part_of_kernel
def wins(later: float, earlier: float, ties: bool) -> bool:
    """Whether the later value is taken instead of the earlier one."""
    return (later > earlier) | (ties & (later == earlier)) | (earlier != earlier)  # noqa: PLR0124 - is it NaN


@kernel
def extremes(
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
    """MIN, MAX, TS_OF_MIN, TS_OF_MAX."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    best_from = np.empty(longest(offsets, low, high), np.int64)
    sign = -1.0 if (mode == MIN) | (mode == TS_OF_MIN) else 1.0
    is_time = mode >= TS_OF_MIN
    for series in range(low, high):
        begin = int(offsets[series])
        find_windows(timestamps, begin, offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs)
        middle = begin
        done = begin
        best = 0.0
        best_at = -1
        for step in range(steps):
            first = int(lows[step])
            past = int(highs[step])
            if past == first:
                out[series, step] = np.nan
                present[series, step] = False
                continue
            if first >= middle:
                best_at = past - 1
                best = values[best_at] * sign
                for at in range(past - 1, first - 1, -1):
                    value = values[at] * sign
                    # Here the new one is the earlier one.
                    if not wins(best, value, is_time):
                        best = value
                        best_at = at
                    best_from[at - begin] = best_at
                middle = past
                done = past
                best = np.nan
                best_at = past - 1
            for at in range(done, past):
                value = values[at] * sign
                if wins(value, best, is_time):
                    best = value
                    best_at = at
            done = past
            chosen = int(best_from[first - begin])
            if past > middle and wins(best, values[chosen] * sign, is_time):
                chosen = best_at
            out[series, step] = timestamps[chosen] / 1000.0 if is_time else values[chosen]
            present[series, step] = True

"""How a counter moved within a window when samples say since when they count: rate, increase, irate.

A start timestamp tells of counter resets that values do not show: a counter that passed its old value before it was
looked at again, and one that begins anew with every sample. It also tells where a series begins, so that nothing has to
be guessed there. Rounds as Prometheus does. Blocks without start timestamps go to `windows_rates` and pay nothing.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import given, kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.windows_rates import extrapolate
from quarterdeck.metrics.promql.kernels.windows_scan import find_windows, longest

RATE: Final = 0
INCREASE: Final = 1
IRATE: Final = 2


def restarts(timestamps: I64, starts: I64) -> Bool:
    """For each sample whether its start timestamp says that the counter started over since the sample before it.

    The counter started after that sample; or with it, if that sample has a start of its own that makes sense: then
    these are differences. OpenTelemetry gives a counter whose start nobody knows the time of its first sample, so a
    start that is not before its own sample says nothing. What is told of the first sample of a series means nothing.

    >>> restarts(np.array([60, 120, 180]), np.array([30, 90, 90])).tolist()
    [False, True, False]
    >>> restarts(np.array([60, 120]), np.array([10, 60])).tolist()
    [False, True]
    >>> restarts(np.array([60, 120]), np.array([60, 60])).tolist()
    [False, False]
    """
    found = np.zeros(len(starts), np.bool_)
    _find_restarts(given(timestamps), given(starts), found)
    return found


@kernel
def _find_restarts(timestamps: I64, starts: I64, found: Bool) -> None:
    for at in range(1, starts.size):
        start = starts[at]
        previous = timestamps[at - 1]
        before = starts[at - 1]
        after_known = (start == previous) & (before != 0) & (before < previous)
        found[at] = (start != 0) & (start < timestamps[at]) & ((start > previous) | after_known)


def overlaps(timestamps: I64, starts: I64) -> Bool:
    """For each sample whether it says to count from before the sample before it on, and not as that one does.

    >>> overlaps(np.array([60, 120, 180]), np.array([10, 10, 110])).tolist()
    [False, False, True]
    """
    found = np.zeros(len(starts), np.bool_)
    found[1:] = (starts[1:] != 0) & (starts[1:] < timestamps[:-1]) & (starts[1:] != starts[:-1])
    return found


@part_of_kernel
def stretch_from_start(first_ms: int, last_ms: int, start_ms: int, end_ms: int, gaps: int) -> float:
    """By which factor the change since the start is stretched to the window's end, as `extrapolate` does it there. A
    single sample has no gap to go by: it is not stretched."""
    sampled_s = (last_ms - start_ms) / 1000.0
    to_end_s = (end_ms - last_ms) / 1000.0
    mean_gap_s = (last_ms - first_ms) / 1000.0 / gaps if gaps > 0 else 0.0
    if to_end_s >= mean_gap_s * 1.1:
        to_end_s = mean_gap_s / 2
    return (sampled_s + to_end_s) / sampled_s


@kernel
def rates_from_starts(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    values: F64,
    starts: I64,
    restarted: Bool,
    start_ms: int,
    step_ms: int,
    range_ms: int,
    offset_ms: int,
    mode: int,
    out: F64,
    present: Bool,
) -> None:
    """RATE and INCREASE: as without start timestamps; but a first sample whose counter started within the window has
    grown from zero since then, which needs no second sample."""
    steps = out.shape[1]
    lows = np.empty(steps, np.int64)
    highs = np.empty(steps, np.int64)
    resets = np.empty(longest(offsets, low, high) + 1, np.int64)
    # As Go turns a duration into seconds.
    range_s = float(range_ms // 1000) + float((range_ms % 1000) * 1_000_000) / 1e9
    for series in range(low, high):
        find_windows(
            timestamps, offsets[series], offsets[series + 1], start_ms - offset_ms, step_ms, range_ms, lows, highs
        )
        count = 0
        if steps > 0:
            for at in range(lows[0] + 1, highs[-1]):
                resets[count] = at
                count += (values[at] < values[at - 1]) | restarted[at]
        next_reset = 0
        for step in range(steps):
            first = int(lows[step])
            last = int(highs[step]) - 1
            end_ms = start_ms - offset_ms + step * step_ms
            begins = False
            if last >= first:
                start = starts[first]
                begins = start != 0 and end_ms - range_ms < start < timestamps[first]
            if last < first or (last == first and not begins):
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
            if begins:
                change += values[first]
                factor = stretch_from_start(timestamps[first], timestamps[last], starts[first], end_ms, last - first)
            else:
                factor = extrapolate(
                    change,
                    True,
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
def instant_rates_from_starts(
    low: int,
    high: int,
    offsets: I64,
    timestamps: I64,
    values: F64,
    _starts: I64,
    restarted: Bool,
    start_ms: int,
    step_ms: int,
    range_ms: int,
    offset_ms: int,
    _mode: int,
    out: F64,
    present: Bool,
) -> None:
    """IRATE: as without start timestamps, which only tell of more resets."""
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
            if not (values[last] < values[last - 1]) and not restarted[last]:
                result -= values[last - 1]
            out[series, step] = result / ((timestamps[last] - timestamps[last - 1]) / 1000.0)
            present[series, step] = True

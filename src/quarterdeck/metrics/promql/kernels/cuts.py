"""Stretches of a long array of samples: where one begins in time, and many of them side by side.

A source cuts every series to the times that are asked for; a loop in Python over the series would take longer than
most functions over their samples do.
"""

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, totals_before
from quarterdeck.metrics.promql.kernels.compile import given, kernel, part_of_kernel, warms


@kernel
def _search(timestamps: I64, lows: I64, highs: I64, bound_ms: int, out: I64) -> None:
    for stretch in range(lows.size):
        low = lows[stretch]
        high = highs[stretch]
        while low < high:
            middle = (low + high) // 2
            if timestamps[middle] < bound_ms:
                low = middle + 1
            else:
                high = middle
        out[stretch] = low


@kernel
def _bounds(timestamps: I64, lows: I64, highs: I64, first_ms: int, last_ms: int, out: I64) -> None:
    """`out` is [2, stretches]: where the times from the first to the last begin and end."""
    for stretch in range(lows.size):
        for edge in range(2):
            low = lows[stretch] if edge == 0 else out[0, stretch]
            high = highs[stretch]
            while low < high:
                middle = (low + high) // 2
                time_ms = timestamps[middle]
                if time_ms < first_ms if edge == 0 else time_ms <= last_ms:
                    low = middle + 1
                else:
                    high = middle
            out[edge, stretch] = low


@part_of_kernel
def _move(timestamps: I64, values: F64, low: int, high: int, times_out: I64, values_out: F64, at: int) -> int:
    """Copy one stretch; the place after it.

    One by one: to assign a slice, numba compiles the message for shapes that do not fit, which takes seconds.
    """
    for index in range(high - low):
        times_out[at + index] = timestamps[low + index]
        values_out[at + index] = values[low + index]
    return at + high - low


@kernel
def _copy(timestamps: I64, values: F64, lows: I64, highs: I64, times_out: I64, values_out: F64) -> None:
    at = 0
    for stretch in range(lows.size):
        at = _move(timestamps, values, lows[stretch], highs[stretch], times_out, values_out, at)


@kernel
def _pick(numbers: I64, lows: I64, highs: I64, out: I64) -> None:
    at = 0
    for stretch in range(lows.size):
        for index in range(lows[stretch], highs[stretch]):
            out[at] = numbers[index]
            at += 1


@kernel
def _place(timestamps: I64, values: F64, lows: I64, highs: I64, places: I64, times_out: I64, values_out: F64) -> None:
    for stretch in range(lows.size):
        _move(timestamps, values, lows[stretch], highs[stretch], times_out, values_out, places[stretch])


@kernel
def _first_disorder(timestamps: I64, offsets: I64) -> int:
    for stretch in range(offsets.size - 1):
        for at in range(offsets[stretch] + 1, offsets[stretch + 1]):
            if timestamps[at] <= timestamps[at - 1]:
                return stretch
    return -1


def first_from(timestamps: I64, lows: I64, highs: I64, bound_ms: int) -> I64:
    """For each stretch from `low` to before `high`, the place of its first time that is not before the bound."""
    out = np.empty(len(lows), np.int64)
    _search(given(timestamps), given(lows), given(highs), bound_ms, out)
    return out


def between(timestamps: I64, lows: I64, highs: I64, first_ms: int, last_ms: int) -> tuple[I64, I64]:
    """For each stretch from `low` to before `high`, the part of it with times from the first to the last, both
    included."""
    out = np.empty((2, len(lows)), np.int64)
    _bounds(given(timestamps), given(lows), given(highs), first_ms, last_ms, out)
    return out[0], out[1]


def picked(numbers: I64, lows: I64, highs: I64) -> I64:
    """The numbers of all stretches, one after the other: what a few samples have besides a time and a value."""
    out = np.empty(int((highs - lows).sum()), np.int64)
    _pick(given(numbers), given(lows), given(highs), out)
    return out


def places_of(lows: I64, highs: I64) -> I64:
    """All places from each low to before its high.

    >>> places_of(np.array([5, 0]), np.array([7, 1])).tolist()
    [5, 6, 0]
    """
    lengths = highs - lows
    offsets = totals_before(lengths)
    return np.repeat(lows - offsets[:-1], lengths) + np.arange(int(offsets[-1]), dtype=np.int64)


def side_by_side(timestamps: I64, values: F64, lows: I64, highs: I64) -> tuple[I64, F64]:
    """The times and values of all stretches, one after the other."""
    count = int((highs - lows).sum())
    times_out, values_out = np.empty(count, np.int64), np.empty(count)
    _copy(given(timestamps), given(values), given(lows), given(highs), times_out, values_out)
    return times_out, values_out


def place_at(timestamps: I64, values: F64, lows: I64, highs: I64, places: I64, times_out: I64, values_out: F64) -> None:
    """Copy the times and values of all stretches, each to its own place."""
    _place(given(timestamps), given(values), given(lows), given(highs), given(places), times_out, values_out)


def first_disorder(timestamps: I64, offsets: I64) -> int | None:
    """The first stretch whose times do not rise; None if there is none."""
    found = int(_first_disorder(given(timestamps), given(offsets)))
    return None if found < 0 else found


@warms
def warm_cuts() -> None:
    """All of them, on a stretch of one sample."""
    lows, highs = np.array([0]), np.array([1])
    first_from(lows, lows, highs, 0)
    between(lows, lows, highs, 0, 0)
    side_by_side(lows, np.zeros(1), lows, highs)
    picked(lows, lows, highs)
    place_at(lows, np.zeros(1), lows, highs, lows, np.empty(1, np.int64), np.empty(1))
    first_disorder(lows, np.array([0, 1]))

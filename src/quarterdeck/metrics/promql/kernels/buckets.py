"""Classic histograms: quantiles and fractions of groups of bucket series, for each step.

The rows of group `g` lie from `bucket_offsets[g]` to `bucket_offsets[g + 1]`, by rising upper bound. Buckets that are
absent at a step are not there for that step; a group with none has no result. The rules are upstream's:

- The highest bucket must have the bound +Inf, else the result is not a number. Rows of equal bound are one bucket.
- For a quantile, counts that differ by less than 1e-12 of their sum are taken for equal, and counts that fall are
  lifted to the highest before them, which the caller must tell the user of. There must be two buckets or more.
- Observations lie evenly in a bucket. The first begins at 0, or if its bound is 0 or less, nowhere.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import given, kernel, part_of_kernel, warms
from quarterdeck.metrics.promql.kernels.groups_columns import over_columns
from quarterdeck.metrics.promql.kernels.threads import Threads

_TOLERANCE: Final = 1e-12
_SMALLEST_NORMAL: Final = 2.0**-1022
_LARGEST: Final = np.finfo(np.float64).max


@dataclass(frozen=True, eq=False)
class BucketQuantiles:
    """Quantiles [groups, steps], and where counts had to be lifted, for upstream's info."""

    values: F64
    present: Bool
    forced: Bool
    """Whether a count was lifted."""
    lowest_forced: F64
    """The lowest bound of a bucket whose count was lifted. This and the next two: 0 where none was."""
    highest_forced: F64
    biggest_lift: F64
    """By how much, at most."""


@part_of_kernel
def _gather(
    column: int, first: int, end: int, bounds: F64, values: F64, present: Bool, uppers: F64, counts: F64
) -> int:
    """The buckets at a step, those of equal bound added up. Returns how many."""
    found = 0
    for row in range(first, end):
        if present[row, column]:
            if found > 0 and bounds[row] == uppers[found - 1]:
                counts[found - 1] += values[row, column]
            else:
                uppers[found], counts[found] = bounds[row], values[row, column]
                found += 1
    return found


@part_of_kernel
def _almost_equal(a: float, b: float) -> bool:
    """Whether counts differ by so little that it must be rounding. They are not equal."""
    if a != a and b != b:  # noqa: PLR0124
        return True
    both, difference = abs(a) + abs(b), abs(a - b)
    if a == 0.0 or b == 0.0 or both < _SMALLEST_NORMAL:
        return difference < _TOLERANCE * _SMALLEST_NORMAL
    return difference / min(both, _LARGEST) < _TOLERANCE


@part_of_kernel
def _lift(uppers: F64, counts: F64, found: int) -> tuple[bool, float, float, float]:
    """Make counts rise. Returns whether one was lifted, the lowest and highest such bound, and the biggest lift."""
    forced, lowest, highest, biggest = False, np.inf, -np.inf, 0.0
    before = counts[0]
    for i in range(1, found):
        count = counts[i]
        if count == before:
            continue
        if _almost_equal(before, count):
            counts[i] = before
        elif count < before:
            counts[i] = before
            forced = True
            lowest, highest = min(lowest, uppers[i]), max(highest, uppers[i])
            biggest = max(biggest, before - count)
        else:
            before = count
    return forced, lowest, highest, biggest


@part_of_kernel
def _quantile(phi: float, uppers: F64, counts: F64, found: int) -> float:
    """The quantile of buckets whose counts rise, for a `phi` from 0 to 1."""
    if found < 2 or counts[found - 1] == 0.0:
        return np.nan
    rank = phi * counts[found - 1]
    low, high = 0, found - 1
    while low < high:
        middle = (low + high) // 2
        if counts[middle] >= rank:
            high = middle
        else:
            low = middle + 1
    if low == found - 1:
        return uppers[found - 2]
    if low == 0:
        if uppers[0] <= 0.0:
            return uppers[0]
        return uppers[0] * (rank / counts[0])
    inside = (rank - counts[low - 1]) / (counts[low] - counts[low - 1])
    return uppers[low - 1] + (uppers[low] - uppers[low - 1]) * inside


@part_of_kernel
def _rank(bound: float, uppers: F64, counts: F64, found: int) -> float:
    """How many observations are below `bound`."""
    lower = 0.0 if uppers[0] > 0.0 else -np.inf
    below = 0.0
    for i in range(found):
        if lower >= bound:
            return below
        upper = uppers[i]
        if upper > bound:
            if lower == -np.inf:
                return counts[i]
            return below + (counts[i] - below) * (bound - lower) / (upper - lower)
        lower, below = upper, counts[i]
    return below


@part_of_kernel
def _fraction(lower: float, upper: float, uppers: F64, counts: F64, found: int) -> float:
    """The fraction of the observations between two bounds; the highest bucket's bound is +Inf."""
    total = counts[found - 1]
    if total == 0.0 or lower != lower or upper != upper:  # noqa: PLR0124
        return np.nan
    if lower >= upper:
        return 0.0
    below_lower, below_upper = _rank(lower, uppers, counts, found), _rank(upper, uppers, counts, found)
    # Not min(): a rank that is not a number must stay so.
    if below_lower > total:  # noqa: PLR1730
        below_lower = total
    if below_upper > total:  # noqa: PLR1730
        below_upper = total
    return (below_upper - below_lower) / total


@part_of_kernel
def _most_buckets(bucket_offsets: I64) -> int:
    most = 0
    for group in range(len(bucket_offsets) - 1):
        most = max(most, bucket_offsets[group + 1] - bucket_offsets[group])
    return most


@kernel
def _quantile_columns(
    phi: F64,
    bucket_offsets: I64,
    bounds: F64,
    values: F64,
    present: Bool,
    out_values: F64,
    out_present: Bool,
    forced: Bool,
    lowest: F64,
    highest: F64,
    biggest: F64,
    low: int,
    high: int,
) -> None:
    most = _most_buckets(bucket_offsets)
    uppers, counts = np.empty(most), np.empty(most)
    for group in range(len(bucket_offsets) - 1):
        first, end = bucket_offsets[group], bucket_offsets[group + 1]
        for column in range(low, high):
            found = _gather(column, first, end, bounds, values, present, uppers, counts)
            if found == 0:
                continue
            out_present[group, column] = True
            q = phi[column]
            if q < 0.0:
                out_values[group, column] = -np.inf
            elif q > 1.0:
                out_values[group, column] = np.inf
            elif q != q or uppers[found - 1] != np.inf:  # noqa: PLR0124
                out_values[group, column] = np.nan
            else:
                lifted, lowest_bound, highest_bound, lift = _lift(uppers, counts, found)
                if lifted:
                    forced[group, column] = True
                    lowest[group, column], highest[group, column] = lowest_bound, highest_bound
                    biggest[group, column] = lift
                out_values[group, column] = _quantile(q, uppers, counts, found)


@kernel
def _fraction_columns(
    lower: F64,
    upper: F64,
    bucket_offsets: I64,
    bounds: F64,
    values: F64,
    present: Bool,
    out_values: F64,
    out_present: Bool,
    low: int,
    high: int,
) -> None:
    most = _most_buckets(bucket_offsets)
    uppers, counts = np.empty(most), np.empty(most)
    for group in range(len(bucket_offsets) - 1):
        first, end = bucket_offsets[group], bucket_offsets[group + 1]
        for column in range(low, high):
            found = _gather(column, first, end, bounds, values, present, uppers, counts)
            if found == 0:
                continue
            out_present[group, column] = True
            if uppers[found - 1] == np.inf:
                out_values[group, column] = _fraction(lower[column], upper[column], uppers, counts, found)
            else:
                out_values[group, column] = np.nan


def histogram_quantile(
    phi: F64, bucket_offsets: I64, bounds: F64, values: F64, present: Bool, threads: Threads | None = None
) -> BucketQuantiles:
    """The quantile of each group of buckets, `phi[step]` at each step."""
    shape = (len(bucket_offsets) - 1, values.shape[1])
    bucket_offsets, bounds, values, present = given(bucket_offsets), given(bounds), given(values), given(present)
    phi = given(phi)
    result = BucketQuantiles(
        np.zeros(shape),
        np.zeros(shape, np.bool_),
        np.zeros(shape, np.bool_),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
    )

    def part(low: int, high: int) -> None:
        _quantile_columns(
            phi,
            bucket_offsets,
            bounds,
            values,
            present,
            result.values,
            result.present,
            result.forced,
            result.lowest_forced,
            result.highest_forced,
            result.biggest_lift,
            low,
            high,
        )

    over_columns(values.shape[0], values.shape[1], part, threads)
    return result


def histogram_fraction(
    lower: F64,
    upper: F64,
    bucket_offsets: I64,
    bounds: F64,
    values: F64,
    present: Bool,
    threads: Threads | None = None,
) -> tuple[F64, Bool]:
    """The fraction of observations between two bounds, those of the step, for each group; and where there is one."""
    shape = (len(bucket_offsets) - 1, values.shape[1])
    bucket_offsets, bounds, values, present = given(bucket_offsets), given(bounds), given(values), given(present)
    lower, upper = given(lower), given(upper)
    out_values, out_present = np.zeros(shape), np.zeros(shape, np.bool_)

    def part(low: int, high: int) -> None:
        _fraction_columns(lower, upper, bucket_offsets, bounds, values, present, out_values, out_present, low, high)

    over_columns(values.shape[0], values.shape[1], part, threads)
    return out_values, out_present


@warms
def warm() -> None:
    """Call each kernel."""
    step = np.full(1, 0.5)
    offsets, bounds = np.array([0, 2], np.int64), np.array([1.0, np.inf])
    values, present = np.ones((2, 1)), np.ones((2, 1), np.bool_)
    histogram_quantile(step, offsets, bounds, values, present)
    histogram_fraction(step, step, offsets, bounds, values, present)

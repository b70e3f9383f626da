"""`quantile_groups`: the quantile over the rows of a group, for each step.

As upstream: a sample that is not a number is smaller than all others; a quantile between two samples is weighed from
both, also where one of them is infinite and the weight is zero, which gives not a number.
"""

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import given, kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.groups_columns import over_columns
from quarterdeck.metrics.promql.kernels.threads import Threads


@part_of_kernel
def _put_in_place(values: F64, low: int, high: int, k: int) -> None:
    """Reorder values[low:high] so that the one at `k` is where sorting would put it, smaller ones before it.

    Hoare's selection around the median of three. None of the values is not a number.
    """
    left, right = low, high - 1
    while left < right:
        a, b, c = values[left], values[(left + right) // 2], values[right]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            right = j
        elif k >= i:
            left = i
        else:
            return


@part_of_kernel
def quantile(values: F64, count: int, phi: float) -> float:
    """The quantile of the first `count` of `values`, one or more. Reorders them."""
    if phi != phi:  # noqa: PLR0124
        return np.nan
    if phi < 0.0:
        return -np.inf
    if phi > 1.0:
        return np.inf
    numbers = 0  # moved to the end: what is not a number counts as smallest
    for i in range(count - 1, -1, -1):
        if values[i] == values[i]:
            numbers += 1
            values[i], values[count - numbers] = values[count - numbers], values[i]
    rank = phi * (count - 1)
    lower = int(np.floor(rank))
    if lower < count - numbers:
        return np.nan
    _put_in_place(values, count - numbers, count, lower)
    below = values[lower]
    above = below
    if lower + 1 < count:
        above = values[lower + 1]
        for i in range(lower + 2, count):
            above = min(above, values[i])
    weight = rank - np.floor(rank)
    return below * (1.0 - weight) + above * weight


@kernel
def _quantile_columns(
    values: F64,
    present: Bool,
    order: I64,
    offsets: I64,
    phi: F64,
    out_values: F64,
    out_present: Bool,
    low: int,
    high: int,
) -> None:
    """`order` has the rows by group, `offsets` where in it each group begins."""
    # Eight columns share the cache lines that their rows are read from.
    width = 8
    longest = 0
    for group in range(len(offsets) - 1):
        longest = max(longest, offsets[group + 1] - offsets[group])
    samples = np.empty((width, longest))
    counts = np.zeros(width, np.int64)
    for group in range(len(offsets) - 1):
        for start in range(low, high, width):
            stop = min(start + width, high)
            counts[:] = 0
            for at in range(offsets[group], offsets[group + 1]):
                row = order[at]
                for column in range(start, stop):
                    if present[row, column]:
                        i = column - start
                        samples[i, counts[i]] = values[row, column]
                        counts[i] += 1
            for column in range(start, stop):
                i = column - start
                if counts[i] > 0:
                    out_values[group, column] = quantile(samples[i], counts[i], phi[column])
                    out_present[group, column] = True


def quantile_groups(
    values: F64, present: Bool, groups: I64, n_groups: int, phi: F64, threads: Threads | None = None
) -> tuple[F64, Bool]:
    """The quantile of each group, `phi[step]` at each step, and where there is one."""
    rows, steps = values.shape
    values, present, phi = given(values), given(present), given(phi)
    order, offsets = rows_by_group(groups, n_groups)
    out_values, out_present = np.zeros((n_groups, steps)), np.zeros((n_groups, steps), np.bool_)

    def part(low: int, high: int) -> None:
        _quantile_columns(values, present, order, offsets, phi, out_values, out_present, low, high)

    over_columns(rows, steps, part, threads)
    return out_values, out_present


def rows_by_group(groups: I64, n_groups: int) -> tuple[I64, I64]:
    """All rows, those of a group together and in order; and where each group begins, with the end of the last."""
    offsets = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=n_groups), out=offsets[1:])
    return given(np.argsort(groups, kind="stable")), given(offsets)

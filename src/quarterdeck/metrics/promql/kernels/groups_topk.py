"""`topk_groups`: which rows of a group are among the biggest or smallest, for each step.

What is not a number is never preferred to a number. Among equal values the earlier row is preferred, so that shards
may name their candidates first and the answer stays the same. (Upstream leaves this to its heap, which may drop any
of several equal values.)
"""

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import given, kernel, part_of_kernel
from quarterdeck.metrics.promql.kernels.groups_columns import over_columns
from quarterdeck.metrics.promql.kernels.threads import Threads


@part_of_kernel
def _is_worse(a: float, a_row: int, b: float, b_row: int) -> bool:
    """Whether `a` goes first when one of two has to go."""
    a_is_no_number, b_is_no_number = a != a, b != b  # noqa: PLR0124
    if a_is_no_number or b_is_no_number:
        return a_is_no_number and (not b_is_no_number or a_row > b_row)
    return a < b or (a == b and a_row > b_row)


@part_of_kernel
def _push(keys: F64, rows: I64, start: int, count: int, key: float, row: int) -> None:
    """Add to the heap that lies from `start` and has `count` elements."""
    at = count
    while at > 0:
        parent = (at - 1) // 2
        if not _is_worse(key, row, keys[start + parent], rows[start + parent]):
            break
        keys[start + at], rows[start + at] = keys[start + parent], rows[start + parent]
        at = parent
    keys[start + at], rows[start + at] = key, row


@part_of_kernel
def _replace_top(keys: F64, rows: I64, start: int, count: int, key: float, row: int) -> None:
    """Put an element in the place of the smallest."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        left, right = start + child, start + child + 1
        if child + 1 < count and _is_worse(keys[right], rows[right], keys[left], rows[left]):
            child += 1
        if not _is_worse(keys[start + child], rows[start + child], key, row):
            break
        keys[start + at], rows[start + at] = keys[start + child], rows[start + child]
        at = child
    keys[start + at], rows[start + at] = key, row


@part_of_kernel
def _offer(keys: F64, rows: I64, start: int, count: int, k: int, key: float, row: int) -> int:
    """Add to the heap of at most `k` if there is room or if it is better than the smallest. Returns the new count."""
    if count < k:
        _push(keys, rows, start, count, key, row)
        return count + 1
    if k > 0:
        top = keys[start]
        if top < key or (top != top and key == key):  # noqa: PLR0124
            _replace_top(keys, rows, start, count, key, row)
    return count


@kernel
def _topk_columns(
    values: F64,
    present: Bool,
    groups: I64,
    starts: I64,
    k: I64,
    sign: float,
    selected: Bool,
    low: int,
    high: int,
) -> None:
    """A heap of group `g` lies from `starts[g]` to `starts[g + 1]`, times the number of columns in work."""
    n_groups = len(starts) - 1
    # As many columns at once as lie together in memory, unless heaps of so many would fill it.
    width = max(min(32, high - low, 2_000_000 // max(starts[n_groups], 1)), 1)
    keys = np.empty(starts[n_groups] * width)
    rows = np.empty(starts[n_groups] * width, np.int64)
    counts = np.zeros((n_groups, width), np.int64)
    bars = np.empty((n_groups, width))  # the top of a full heap: for a key that is not above it there is nothing to do
    for first in range(low, high, width):
        columns = min(width, high - first)
        counts[:] = 0
        bars[:] = np.nan
        for row in range(values.shape[0]):
            row_values, row_present = values[row, first : first + columns], present[row, first : first + columns]
            group = groups[row]
            row_bars = bars[group]
            room = int(starts[group + 1] - starts[group])
            for i in range(columns):
                key = sign * row_values[i]
                if row_present[i] and not key <= row_bars[i]:
                    start = int(starts[group]) * width + room * i
                    limit = min(int(k[first + i]), room)
                    count = _offer(keys, rows, start, counts[group, i], limit, key, row)
                    counts[group, i] = count
                    if limit < 1:
                        row_bars[i] = np.inf
                    elif count == limit:
                        row_bars[i] = keys[start]
        for group in range(n_groups):
            room = starts[group + 1] - starts[group]
            for i in range(columns):
                start = starts[group] * width + room * i
                for at in range(start, start + counts[group, i]):
                    selected[rows[at], first + i] = True


@kernel
def _heap_order(
    values: F64, present: Bool, groups: I64, starts: I64, k: int, sign: float, rows: I64, counts: I64
) -> None:
    """For one step the chosen rows, each group's as its heap has them, into `rows`, and into `counts`, which are 0, how
    many of each group."""
    keys = np.empty(len(rows))
    for row in range(len(values)):
        if present[row]:
            group = groups[row]
            start, count = int(starts[group]), int(counts[group])
            limit = min(k, int(starts[group + 1]) - start)
            counts[group] = _offer(keys, rows, start, count, limit, sign * values[row], row)


def topk_groups(
    values: F64, present: Bool, groups: I64, n_groups: int, k: I64, bottom: bool, threads: Threads | None = None
) -> Bool:
    """Which cells [series, steps] are among the `k[step]` biggest of their group; with `bottom` the smallest."""
    rows, steps = values.shape
    values, present, groups = given(values), given(present), given(groups)
    k = given(k)
    selected = np.zeros((rows, steps), np.bool_)
    starts = _heap_starts(groups, n_groups, int(k.max(initial=0)))
    sign = -1.0 if bottom else 1.0

    def part(low: int, high: int) -> None:
        _topk_columns(values, present, groups, starts, k, sign, selected, low, high)

    over_columns(rows, steps, part, threads)
    return selected


def topk_order(values: F64, present: Bool, groups: I64, n_groups: int, k: int, bottom: bool) -> I64:
    """For one step the rows that `topk_groups` selects, in the order of the answer to an instant query.

    Group by group, best first, not a number last, equal values in the order of their rows.
    """
    starts = _heap_starts(groups, n_groups, k)
    heap = np.zeros(starts[-1], np.int64)
    sign = -1.0 if bottom else 1.0
    counts = np.zeros(len(starts) - 1, np.int64)
    _heap_order(given(values), given(present), given(groups), starts, k, sign, heap, counts)
    ordered = [
        _best_first(heap[start : start + count], sign * values)
        for start, count in zip(starts[:-1].tolist(), counts.tolist(), strict=True)
    ]
    return np.concatenate([np.zeros(0, np.int64), *ordered])


def _heap_starts(groups: I64, n_groups: int, k: int) -> I64:
    """Where the heap of each group lies, one after the other: none needs more room than its group has rows."""
    rooms = np.minimum(np.bincount(groups, minlength=n_groups), max(k, 0))
    return given(np.concatenate([np.zeros(1, np.int64), np.cumsum(rooms, dtype=np.int64)]))


def _best_first(heap: I64, keys: F64) -> I64:
    """The rows of a heap by falling key, not a number last."""
    rows = np.sort(heap)
    return rows[np.argsort(-keys[rows], kind="stable")]

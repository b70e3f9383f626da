"""The counts of one side of a histogram: pairs of a bucket's number and its count, by rising number.

Sparse, because bounds may lie far apart. A bucket whose count is zero may be there; to be equal, two histograms must
have the same ones.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

Buckets: TypeAlias = tuple[tuple[int, float], ...]


def run_of(first: int, counts: Iterable[float]) -> Buckets:
    """Buckets side by side.

    >>> run_of(2, [1.0, 0.0])
    ((2, 1.0), (3, 0.0))
    """
    return tuple(enumerate(counts, first))


def each_count(buckets: Buckets, change: Callable[[float], float]) -> Buckets:
    """The same buckets with other counts."""
    return tuple((index, change(count)) for index, count in buckets)


def without_empty(buckets: Buckets) -> Buckets:
    """Only the buckets that count something."""
    return tuple(pair for pair in buckets if pair[1] != 0)


def paired(one: Buckets, other: Buckets, combine: Callable[[float, float], float]) -> Buckets:
    """The buckets of both; what one side does not have counts zero there.

    >>> paired(((0, 1.0),), ((0, 2.0), (5, 1.0)), lambda a, b: a - b)
    ((0, -1.0), (5, -1.0))
    """
    if len(one) == len(other) and all(a[0] == b[0] for a, b in zip(one, other, strict=True)):
        return tuple((a[0], combine(a[1], b[1])) for a, b in zip(one, other, strict=True))
    left, right = dict(one), dict(other)
    return tuple((index, combine(left.get(index, 0.0), right.get(index, 0.0))) for index in sorted(left.keys() | right))


def merged(buckets: Buckets, target: Callable[[int], int]) -> Buckets:
    """The buckets under other numbers; counts that come to have the same number are added."""
    found: dict[int, float] = {}
    for index, count in buckets:
        number = target(index)
        found[number] = found.get(number, 0.0) + count
    return tuple(sorted(found.items()))

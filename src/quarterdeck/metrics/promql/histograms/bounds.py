"""Where buckets begin and end, and a bucket with its bounds.

Exponential buckets are numbered: each power of two is divided into `2 ** schema` of them, and bucket 0 ends at 1.
Custom buckets end at bounds that are given; one more reaches to infinity.
"""

import math
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

from quarterdeck.metrics.promql.floats import show_short

CUSTOM: Final = -53
"""The schema of histograms with custom bounds."""
FINEST: Final = 8
COARSEST: Final = -4


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many observations lie between two bounds."""

    lower: float
    upper: float
    count: float
    has_lower: bool
    """Whether the lower bound itself is inside."""
    has_upper: bool

    def __str__(self) -> str:
        opening, closing = "[" if self.has_lower else "(", "]" if self.has_upper else ")"
        return f"{opening}{show_short(self.lower)},{show_short(self.upper)}{closing}:{show_short(self.count)}"


@cache
def exponential_bound(index: int, schema: int) -> float:
    """Where an exponential bucket ends.

    The last bucket of finite numbers ends at the largest of them; the one after it is for infinity.

    >>> exponential_bound(0, 3), exponential_bound(1, 0), exponential_bound(-1, -1), exponential_bound(1, 1)
    (1.0, 2.0, 0.25, 1.4142135623730951)
    """
    if schema < 0:
        power, fraction = index << -schema, 1.0
    else:
        power = index >> schema
        fraction = 2.0 ** ((index - (power << schema)) / 2**schema)
    if power == sys.float_info.max_exp and fraction == 1.0:
        return sys.float_info.max
    try:
        return math.ldexp(fraction, power)
    except OverflowError:
        return math.inf


def custom_bound(index: int, bounds: tuple[float, ...]) -> float:
    """Where a custom bucket ends."""
    if index < 0:
        return -math.inf
    return bounds[index] if index < len(bounds) else math.inf


def exponential_bucket(index: int, count: float, schema: int, positive: bool) -> Bucket:
    """A bucket by its number; negative ones mirror the positive ones."""
    far, near = exponential_bound(index, schema), exponential_bound(index - 1, schema)
    return Bucket(near, far, count, False, True) if positive else Bucket(-far, -near, count, True, False)


def custom_bucket(index: int, count: float, bounds: tuple[float, ...]) -> Bucket:
    """A bucket between custom bounds."""
    return Bucket(custom_bound(index - 1, bounds), custom_bound(index, bounds), count, index == 0, True)

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

_BELOW_ROOT_OF_2: Final = math.nextafter(math.sqrt(2.0), 0.0)


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
    """Where an exponential bucket ends: at the float that Prometheus has there, which bounds shown as text must equal.

    The last bucket of finite numbers ends at the largest of them; the one after it is for infinity.

    >>> exponential_bound(0, 3), exponential_bound(1, 0), exponential_bound(-1, -1), exponential_bound(1, 1)
    (1.0, 2.0, 0.25, 1.414213562373095)
    """
    if schema < 0:
        power, fraction = index << -schema, 1.0
    else:
        power = index >> schema
        fraction = _fraction(index - (power << schema), schema)
    if power == sys.float_info.max_exp and fraction == 1.0:
        return sys.float_info.max
    try:
        return math.ldexp(fraction, power)
    except OverflowError:
        return math.inf


def _fraction(part: int, schema: int) -> float:
    """Where a part of the way from 1 to 2 ends, of `2 ** schema` parts.

    Prometheus has these numbers in a table. They are not the nearest floats, they are what multiplying gives: two to
    the 1/2, the 1/4, the 1/8 and so on, those of them that the part is made of, in this order. Of all these roots only
    that of 2 is not the nearest float either.
    """
    product, root = 1.0, math.sqrt(2.0)
    for level in range(1, schema + 1):
        if part >> (schema - level) & 1:
            product *= _BELOW_ROOT_OF_2 if level == 1 else root
        root = math.sqrt(root)
    return product


def custom_bound(index: int, bounds: tuple[float, ...]) -> float:
    """Where a custom bucket ends."""
    if index < 0:
        return -math.inf
    return bounds[index] if index < len(bounds) else math.inf


def exponential_bucket(index: int, count: float, schema: int, positive: bool) -> Bucket:
    """A bucket by its number; negative ones mirror the positive ones."""
    far, near = exponential_bound(index, schema), exponential_bound(index - 1, schema)
    # Below the smallest float both ends are zero, which is inside of neither.
    return Bucket(near, far, count, False, far > 0) if positive else Bucket(-far, -near, count, far > 0, False)


def custom_bucket(index: int, count: float, bounds: tuple[float, ...]) -> Bucket:
    """A bucket between custom bounds."""
    return Bucket(custom_bound(index - 1, bounds), custom_bound(index, bounds), count, index == 0, True)

"""Counters and histograms that cost a fraction of a microsecond on the hot path.

prometheus-client takes 2 to 4 µs for an observation with labels and exemplar: a lock for each number, a regular
expression for each label of an exemplar. Here an observation is a few list operations, and the expensive part waits for
the scrape. The price is a rule: **a series is changed on one thread only**, that of the event loop. Any thread may read
it.

There is no gauge that code sets. A level that is set by hand drifts away from the truth; levels are read at the scrape
(`figures.py`).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from time import time
from typing import NamedTuple, TypeAlias

from quarterdeck.telemetry.metrics.exemplars import Exemplar


class Witness(NamedTuple):
    """An observation that stands for its bucket: which query or work it was, how much, and when."""

    exemplar: Exemplar
    value: float
    at_s: float
    """Seconds since 1970, as OpenMetrics wants them."""


_Seen: TypeAlias = tuple[Exemplar, float, float]
"""A witness as it is kept: a named tuple would cost more to make than all the rest of an observation."""


class Counter:
    """Something that only rises."""

    __slots__ = ("_value", "_witness")

    def __init__(self) -> None:
        self._value = 0.0
        self._witness: _Seen | None = None

    def inc(self, amount: float = 1.0, exemplar: Exemplar | None = None) -> None:
        if not amount >= 0.0:  # written so that NaN, which would never leave the total again, is refused too
            raise ValueError(f"a counter was to rise by {amount}")
        self._value += amount
        if exemplar is not None:
            self._witness = (exemplar, amount, time())

    @property
    def value(self) -> float:
        return self._value

    @property
    def witness(self) -> Witness | None:
        return None if self._witness is None else Witness(*self._witness)


class Histogram:
    """How often an amount fell between which bounds. A bound belongs to the bucket below it, as Prometheus has it."""

    __slots__ = ("_bounds", "_counts", "_total", "_witnesses")

    def __init__(self, bounds: Sequence[float]) -> None:
        if not bounds or any(low >= high for low, high in pairwise(bounds)):
            raise ValueError(f"the bounds of a histogram must rise: {bounds}")
        if bounds[0] < 0.0 or math.isinf(bounds[-1]):
            raise ValueError(f"bounds are finite and not negative; the bucket above them is there by itself: {bounds}")
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        self._witnesses: list[_Seen | None] = [None] * (len(bounds) + 1)

    def observe(self, value: float, exemplar: Exemplar | None = None) -> None:
        if not value >= 0.0:  # NaN too
            raise ValueError(f"a histogram was to take {value}")
        bucket = bisect_left(self._bounds, value)
        self._counts[bucket] += 1
        self._total += value
        if exemplar is not None:
            self._witnesses[bucket] = (exemplar, value, time())

    @property
    def bounds(self) -> tuple[float, ...]:
        """The upper bounds, without the last bucket's, which has none."""
        return self._bounds

    @property
    def counts(self) -> list[int]:
        """How many fell into each bucket alone, the one above all bounds last."""
        return self._counts.copy()

    @property
    def witnesses(self) -> list[Witness | None]:
        """For each bucket, the one above all bounds last."""
        return [None if seen is None else Witness(*seen) for seen in self._witnesses]

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def total(self) -> float:
        """The sum of all that was observed."""
        return self._total

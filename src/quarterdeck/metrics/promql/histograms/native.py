"""`NativeHistogram`: how many observations fell into which buckets.

Immutable; every operation answers with a new one. Counts are floats and may be negative or fractional, as differences
and rates are.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from quarterdeck.metrics.promql.floats import show_short
from quarterdeck.metrics.promql.histograms.bounds import CUSTOM, Bucket, custom_bucket, exponential_bucket
from quarterdeck.metrics.promql.histograms.buckets import Buckets, each_count, without_empty
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.numbers import divided


@dataclass(frozen=True, slots=True, eq=False)
class NativeHistogram:
    """A distribution.

    >>> print(NativeHistogram(count=3, total=4, positive=((0, 1.0), (1, 2.0))))
    {count:3, sum:4, (0.5,1]:1, (1,2]:2}
    """

    schema: int = 0
    """The resolution of exponential buckets, from -4 to 8; or `CUSTOM`."""
    zero_threshold: float = 0.0
    """How far the zero bucket reaches to either side. Custom buckets have none."""
    zero_count: float = 0.0
    count: float = 0.0
    """All observations, also those that are in no bucket because they are not numbers."""
    total: float = 0.0
    """The sum of the observations; not-a-number when one of them was."""
    positive: Buckets = ()
    negative: Buckets = ()
    custom_bounds: tuple[float, ...] = ()
    """Where custom buckets end, rising; all custom buckets are on the positive side."""
    hint: ResetHint = ResetHint.UNKNOWN
    """Equal histograms may have different ones."""

    @property
    def is_custom(self) -> bool:
        """Whether its bounds are custom."""
        return self.schema == CUSTOM

    def __eq__(self, other: object) -> bool:
        """Whether all data are the same, bit by bit, including empty buckets."""
        return isinstance(other, NativeHistogram) and self._data() == other._data()

    def __hash__(self) -> int:
        return hash(self._data())

    def _data(self) -> tuple[object, ...]:
        counts = [count for side in (self.positive, self.negative) for _, count in side]
        return (
            self.schema,
            self.zero_threshold,
            self.custom_bounds,
            tuple(index for index, _ in self.positive),
            tuple(index for index, _ in self.negative),
            struct.pack(f"{len(counts) + 3}d", self.count, self.total, self.zero_count, *counts),
        )

    def __str__(self) -> str:
        parts = [f"count:{show_short(self.count)}", f"sum:{show_short(self.total)}"]
        parts += [str(bucket) for bucket in reversed(list(self.negative_buckets())) if bucket.count != 0]
        if self.zero_count != 0:
            parts.append(str(self.zero_bucket))
        parts += [str(bucket) for bucket in self.positive_buckets() if bucket.count != 0]
        return "{" + ", ".join(parts) + "}"

    @property
    def size_bytes(self) -> int:
        """About what it takes: 13 objects of Python, and for each bucket a pair with a number of its own."""
        return 500 + 110 * (len(self.positive) + len(self.negative))

    @property
    def zero_bucket(self) -> Bucket:
        """The bucket around zero."""
        return Bucket(-self.zero_threshold, self.zero_threshold, self.zero_count, True, True)

    def positive_buckets(self) -> Iterator[Bucket]:
        """From zero upwards."""
        if self.is_custom:
            return (custom_bucket(index, count, self.custom_bounds) for index, count in self.positive)
        return (exponential_bucket(index, count, self.schema, True) for index, count in self.positive)

    def negative_buckets(self) -> Iterator[Bucket]:
        """From zero downwards."""
        return (exponential_bucket(index, count, self.schema, False) for index, count in self.negative)

    def all_buckets(self) -> Iterator[Bucket]:
        """By rising bounds. A bucket that overlaps the zero bucket begins where that ends."""
        edge = self.zero_threshold
        for bucket in reversed(list(self.negative_buckets())):
            yield replace(bucket, upper=-edge) if -edge < bucket.upper < 0 else bucket
        if self.zero_count > 0:
            yield self.zero_bucket
        for bucket in self.positive_buckets():
            yield replace(bucket, lower=edge) if 0 < bucket.lower < edge else bucket

    def with_counts(self, change: Callable[[float], float]) -> "NativeHistogram":
        """With all counts and the total changed; the buckets stay."""
        return replace(
            self,
            zero_count=change(self.zero_count),
            count=change(self.count),
            total=change(self.total),
            positive=each_count(self.positive, change),
            negative=each_count(self.negative, change),
        )

    def times(self, factor: float) -> "NativeHistogram":
        """All counts and the total multiplied. What may have become negative is no counter any more."""
        scaled = self.with_counts(lambda count: count * factor)
        return scaled.with_hint(ResetHint.GAUGE) if factor < 0 else scaled

    def divided_by(self, number: float) -> "NativeHistogram":
        """All counts and the total divided. Division by zero leaves no buckets."""
        if number == 0:
            bare = replace(self, positive=(), negative=())
            return bare.with_counts(lambda count: divided(count, number))
        scaled = self.with_counts(lambda count: count / number)
        return scaled.with_hint(ResetHint.GAUGE) if number < 0 else scaled

    def with_hint(self, hint: ResetHint) -> "NativeHistogram":
        """With another counter reset hint."""
        return self if hint is self.hint else replace(self, hint=hint)

    def compact(self) -> "NativeHistogram":
        """Without the buckets that count nothing."""
        return replace(self, positive=without_empty(self.positive), negative=without_empty(self.negative))

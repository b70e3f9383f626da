"""`HistogramTotal`: the sum of many histograms, and their mean.

Totals of parts can be put together, in any order. Rounding is made up for (Neumaier's sum), so that large counts that
cancel out leave the small ones. A mean must not overflow where no histogram did: a sum that would is kept smaller by a
power of two, which costs no precision.
"""

import math
from dataclasses import dataclass
from operator import add
from typing import Final

from quarterdeck.metrics.promql.histograms.arithmetic import put_together
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.layout import MixedBuckets, common_layout, fit
from quarterdeck.metrics.promql.histograms.native import NativeHistogram

_EXPONENT_STEP: Final = 64
"""Enough that 2 ** 64 histograms can be added before the next step."""


@dataclass(frozen=True, slots=True)
class HistogramTotal:
    """How many histograms there were and what they add up to."""

    members: int
    rounded: NativeHistogram
    """The sum, divided by `2 ** exponent`."""
    lost: NativeHistogram | None = None
    """What rounding took away from it; None: nothing."""
    exponent: int = 0
    had_reset: bool = False
    had_no_reset: bool = False
    reconciled: bool = False
    """Custom bounds were different; those that all have were kept."""
    is_mixed: bool = False
    """Some have exponential buckets and others custom ones: there is no sum."""

    @staticmethod
    def of(histogram: NativeHistogram) -> "HistogramTotal":
        """One histogram alone."""
        return HistogramTotal(
            1,
            histogram,
            had_reset=histogram.hint is ResetHint.RESET,
            had_no_reset=histogram.hint is ResetHint.NOT_RESET,
        )

    @property
    def size_bytes(self) -> int:
        """About what it takes."""
        return 200 + self.rounded.size_bytes + (0 if self.lost is None else self.lost.size_bytes)

    @property
    def collided(self) -> bool:
        """Whether some had a counter reset and others had none."""
        return self.had_reset and self.had_no_reset

    def plus(self, other: "HistogramTotal") -> "HistogramTotal":
        """The total of both."""
        exponent = max(self.exponent, other.exponent)
        one, two = self.with_exponent(exponent), other.with_exponent(exponent)
        is_mixed = self.is_mixed or other.is_mixed
        rounded, lost = one.rounded, one.lost
        if not is_mixed:
            try:
                rounded, lost = _sum(one, two)
            except MixedBuckets:
                is_mixed = True
            except OverflowError:
                larger = exponent + _EXPONENT_STEP
                return self.with_exponent(larger).plus(other.with_exponent(larger))
        return HistogramTotal(
            self.members + other.members,
            rounded,
            lost,
            exponent,
            self.had_reset or other.had_reset,
            self.had_no_reset or other.had_no_reset,
            self.reconciled
            or other.reconciled
            or (not is_mixed and one.rounded.custom_bounds != two.rounded.custom_bounds),
            is_mixed,
        )

    def sum(self) -> NativeHistogram:
        """The sum; infinite where it overflows."""
        return self._finished(1.0)

    def mean(self) -> NativeHistogram:
        """The sum, divided by the number of histograms."""
        return self._finished(float(self.members))

    def _finished(self, divisor: float) -> NativeHistogram:
        scale = 2.0**self.exponent
        result = self.rounded.with_counts(lambda count: count / divisor * scale)
        if self.lost is not None:
            layout = common_layout(self.rounded, self.lost)
            result = put_together(result, self.lost.with_counts(lambda c: c / divisor * scale), layout, add)
        return result

    def with_exponent(self, exponent: int) -> "HistogramTotal":
        """The same total, kept smaller."""
        if exponent == self.exponent:
            return self
        factor = 2.0 ** (self.exponent - exponent)
        return HistogramTotal(
            self.members,
            self.rounded.with_counts(lambda count: count * factor),
            None if self.lost is None else self.lost.with_counts(lambda count: count * factor),
            exponent,
            self.had_reset,
            self.had_no_reset,
            self.reconciled,
            self.is_mixed,
        )


def _sum(one: HistogramTotal, two: HistogramTotal) -> tuple[NativeHistogram, NativeHistogram | None]:
    """The rounded sum and what rounding took. `OverflowError` when finite numbers add up to infinity."""
    layout = common_layout(one.rounded, two.rounded)
    left, right = fit(one.rounded, layout), fit(two.rounded, layout)
    rounded = put_together(left, right, layout, _checked_sum)
    lost = put_together(left, right, layout, _rounding_error)
    for earlier in (one.lost, two.lost):
        if earlier is not None:
            lost = put_together(lost, fit(earlier, layout), layout, add)
    return rounded, lost if _counts_something(lost) else None


def _checked_sum(one: float, other: float) -> float:
    total = one + other
    if math.isinf(total) and math.isfinite(one) and math.isfinite(other):
        raise OverflowError
    return total


def _rounding_error(one: float, other: float) -> float:
    """What the rounded sum of two numbers lacks."""
    total = one + other
    if not math.isfinite(total):
        return 0.0
    return (one - total) + other if abs(one) >= abs(other) else (other - total) + one


def _counts_something(histogram: NativeHistogram) -> bool:
    return bool(
        histogram.zero_count
        or histogram.count
        or histogram.total
        or any(count for side in (histogram.positive, histogram.negative) for _, count in side)
    )

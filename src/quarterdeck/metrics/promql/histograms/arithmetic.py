"""Sums and differences of two histograms."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, sub

from quarterdeck.metrics.promql.histograms.buckets import paired
from quarterdeck.metrics.promql.histograms.hints import combined_hint, hints_collide
from quarterdeck.metrics.promql.histograms.layout import Layout, common_layout, fit
from quarterdeck.metrics.promql.histograms.native import NativeHistogram


@dataclass(frozen=True, slots=True)
class Outcome:
    """A sum or difference, and what a reader should know about it."""

    histogram: NativeHistogram
    collided: bool
    """One side had a counter reset and the other had none."""
    reconciled: bool
    """The custom bounds were different; those that both have were kept."""


def add_histograms(one: NativeHistogram, other: NativeHistogram) -> Outcome:
    """The sum. `MixedBuckets` when there is none."""
    return _combine(one, other, add)


def subtract_histograms(one: NativeHistogram, other: NativeHistogram) -> Outcome:
    """The difference. `MixedBuckets` when there is none."""
    return _combine(one, other, sub)


def _combine(one: NativeHistogram, other: NativeHistogram, operation: Callable[[float, float], float]) -> Outcome:
    layout = common_layout(one, other)
    return Outcome(
        put_together(fit(one, layout), fit(other, layout), layout, operation),
        hints_collide(one.hint, other.hint),
        one.is_custom and one.custom_bounds != other.custom_bounds,
    )


def put_together(
    one: NativeHistogram, other: NativeHistogram, layout: Layout, operation: Callable[[float, float], float]
) -> NativeHistogram:
    """An operation on each pair of counts of two histograms in one layout."""
    return NativeHistogram(
        layout.schema,
        layout.zero_threshold,
        operation(one.zero_count, other.zero_count),
        operation(one.count, other.count),
        operation(one.total, other.total),
        paired(one.positive, other.positive, operation),
        paired(one.negative, other.negative, operation),
        layout.custom_bounds,
        combined_hint(one.hint, other.hint),
    )

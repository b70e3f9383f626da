"""Which buckets a histogram has, and how two histograms come to have the same ones.

Exponential ones take the coarser schema and the wider zero bucket; custom ones keep the bounds that both have. An
exponential and a custom one have nothing in common.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace

from quarterdeck.metrics.promql.histograms.bounds import exponential_bound
from quarterdeck.metrics.promql.histograms.buckets import Buckets, merged, without_empty
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.numbers import plain_sum


class MixedBuckets(ValueError):
    """Exponential and custom buckets cannot be put together."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The buckets that are possible."""

    schema: int
    zero_threshold: float
    custom_bounds: tuple[float, ...]

    @staticmethod
    def of(histogram: NativeHistogram) -> "Layout":
        """A histogram's own."""
        return Layout(histogram.schema, histogram.zero_threshold, histogram.custom_bounds)


def common_layout(one: NativeHistogram, other: NativeHistogram) -> Layout:
    """The finest layout that both fit. `MixedBuckets` when there is none."""
    if one.is_custom != other.is_custom:
        raise MixedBuckets("exponential and custom buckets cannot be put together")
    if one.is_custom:
        if one.custom_bounds == other.custom_bounds:
            return Layout.of(one)
        shared = set(one.custom_bounds) & set(other.custom_bounds)
        return Layout(one.schema, 0.0, tuple(sorted(shared)))
    threshold = max(one.zero_threshold, other.zero_threshold)
    wider = threshold
    if one.zero_threshold != other.zero_threshold:
        while (wider := max(_clear_of(one, threshold), _clear_of(other, threshold))) > threshold:
            threshold = wider
    return Layout(min(one.schema, other.schema), threshold, ())


def fit(histogram: NativeHistogram, layout: Layout) -> NativeHistogram:
    """The histogram in a layout that is coarser than its own."""
    if Layout.of(histogram) == layout:
        return histogram
    if histogram.is_custom:
        return _rebounded(histogram, layout.custom_bounds)
    return reduce_schema(widen_zero(histogram, layout.zero_threshold), layout.schema)


def beyond_zero(buckets: Buckets, layout: Layout) -> Buckets:
    """Without the buckets at the beginning that end within the zero bucket."""
    for place, (index, _) in enumerate(buckets):
        if exponential_bound(index, layout.schema) > layout.zero_threshold:
            return buckets[place:]
    return ()


def reduce_schema(histogram: NativeHistogram, schema: int) -> NativeHistogram:
    """With a coarser resolution.

    >>> print(reduce_schema(NativeHistogram(positive=((1, 2.0), (2, 3.0), (3, 1.0))), -1))
    {count:0, sum:0, (1,4]:5, (4,16]:1}
    """
    shift = histogram.schema - schema
    if shift == 0:
        return histogram
    if shift < 0:
        raise ValueError(f"a histogram of schema {histogram.schema} has no finer resolution: {schema} was asked for")

    def target(index: int) -> int:
        return ((index - 1) >> shift) + 1

    return replace(
        histogram,
        schema=schema,
        positive=merged(histogram.positive, target),
        negative=merged(histogram.negative, target),
    )


def widen_zero(histogram: NativeHistogram, threshold: float) -> NativeHistogram:
    """With a zero bucket that reaches further and has swallowed what lies below the threshold."""
    if threshold == histogram.zero_threshold:
        return histogram
    positive, above = _split(histogram.positive, histogram.schema, threshold)
    negative, below = _split(histogram.negative, histogram.schema, threshold)
    return replace(
        histogram,
        zero_threshold=threshold,
        zero_count=plain_sum((histogram.zero_count, *above, *below)),
        positive=without_empty(positive),
        negative=without_empty(negative),
    )


def zero_count_within(histogram: NativeHistogram, threshold: float) -> float | None:
    """What the zero bucket would count if it were this wide; None when its edge would cut a bucket that counts."""
    if _clear_of(histogram, threshold) != threshold:
        return None
    return widen_zero(histogram, threshold).zero_count


def _split(buckets: Buckets, schema: int, threshold: float) -> tuple[Buckets, list[float]]:
    """The buckets that stay when the zero bucket grows, and what each of the other ones counted."""
    swallowed = [count for index, count in buckets if exponential_bound(index - 1, schema) < threshold]
    return buckets[len(swallowed) :], swallowed


def _clear_of(histogram: NativeHistogram, threshold: float) -> float:
    """The threshold, or the end of the bucket that it would cut if that bucket counts something."""
    if threshold == histogram.zero_threshold:
        return threshold
    for side in (histogram.positive, histogram.negative):
        for index, count in side:
            end = exponential_bound(index, histogram.schema)
            if count != 0 and exponential_bound(index - 1, histogram.schema) < threshold < end:
                threshold = end
    return threshold


def _rebounded(histogram: NativeHistogram, bounds: tuple[float, ...]) -> NativeHistogram:
    """With fewer custom bounds."""
    known = histogram.custom_bounds

    def target(index: int) -> int:
        return bisect_left(bounds, known[index]) if index < len(known) else len(bounds)

    positive = without_empty(merged(histogram.positive, target))
    return replace(histogram, custom_bounds=bounds, positive=positive)

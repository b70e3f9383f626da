"""Cutting a histogram off at a value: what lies above it goes, or what lies below.

A bucket that the value cuts keeps its share, by the same rules as a quantile. The total cannot be known any more: it
is made from the middles of the buckets that are left, unless nothing was cut.
"""

import math
from dataclasses import dataclass, replace

from quarterdeck.metrics.promql.histograms.bounds import Bucket
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.quantiles import share_below


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is left of a bucket, and where its middle is."""

    count: float
    middle: float


def trim_above(histogram: NativeHistogram, value: float) -> NativeHistogram:
    """Only the observations up to a value (`</`)."""
    return _trimmed(histogram, value, above=True)


def trim_below(histogram: NativeHistogram, value: float) -> NativeHistogram:
    """Only the observations from a value on (`>/`)."""
    return _trimmed(histogram, value, above=False)


def _trimmed(histogram: NativeHistogram, value: float, above: bool) -> NativeHistogram:
    positive = [_cut(bucket, value, above, histogram.is_custom) for bucket in histogram.positive_buckets()]
    negative = [_cut(bucket, value, above, is_custom=False) for bucket in histogram.negative_buckets()]
    has_positive = any(count != 0 for _, count in histogram.positive)
    has_negative = any(count != 0 for _, count in histogram.negative)
    zero = _cut_zero(histogram, value, above, has_negative, has_positive)
    kept = [*positive, *negative, zero]
    left = replace(
        histogram,
        zero_count=zero.count,
        positive=tuple((index, one.count) for (index, _), one in zip(histogram.positive, positive, strict=True)),
        negative=tuple((index, one.count) for (index, _), one in zip(histogram.negative, negative, strict=True)),
    )
    if left == histogram:
        return histogram
    count = sum(one.count for one in kept)
    total = sum(one.count * one.middle for one in kept if one.count != 0)
    return replace(left, count=count, total=total).compact()


def _cut(bucket: Bucket, value: float, above: bool, is_custom: bool) -> _Kept:
    if bucket.upper <= value if above else bucket.lower >= value:
        return _Kept(bucket.count, _middle(bucket.lower, bucket.upper, is_custom))
    if not (bucket.lower < value if above else bucket.upper > value):
        return _Kept(0.0, 0.0)
    if bucket.lower == -math.inf:
        return _cut_lowest(bucket, value, above)
    if bucket.upper == math.inf:
        # Nothing is known about where its observations lie; they count as lying at the cut.
        return _Kept(0.0, 0.0) if above else _Kept(bucket.count, value)
    below = bucket.count * share_below(bucket, value, is_custom or bucket.lower <= 0 <= bucket.upper)
    if above:
        return _Kept(below, _middle(bucket.lower, value, is_custom))
    return _Kept(bucket.count - below, _middle(value, bucket.upper, is_custom))


def _cut_lowest(bucket: Bucket, value: float, above: bool) -> _Kept:
    """The lowest custom bucket: it begins at zero if it ends above zero, else nobody knows where."""
    if value >= 0 and bucket.upper < math.inf:
        share = value / bucket.upper
        if above:
            return _Kept(bucket.count * share, value / 2)
        return _Kept(bucket.count * (1 - share), (value + bucket.upper) / 2)
    return _Kept(bucket.count, value) if above and bucket.upper <= 0 else _Kept(0.0, 0.0)


def _cut_zero(histogram: NativeHistogram, value: float, above: bool, has_negative: bool, has_positive: bool) -> _Kept:
    """The zero bucket: it ends at zero when there is nothing on the other side."""
    count = histogram.zero_count
    lower = 0.0 if has_positive and not has_negative else -histogram.zero_threshold
    upper = 0.0 if has_negative and not has_positive else histogram.zero_threshold
    if count <= 0 or (value <= lower if above else value >= upper):
        return _Kept(min(count, 0.0), 0.0)
    if value >= upper if above else value <= lower:
        return _Kept(count, (lower + upper) / 2)
    share = (value - lower) / (upper - lower)
    return _Kept(count * share, (lower + value) / 2) if above else _Kept(count * (1 - share), (value + upper) / 2)


def _middle(lower: float, upper: float, is_custom: bool) -> float:
    """Where the observations between two bounds lie, on average."""
    if math.isinf(lower):
        if math.isinf(upper):
            return 0.0
        return upper / 2 if upper > 0 else upper
    if math.isinf(upper):
        return lower
    if is_custom:
        return (lower + upper) / 2
    return math.copysign(math.sqrt(abs(lower * upper)), upper if upper != 0 else lower)

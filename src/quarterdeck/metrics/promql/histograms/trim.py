"""Cutting a histogram off at a value: what lies above it goes, or what lies below.

A bucket that the value cuts keeps its share, by the same rules as a quantile. The total cannot be known any more: it
is made from the middles of the buckets that are left, unless nothing was cut.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from quarterdeck.metrics.promql.histograms.bounds import Bucket
from quarterdeck.metrics.promql.histograms.buckets import Buckets
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.numbers import divided, plain_sum
from quarterdeck.metrics.promql.histograms.quantiles import share_below


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is left of a bucket, and where its middle is."""

    count: float
    middle: float = 0.0
    is_whole: bool = False
    """Whether the cut is elsewhere. The count says it too, but if it is no number."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where the histogram is cut off, and which part of it stays."""

    value: float
    above: bool
    """Whether what lies above goes."""
    is_custom: bool


def trim_above(histogram: NativeHistogram, value: float) -> NativeHistogram:
    """Only the observations up to a value (`</`)."""
    return _trimmed(histogram, _Cut(value, True, histogram.is_custom))


def trim_below(histogram: NativeHistogram, value: float) -> NativeHistogram:
    """Only the observations from a value on (`>/`)."""
    return _trimmed(histogram, _Cut(value, False, histogram.is_custom))


def _trimmed(histogram: NativeHistogram, cut: _Cut) -> NativeHistogram:
    positive = [_kept_of(bucket, cut) for bucket in histogram.positive_buckets()]
    negative = [_kept_of(bucket, cut) for bucket in histogram.negative_buckets()]
    # A zero bucket that counts less than nothing is left as it is, and out of the sums.
    zero = _kept_of_zero(histogram, cut) if histogram.zero_count > 0 else None
    if not (
        _is_less(histogram.positive, positive)
        or _is_less(histogram.negative, negative)
        or (zero is not None and zero.count != histogram.zero_count)
    ):
        return histogram
    kept = [one for one in (*positive, *negative, zero) if one is not None]
    left = replace(
        histogram,
        zero_count=histogram.zero_count if zero is None else zero.count,
        count=plain_sum(one.count for one in kept),
        total=plain_sum(one.middle * one.count for one in kept),
        positive=_counted(histogram.positive, positive),
        negative=_counted(histogram.negative, negative),
    )
    return left.compact()


def _is_less(before: Buckets, kept: Iterable[_Kept | None]) -> bool:
    """Whether anything was cut off."""
    return any(
        one is not None and not one.is_whole and one.count != count
        for (_, count), one in zip(before, kept, strict=True)
    )


def _counted(before: Buckets, kept: Iterable[_Kept | None]) -> Buckets:
    return tuple((index, count if one is None else one.count) for (index, count), one in zip(before, kept, strict=True))


def _kept_of(bucket: Bucket, cut: _Cut) -> _Kept | None:
    """What is left of a bucket; None of one that has counted nothing before."""
    value, above = cut.value, cut.above
    if bucket.count == 0:
        return None
    if bucket.upper <= value if above else bucket.lower >= value:
        return _Kept(bucket.count, _middle(bucket.lower, bucket.upper, bucket, cut), is_whole=True)
    if not (bucket.lower < value if above else bucket.upper > value):
        return _Kept(0.0)
    if bucket.lower == -math.inf:
        return _kept_of_lowest(bucket, cut)
    if bucket.upper == math.inf:
        # Nothing is known about where its observations lie; they count as lying at the cut.
        return _Kept(0.0) if above else _Kept(bucket.count, value)
    below = bucket.count * share_below(bucket, value, cut.is_custom)
    if above:
        return _Kept(below, _middle(bucket.lower, value, bucket, cut))
    return _Kept(bucket.count - below, _middle(value, bucket.upper, bucket, cut))


def _kept_of_lowest(bucket: Bucket, cut: _Cut) -> _Kept:
    """The lowest custom bucket: it begins at zero if it ends above zero, else nobody knows where."""
    value, upper = cut.value, bucket.upper
    if cut.above:
        if value > 0 and 0 < upper < math.inf:
            return _Kept(bucket.count * value / upper, value / 2)
        return _Kept(bucket.count, value) if upper <= 0 else _Kept(0.0)
    if value >= 0 and value < upper < math.inf:
        return _Kept(bucket.count * (1 - value / upper), (value + upper) / 2)
    return _Kept(0.0)


def _kept_of_zero(histogram: NativeHistogram, cut: _Cut) -> _Kept:
    """The zero bucket: it ends at zero when there is nothing on the other side. It may have no width, and a value may
    be no number: then nobody knows what is left."""
    value, count = cut.value, histogram.zero_count
    has_positive, has_negative = (_counts_something(side) for side in (histogram.positive, histogram.negative))
    lower = 0.0 if has_positive and not has_negative else -histogram.zero_threshold
    upper = 0.0 if has_negative and not has_positive else histogram.zero_threshold
    whole, nothing = _Kept(count, (lower + upper) / 2), _Kept(0.0)
    if value <= lower:
        return nothing if cut.above else whole
    if value >= upper:
        return whole if cut.above else nothing
    if cut.above:
        return _Kept(count * divided(value - lower, upper - lower), (lower + value) / 2)
    return _Kept(count * divided(upper - value, upper - lower), (value + upper) / 2)


def _counts_something(buckets: Buckets) -> bool:
    return any(count != 0 for _, count in buckets)


def _middle(lower: float, upper: float, bucket: Bucket, cut: _Cut) -> float:
    """Where the observations of a bucket between two bounds lie, on average."""
    if math.isinf(lower):
        if math.isinf(upper):
            return 0.0
        return upper / 2 if upper > 0 else upper
    if math.isinf(upper):
        return lower
    if cut.is_custom:
        return (lower + upper) / 2
    return math.copysign(math.sqrt(abs(lower * upper)), -1.0 if bucket.lower < 0 else 1.0)

"""Quantiles of a histogram, and the share of its observations between two values.

Within an exponential bucket observations are taken to be spread evenly over the logarithms; within the zero bucket and
custom buckets, over the values.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from quarterdeck.metrics.promql.histograms.bounds import Bucket
from quarterdeck.metrics.promql.histograms.native import NativeHistogram, divided_by_zero


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile, and whether observations that are not numbers had a part in it."""

    value: float
    is_skewed: bool = False
    """Such observations count as larger than all others."""


def quantile(histogram: NativeHistogram, phi: float) -> Quantile:
    """The value below which the share `phi` of all observations lies.

    >>> quantile(NativeHistogram(count=4, total=5, positive=((0, 1.0), (1, 2.0), (2, 1.0))), 0.5)
    Quantile(value=1.4142135623730951, is_skewed=False)
    """
    if phi < 0:
        return Quantile(-math.inf)
    if phi > 1:
        return Quantile(math.inf)
    if histogram.count == 0 or math.isnan(phi):
        return Quantile(math.nan)
    has_nan = math.isnan(histogram.total)
    # From the nearer end, where less rounding adds up. What is not a number is counted nowhere but in the whole.
    upwards = has_nan or phi < 0.5
    buckets = list(histogram.all_buckets())
    rank = (phi if upwards else 1 - phi) * histogram.count
    bucket, seen = _bucket_at(rank, buckets if upwards else reversed(buckets))
    if histogram.is_custom:
        if bucket.lower == -math.inf and bucket.upper <= 0:
            return Quantile(bucket.upper)
        if bucket.upper == math.inf:
            return Quantile(bucket.lower)
    bucket = _narrowed(bucket, histogram)
    seen = min(seen, histogram.count)
    if seen < rank:
        return Quantile(math.nan if has_nan else bucket.upper, has_nan)
    within = rank - (seen - bucket.count) if upwards else seen - rank
    share = within / bucket.count if bucket.count != 0 else divided_by_zero(within, bucket.count)
    return Quantile(_value_at(bucket, share, histogram.is_custom), has_nan)


def fraction(histogram: NativeHistogram, lower: float, upper: float) -> float:
    """The share of all observations that lie between two values."""
    if histogram.count == 0 or math.isnan(lower) or math.isnan(upper):
        return math.nan
    if lower >= upper:
        return 0.0
    return (_rank_of(histogram, upper) - _rank_of(histogram, lower)) / histogram.count


def share_below(bucket: Bucket, value: float, is_linear: bool) -> float:
    """Which share of a bucket lies below a value inside it."""
    if is_linear:
        return (value - bucket.lower) / (bucket.upper - bucket.lower)
    near, far, at = (math.log2(abs(bound)) for bound in (bucket.lower, bucket.upper, value))
    return (at - near) / (far - near) if value > 0 else 1 - (at - far) / (near - far)


def _bucket_at(rank: float, buckets: Iterable[Bucket]) -> tuple[Bucket, float]:
    """The bucket with the observation of a rank, and how many there are up to its end.

    Where there are fewer than that, it is the last bucket, also an empty one; without buckets, one at zero.
    """
    found = Bucket(0.0, 0.0, 0.0, True, True)
    seen = 0.0
    for found in buckets:
        seen += found.count
        if found.count != 0 and seen >= rank:
            break
    return found, seen


def _narrowed(bucket: Bucket, histogram: NativeHistogram) -> Bucket:
    """A bucket around zero ends at zero when there is nothing on the other side."""
    if histogram.is_custom:
        return replace(bucket, lower=0.0) if bucket.lower == -math.inf and bucket.upper > 0 else bucket
    if bucket.lower <= 0 <= bucket.upper:
        if histogram.positive and not histogram.negative:
            return replace(bucket, lower=0.0)
        if histogram.negative and not histogram.positive:
            return replace(bucket, upper=0.0)
    return bucket


def _value_at(bucket: Bucket, share: float, is_custom: bool) -> float:
    if is_custom or bucket.lower <= 0 <= bucket.upper:
        return bucket.lower + (bucket.upper - bucket.lower) * share
    near, far = math.log2(abs(bucket.lower)), math.log2(abs(bucket.upper))
    if bucket.lower > 0:
        return 2.0 ** (near + (far - near) * share)
    return -(2.0 ** (far + (near - far) * (1 - share)))


def _rank_of(histogram: NativeHistogram, value: float) -> float:
    """How many observations lie below a value."""
    rank = 0.0
    for original in histogram.all_buckets():
        bucket = _narrowed(original, histogram)
        if bucket.lower >= value:
            return rank
        if value < bucket.upper:
            if bucket.lower == -math.inf or bucket.upper == math.inf:
                # Where in it they lie is unknown: all below, as the lower bound of the next bucket says.
                return rank + (bucket.count if bucket.lower == -math.inf else 0.0)
            is_linear = histogram.is_custom or bucket.lower <= 0 <= bucket.upper
            return rank + bucket.count * share_below(bucket, value, is_linear)
        rank += bucket.count
    return rank

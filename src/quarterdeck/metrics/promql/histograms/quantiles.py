"""Quantiles of a histogram, and the share of its observations between two values.

Within an exponential bucket observations are taken to be spread evenly over the logarithms; within the zero bucket and
custom buckets, over the values.

Prometheus' rules are followed to the letter, also for histograms that no observations could have made: buckets may
count more than there is, or less than nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from quarterdeck.metrics.promql.histograms.bounds import Bucket
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.numbers import divided, exp2, log2, plain_sum

_NO_BUCKET: Final = Bucket(0.0, 0.0, 0.0, False, False)


class NotNumbers(StrEnum):
    """What observations that are not numbers, which count as larger than all others, do to a quantile."""

    ASKED_FOR = "it is one of them"
    SKEW = "it is higher for them"
    """Or would be, if the buckets said anything of the numbers."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile, and the part that observations that are not numbers had in it."""

    value: float
    not_numbers: NotNumbers | None = None


def quantile(histogram: NativeHistogram, phi: float) -> Quantile:
    """The value below which the share `phi` of all observations lies.

    >>> quantile(NativeHistogram(count=4, total=5, positive=((0, 1.0), (1, 2.0), (2, 1.0))), 0.5)
    Quantile(value=1.4142135623730951, not_numbers=None)
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
    if not upwards:
        buckets.reverse()
    rank = (phi if upwards else 1 - phi) * histogram.count
    bucket, seen, beyond = _bucket_at(rank, buckets)
    if histogram.is_custom:
        if bucket.lower == -math.inf:
            if bucket.upper <= 0:
                return Quantile(bucket.upper)
            bucket = replace(bucket, lower=0.0)
        elif bucket.upper == math.inf:
            return Quantile(bucket.lower)
    elif bucket.lower < 0 < bucket.upper:
        bucket = _narrowed(bucket, histogram)
    seen = min(seen, histogram.count)
    if seen < rank:
        return Quantile(math.nan, NotNumbers.ASKED_FOR) if has_nan else Quantile(bucket.upper)
    within = rank - (seen - bucket.count) if upwards else seen - rank
    # A sum that is not a number may also come of -Inf and +Inf, which are in buckets.
    is_skewed = has_nan and plain_sum([seen, *(other.count for other in beyond)]) < histogram.count
    value = _value_at(bucket, divided(within, bucket.count), histogram.is_custom)
    return Quantile(value, NotNumbers.SKEW if is_skewed else None)


def fraction(histogram: NativeHistogram, lower: float, upper: float) -> float:
    """The share of all observations that lie between two values."""
    if histogram.count == 0 or math.isnan(lower) or math.isnan(upper):
        return math.nan
    if lower >= upper:
        return 0.0
    most = _in_buckets(histogram) if math.isnan(histogram.total) else histogram.count
    below_lower, below_upper = (_rank_of(histogram, value, most) for value in (lower, upper))
    return (below_upper - below_lower) / histogram.count


def has_uncounted(histogram: NativeHistogram) -> bool:
    """Whether there are observations that are in no bucket, because they are not numbers."""
    return math.isnan(histogram.total) and histogram.count != 0 and _in_buckets(histogram) < histogram.count


def share_below(bucket: Bucket, value: float, is_linear: bool) -> float:
    """Which share of a bucket lies below a value inside it."""
    if is_linear:
        return divided(value - bucket.lower, bucket.upper - bucket.lower)
    near, far, at = (log2(abs(bound)) for bound in (bucket.lower, bucket.upper, value))
    return divided(at - near, far - near) if value > 0 else 1 - divided(at - far, near - far)


def _bucket_at(rank: float, buckets: list[Bucket]) -> tuple[Bucket, float, list[Bucket]]:
    """The bucket with the observation of a rank, how many there are up to its end, and the buckets beyond it. Without
    such an observation, the last bucket, even if it counts nothing."""
    found = _NO_BUCKET
    seen = 0.0
    for place, found in enumerate(buckets):
        if found.count == 0:
            continue
        seen += found.count
        if seen >= rank:
            return found, seen, buckets[place + 1 :]
    return found, seen, []


def _narrowed(bucket: Bucket, histogram: NativeHistogram) -> Bucket:
    """A bucket around zero ends at zero when there is nothing on the other side."""
    if histogram.positive and not histogram.negative:
        return replace(bucket, lower=0.0)
    if histogram.negative and not histogram.positive:
        return replace(bucket, upper=0.0)
    return bucket


def _value_at(bucket: Bucket, share: float, is_custom: bool) -> float:
    if is_custom or bucket.lower <= 0 <= bucket.upper:
        return bucket.lower + (bucket.upper - bucket.lower) * share
    near, far = log2(abs(bucket.lower)), log2(abs(bucket.upper))
    if bucket.lower > 0:
        return exp2(near + (far - near) * share)
    return -exp2(far + (near - far) * (1 - share))


def _in_buckets(histogram: NativeHistogram) -> float:
    return plain_sum(bucket.count for bucket in histogram.all_buckets())


def _rank_of(histogram: NativeHistogram, value: float, most: float) -> float:
    """How many observations lie below a value, at most as many as there may be."""
    rank = _rank_in(_narrowed_at_zero(histogram), value, histogram.is_custom)
    # Not min(): a rank that is not a number must stay so.
    return most if rank is None or rank > most else rank


def _narrowed_at_zero(histogram: NativeHistogram) -> Iterable[Bucket]:
    """The buckets, those around zero narrowed: also custom ones, which nothing negative ever stands beside."""
    for bucket in histogram.all_buckets():
        yield _narrowed(bucket, histogram) if bucket.lower <= 0 <= bucket.upper else bucket


def _rank_in(buckets: Iterable[Bucket], value: float, is_custom: bool) -> float | None:
    """How many observations lie below a value; None if all may."""
    rank = 0.0
    for bucket in buckets:
        if bucket.lower >= value:
            return rank
        if bucket.lower < value < bucket.upper:
            if not (is_custom or bucket.lower <= 0 <= bucket.upper):
                return rank + bucket.count * share_below(bucket, value, is_linear=False)
            if bucket.lower == -math.inf:
                # Where in it they lie is unknown: all below.
                return bucket.count
            return rank + bucket.count * (value - bucket.lower) / (bucket.upper - bucket.lower)
        rank += bucket.count
    return None

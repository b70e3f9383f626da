"""Numbers that say something about a whole histogram."""

import math

from quarterdeck.metrics.promql.histograms.bounds import Bucket
from quarterdeck.metrics.promql.histograms.native import NativeHistogram, divided_by_zero


def mean(histogram: NativeHistogram) -> float:
    """The average observation."""
    if histogram.count == 0:
        return divided_by_zero(histogram.total, histogram.count)
    return histogram.total / histogram.count


def variance(histogram: NativeHistogram) -> float:
    """How far observations lie from the average, squared; those of a bucket are taken to be in its middle."""
    if histogram.count == 0:
        return math.nan
    average = mean(histogram)
    distances = [
        (bucket.count, _middle(bucket, histogram.is_custom) - average)
        for bucket in histogram.all_buckets()
        if bucket.count != 0
    ]
    # Not a power: that is an error in Python where a product is infinite.
    squares = [count * distance * distance for count, distance in distances]
    total = sum(squares)
    return (math.fsum(squares) if math.isfinite(total) else total) / histogram.count


def deviation(histogram: NativeHistogram) -> float:
    """The square root of the variance."""
    found = variance(histogram)
    return math.sqrt(found) if found >= 0 else math.nan


def _middle(bucket: Bucket, is_custom: bool) -> float:
    if is_custom:
        return (bucket.upper + bucket.lower) / 2
    if bucket.lower <= 0 <= bucket.upper:
        return 0.0
    return math.copysign(math.sqrt(bucket.upper * bucket.lower), bucket.upper)

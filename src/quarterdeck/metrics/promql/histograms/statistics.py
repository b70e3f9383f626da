"""Numbers that say something about a whole histogram."""

import math

from quarterdeck.metrics.promql.histograms.bounds import Bucket
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.numbers import careful_sum, divided


def mean(histogram: NativeHistogram) -> float:
    """The average observation."""
    return divided(histogram.total, histogram.count)


def variance(histogram: NativeHistogram) -> float:
    """How far observations lie from the average, squared; those of a bucket are taken to be in its middle."""
    average = mean(histogram)
    distances = [
        (bucket.count, _middle(bucket, histogram.is_custom) - average)
        for bucket in histogram.all_buckets()
        if bucket.count != 0
    ]
    # Not a power: that is an error in Python where a product is infinite.
    return divided(careful_sum(count * distance * distance for count, distance in distances), histogram.count)


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

"""Native histograms as JSON: the count, the sum, and each bucket that counts something with its bounds."""

from collections.abc import Sequence

import numpy as np

from quarterdeck.metrics.api.numbers import show_floats
from quarterdeck.metrics.promql.histograms.bounds import Bucket
from quarterdeck.metrics.promql.histograms.native import NativeHistogram


def histogram_texts(histograms: Sequence[NativeHistogram]) -> list[bytes]:
    """One JSON object for each.

    >>> histogram_texts([NativeHistogram(count=3, total=4, positive=((0, 1.0), (1, 2.0)))])
    [b'{"count":"3","sum":"4","buckets":[[0,"0.5","1","1"],[0,"1","2","2"]]}']
    """
    rules: list[list[int]] = []
    numbers: list[float] = []
    for histogram in histograms:
        buckets = [bucket for bucket in histogram.all_buckets() if bucket.count != 0]
        rules.append([_rule(bucket) for bucket in buckets])
        numbers += (histogram.count, histogram.total)
        for bucket in buckets:
            numbers += (bucket.lower, bucket.upper, bucket.count)
    shown = iter(show_floats(np.array(numbers, np.float64)))
    return [_object(next(shown), next(shown), zip(some, shown, shown, shown, strict=False)).encode() for some in rules]


def _rule(bucket: Bucket) -> int:
    """Which bounds are inside: 0 the upper, 1 the lower, 2 none, 3 both."""
    if bucket.has_lower:
        return 3 if bucket.has_upper else 1
    return 0 if bucket.has_upper else 2


def _object(count: str, total: str, buckets: "zip[tuple[int, str, str, str]]") -> str:
    shown = ",".join([f'[{rule},"{lower}","{upper}","{inside}"]' for rule, lower, upper, inside in buckets])
    listed = f',"buckets":[{shown}]' if shown else ""
    return f'{{"count":"{count}","sum":"{total}"{listed}}}'

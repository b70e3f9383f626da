"""What is asked of one histogram: its mean and spread, quantiles, fractions, and the part of it beside a value."""

import math
import sys
from dataclasses import dataclass, replace

from tests.differential.histogram_model.histogram import Bucket, Histogram, over


@dataclass(frozen=True)
class Share:
    """A number, and what of the observations that are not numbers is to be said about it."""

    value: float
    remark: str = ""


def variance(histogram: Histogram) -> float:
    """The mean squared distance from the mean; observations lie in the middle of their bucket."""
    mean = over(histogram.sum, histogram.count)
    squares = 0.0
    for bucket in histogram.ascending():
        if bucket.count != 0:
            distance = _centre(bucket, histogram.is_custom) - mean
            squares += bucket.count * distance * distance
    return over(squares, histogram.count)


def _centre(bucket: Bucket, is_custom: bool) -> float:
    if is_custom:
        return (bucket.lower + bucket.upper) / 2
    if bucket.lower <= 0 <= bucket.upper:
        return 0.0
    middle = math.sqrt(bucket.lower * bucket.upper)
    return middle if bucket.upper > 0 else -middle


def quantile(histogram: Histogram, phi: float) -> Share:
    """The value below which a share of the observations lies."""
    if phi < 0 or phi > 1:
        return Share(math.inf if phi > 1 else -math.inf)
    if histogram.count == 0 or math.isnan(phi):
        return Share(math.nan)
    has_nan = math.isnan(histogram.sum)
    upwards = has_nan or phi < 0.5
    buckets = histogram.ascending() if upwards else histogram.ascending()[::-1]
    rank = (phi if upwards else 1 - phi) * histogram.count
    bucket, seen, rest = Bucket(0.0, 0.0, 0.0), 0.0, 0.0
    for place, bucket in enumerate(buckets):
        seen += bucket.count
        if bucket.count != 0 and seen >= rank:
            rest = sum(other.count for other in buckets[place + 1 :])
            break
    if histogram.is_custom and bucket.lower == -math.inf:
        if bucket.upper <= 0:
            return Share(bucket.upper)
        bucket = replace(bucket, lower=0.0)
    elif histogram.is_custom and bucket.upper == math.inf:
        return Share(bucket.lower)
    elif not histogram.is_custom and bucket.lower < 0 < bucket.upper:
        bucket = _one_sided(bucket, histogram)
    seen = min(seen, histogram.count)
    counted = seen + rest
    if seen < rank:
        return Share(math.nan, "result is NaN") if has_nan else Share(bucket.upper)
    within = rank - (seen - bucket.count) if upwards else seen - rank
    remark = "result is skewed higher" if has_nan and counted < histogram.count else ""
    return Share(_at(bucket, over(within, bucket.count), histogram.is_custom), remark)


def _one_sided(bucket: Bucket, histogram: Histogram) -> Bucket:
    """The zero bucket reaches to zero only, on the side on which there are no buckets."""
    if histogram.positive and not histogram.negative:
        return replace(bucket, lower=0.0)
    if histogram.negative and not histogram.positive:
        return replace(bucket, upper=0.0)
    return bucket


def _at(bucket: Bucket, share: float, is_custom: bool) -> float:
    if is_custom or bucket.lower <= 0 <= bucket.upper:
        return bucket.lower + (bucket.upper - bucket.lower) * share
    near, far = math.log2(abs(bucket.lower)), math.log2(abs(bucket.upper))
    if bucket.lower > 0:
        return _power_of_two(near + (far - near) * share)
    return -_power_of_two(far + (near - far) * (1 - share))


def _power_of_two(exponent: float) -> float:
    return math.inf if exponent >= sys.float_info.max_exp else 2.0**exponent


def fraction(histogram: Histogram, lower: float, upper: float) -> Share:
    """The share of the observations between two values."""
    if histogram.count == 0 or math.isnan(lower) or math.isnan(upper):
        return Share(math.nan)
    if lower >= upper:
        return Share(0.0)
    counted, remark = histogram.count, ""
    if math.isnan(histogram.sum):
        counted = sum(bucket.count for bucket in histogram.ascending())
        remark = "which are excluded from all fractions" if counted < histogram.count else ""
    below_upper, below_lower = (min(_rank(histogram, value), counted) for value in (upper, lower))
    return Share(over(below_upper - below_lower, histogram.count), remark)


def _rank(histogram: Histogram, value: float) -> float:
    """How many observations lie below a value."""
    rank = 0.0
    for bucket in histogram.ascending():
        is_zero = bucket.lower <= 0 <= bucket.upper
        part = _one_sided(bucket, histogram) if is_zero else bucket
        if part.lower >= value:
            return rank
        if part.upper > value:
            if not histogram.is_custom and not is_zero:
                return rank + part.count * _log_share(part, value)
            if part.lower == -math.inf:
                return part.count
            return rank + part.count * (value - part.lower) / (part.upper - part.lower)
        rank += part.count
    return math.inf


def _log_share(bucket: Bucket, value: float) -> float:
    near, far, at = (math.log2(abs(bound)) for bound in (bucket.lower, bucket.upper, value))
    return (at - near) / (far - near) if value > 0 else 1 - (at - far) / (near - far)


def trimmed(histogram: Histogram, value: float, above: bool) -> Histogram:
    """Without what lies above a value, or without what lies below it."""
    kept = 0.0
    middles = 0.0
    changed = False

    def cut(side: dict[int, float], buckets: list[Bucket], is_custom: bool) -> dict[int, float]:
        nonlocal kept, middles, changed
        found: dict[int, float] = {}
        for index, bucket in zip(sorted(side), buckets, strict=True):
            number, middle = _kept(bucket, value, above, is_custom) if bucket.count != 0 else (0.0, 0.0)
            found[index] = number
            kept, changed = kept + number, changed or number != bucket.count
            middles += number * middle if bucket.count != 0 else 0.0
        return found

    positive = cut(histogram.positive, histogram.upper_buckets(), histogram.is_custom)
    negative = cut(histogram.negative, histogram.lower_buckets(), False)
    zero_count = histogram.zero_count
    if zero_count > 0:
        zero_count, middle = _kept_of_zero(histogram, value, above)
        kept, middles = kept + zero_count, middles + zero_count * middle
        changed = changed or zero_count != histogram.zero_count
    if not changed:
        return histogram
    left = replace(histogram, zero_count=zero_count, positive=positive, negative=negative, count=kept, sum=middles)
    return left.compact()


def _kept(bucket: Bucket, value: float, above: bool, is_custom: bool) -> tuple[float, float]:
    """How much of a bucket is kept, and where its middle is."""
    if bucket.upper <= value if above else bucket.lower >= value:
        return bucket.count, _middle(bucket.lower, bucket.upper, is_custom)
    if not (bucket.lower < value if above else bucket.upper > value):
        return 0.0, 0.0
    if bucket.lower == -math.inf:
        return _kept_of_lowest(bucket, value, above)
    if bucket.upper == math.inf:
        # Where in it the observations lie is unknown: cut off above, none is left; cut off below, all are.
        return (0.0, 0.0) if above else (bucket.count, value)
    if is_custom:
        share = (value - bucket.lower) / (bucket.upper - bucket.lower)
    else:
        near, far, at = (math.log2(abs(bound)) for bound in (bucket.lower, bucket.upper, value))
        share = (at - near) / (far - near) if bucket.lower >= 0 else 1 - (at - far) / (near - far)
    below = bucket.count * share
    if above:
        return below, _middle(bucket.lower, value, is_custom)
    return bucket.count - below, _middle(value, bucket.upper, is_custom)


def _kept_of_lowest(bucket: Bucket, value: float, above: bool) -> tuple[float, float]:
    """The lowest custom bucket begins at zero if it ends above zero; else nobody knows where it begins."""
    ends_above_zero = 0 < bucket.upper < math.inf
    if above:
        if ends_above_zero and value > 0:
            return bucket.count * value / bucket.upper, value / 2
        return (bucket.count, value) if bucket.upper <= 0 else (0.0, 0.0)
    if ends_above_zero and value >= 0:
        return bucket.count * (1 - value / bucket.upper), (value + bucket.upper) / 2
    return (0.0, 0.0) if value > -math.inf else (bucket.count, 0.0)


def _kept_of_zero(histogram: Histogram, value: float, above: bool) -> tuple[float, float]:
    has_positive = any(histogram.positive.values())
    has_negative = any(histogram.negative.values())
    lower = 0.0 if has_positive and not has_negative else -histogram.zero_threshold
    upper = 0.0 if has_negative and not has_positive else histogram.zero_threshold
    count = histogram.zero_count
    if value <= lower:
        return (0.0, 0.0) if above else (count, (lower + upper) / 2)
    if value >= upper:
        return (count, (lower + upper) / 2) if above else (0.0, 0.0)
    if above:
        return over(count * (value - lower), upper - lower), (lower + value) / 2
    return over(count * (upper - value), upper - lower), (value + upper) / 2


def _middle(lower: float, upper: float, is_custom: bool) -> float:
    if math.isinf(lower):
        return 0.0 if math.isinf(upper) else upper / 2 if upper > 0 else upper
    if math.isinf(upper):
        return lower
    if is_custom:
        return (lower + upper) / 2
    middle = math.sqrt(abs(lower * upper))
    return middle if upper > 0 or lower >= 0 else -middle

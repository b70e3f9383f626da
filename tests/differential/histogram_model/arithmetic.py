"""Sums and differences of histograms, and how two come to have the same buckets."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from operator import add, sub

from tests.differential.histogram_model.histogram import (
    GAUGE,
    NOT_RESET,
    RESET,
    UNKNOWN,
    Histogram,
    IncompatibleError,
    exponential_end,
)


@dataclass(frozen=True)
class Outcome:
    """A sum or difference; whether resets contradict each other; whether custom bounds had to be given up."""

    histogram: Histogram
    collided: bool
    reconciled: bool


def plus(one: Histogram, other: Histogram) -> Outcome:
    """The sum."""
    return _together(one, other, add)


def minus(one: Histogram, other: Histogram) -> Outcome:
    """The difference."""
    return _together(one, other, sub)


def total(members: list[Histogram], is_mean: bool) -> Outcome:
    """The sum or the mean of many, as exact as floats can be."""
    reconciled = False

    def step(so_far: Histogram, member: Histogram) -> Histogram:
        nonlocal reconciled
        outcome = plus(so_far, member)
        reconciled |= outcome.reconciled
        return outcome.histogram

    rough = reduce(step, members)
    parts = [_as(member, rough) for member in members]
    divisor = len(members) if is_mean else 1

    def exact(number: Callable[[Histogram], float]) -> float:
        return exact_sum([number(part) for part in parts], divisor)

    found = replace(
        rough,
        zero_count=exact(lambda part: part.zero_count),
        count=exact(lambda part: part.count),
        sum=exact(lambda part: part.sum),
        positive={i: exact(lambda part, i=i: part.positive.get(i, 0.0)) for i in rough.positive},
        negative={i: exact(lambda part, i=i: part.negative.get(i, 0.0)) for i in rough.negative},
    )
    return Outcome(found, {RESET, NOT_RESET} <= {member.hint for member in members}, reconciled)


def exact_sum(numbers: list[float], divisor: int = 1) -> float:
    """The sum, divided, and rounded once. It is a negative zero if all are."""
    if not all(map(math.isfinite, numbers)):
        return sum(numbers) / divisor
    if all(number == 0 and math.copysign(1.0, number) < 0 for number in numbers):
        return -0.0
    found = sum(map(Fraction, numbers)) / divisor
    try:
        return float(found)
    except OverflowError:
        return math.inf if found > 0 else -math.inf


def _as(histogram: Histogram, other: Histogram) -> Histogram:
    """With the buckets of a coarser one."""
    if histogram.is_custom:
        return histogram if histogram.bounds == other.bounds else rebounded(histogram, other.bounds)
    return coarser(with_zero_bucket(histogram, other.zero_threshold), other.schema)


def _together(one: Histogram, other: Histogram, operation: Callable[[float, float], float]) -> Outcome:
    if one.is_custom != other.is_custom:
        raise IncompatibleError
    hints = {one.hint, other.hint}
    hint = one.hint if len(hints) == 1 else GAUGE if GAUGE in hints else UNKNOWN
    reconciled = one.is_custom and one.bounds != other.bounds
    if reconciled:
        shared = tuple(bound for bound in one.bounds if bound in other.bounds)
        one, other = rebounded(one, shared), rebounded(other, shared)
    elif not one.is_custom:
        one, other = same_zero_bucket(one, other)
        schema = min(one.schema, other.schema)
        one, other = coarser(one, schema), coarser(other, schema)
    sums = replace(
        one,
        zero_count=operation(one.zero_count, other.zero_count),
        count=operation(one.count, other.count),
        sum=operation(one.sum, other.sum),
        positive=_sides(one.positive, other.positive, operation),
        negative=_sides(one.negative, other.negative, operation),
        hint=hint,
    )
    return Outcome(sums.compact() if reconciled else sums, hints == {RESET, NOT_RESET}, reconciled)


def _sides(
    one: dict[int, float], other: dict[int, float], operation: Callable[[float, float], float]
) -> dict[int, float]:
    return {i: operation(one.get(i, 0.0), other.get(i, 0.0)) for i in {*one, *other}}


def coarser(histogram: Histogram, schema: int) -> Histogram:
    """With each `2 ** (difference of schemas)` buckets made one."""
    ratio = 2 ** (histogram.schema - schema)

    def merge(side: dict[int, float]) -> dict[int, float]:
        found: dict[int, float] = {}
        for index, number in sorted(side.items()):
            target = math.ceil(index / ratio)
            found[target] = found.get(target, 0.0) + number
        return found

    return replace(histogram, schema=schema, positive=merge(histogram.positive), negative=merge(histogram.negative))


def rebounded(histogram: Histogram, bounds: tuple[float, ...]) -> Histogram:
    """With some of its bounds only: a bucket becomes part of the first one that ends where it ends or later."""
    found: dict[int, float] = {}
    for index, number in sorted(histogram.positive.items()):
        end = histogram.end(index)
        target = next((place for place, bound in enumerate(bounds) if bound >= end), len(bounds))
        found[target] = found.get(target, 0.0) + number
    return replace(histogram, bounds=bounds, positive=found)


def same_zero_bucket(one: Histogram, other: Histogram) -> tuple[Histogram, Histogram]:
    """Both with the narrowest zero bucket that cuts no populated bucket of either."""
    while one.zero_threshold != other.zero_threshold:
        threshold = max(one.zero_threshold, other.zero_threshold)
        one, other = with_zero_bucket(one, threshold), with_zero_bucket(other, threshold)
    return one, other


def with_zero_bucket(histogram: Histogram, threshold: float) -> Histogram:
    """With a zero bucket at least so wide, and wider if it would cut a populated bucket. Buckets within it are gone."""
    if threshold == histogram.zero_threshold:
        return histogram
    ends = [
        exponential_end(index, histogram.schema)
        for side in (histogram.positive, histogram.negative)
        for index, number in side.items()
        if number != 0 and exponential_end(index - 1, histogram.schema) < threshold
    ]
    wider = max([threshold, *ends])
    if wider > threshold:
        return with_zero_bucket(histogram, wider)

    def within(side: dict[int, float]) -> float:
        return sum(n for i, n in side.items() if exponential_end(i - 1, histogram.schema) < threshold)

    def beyond(side: dict[int, float]) -> dict[int, float]:
        return {i: n for i, n in side.items() if exponential_end(i - 1, histogram.schema) >= threshold and n != 0}

    return replace(
        histogram,
        zero_threshold=threshold,
        zero_count=histogram.zero_count + within(histogram.positive) + within(histogram.negative),
        positive=beyond(histogram.positive),
        negative=beyond(histogram.negative),
    )


def is_reset(current: Histogram, before: Histogram) -> bool:
    """Whether a counter started over: it says so, or something is less than it was that can only grow."""
    if current.hint in {RESET, NOT_RESET}:
        return current.hint == RESET
    if current.count < before.count or current.is_custom != before.is_custom:
        return True
    if current.is_custom:
        shared = tuple(bound for bound in current.bounds if bound in before.bounds)
        if current.bounds == before.bounds:
            return _lost(current.positive, before.positive)
        now = rebounded(current, shared).positive
        return any(now.get(i, 0.0) < n for i, n in rebounded(before, shared).positive.items())
    if current.schema > before.schema or current.zero_threshold < before.zero_threshold:
        return True
    widened = with_zero_bucket(before, current.zero_threshold)
    if widened.zero_threshold != current.zero_threshold or current.zero_count < widened.zero_count:
        return True
    # At the resolution that is left a bucket may begin within the zero bucket, and hold what is within it already.
    then = coarser(before, current.schema)

    def counted(side: dict[int, float]) -> dict[int, float]:
        threshold = current.zero_threshold
        return {i: n for i, n in side.items() if not threshold or exponential_end(i, current.schema) > threshold}

    sides = (current.positive, then.positive), (current.negative, then.negative)
    return any(_lost(counted(now), counted(past)) for now, past in sides)


def _lost(current: dict[int, float], before: dict[int, float]) -> bool:
    """Whether a bucket counts less, or is gone that counted something. Prometheus looks at one beyond the last only."""
    for i, n in sorted(before.items()):
        if i > max(current, default=-math.inf):
            return n != 0
        if current[i] < n if i in current else n != 0:
            return True
    return False

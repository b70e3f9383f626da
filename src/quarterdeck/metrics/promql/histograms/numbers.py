"""Arithmetic of floats as hardware and Prometheus do it, also where Python raises an error instead."""

import math
from collections.abc import Iterable
from typing import Final

_LOG2_E: Final = 1 / math.log(2)


def divided(number: float, by: float) -> float:
    """A quotient.

    >>> divided(1.0, -0.0), divided(0.0, 0.0), divided(3.0, 2.0)
    (-inf, nan, 1.5)
    """
    if by != 0:
        return number / by
    if number == 0 or math.isnan(number):
        return math.nan
    return math.copysign(math.inf, number) * math.copysign(1.0, by)


def log2(number: float) -> float:
    """The logarithm of a number that is not negative, in the steps that Go takes.

    >>> log2(0.0), log2(8.0), log2(float("inf"))
    (-inf, 3.0, inf)
    """
    if number == 0:
        return -math.inf
    if not math.isfinite(number):
        return number
    fraction, exponent = math.frexp(number)
    return exponent - 1.0 if fraction == 0.5 else math.log(fraction) * _LOG2_E + exponent


def exp2(number: float) -> float:
    """Two to the power of a number.

    >>> exp2(3.0), exp2(1024.0), exp2(float("-inf"))
    (8.0, inf, 0.0)
    """
    try:
        return 2.0**number
    except OverflowError:
        return math.inf


def plain_sum(numbers: Iterable[float]) -> float:
    """One after the other, and what rounding takes is gone: newer Pythons' own `sum` makes up for it."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def careful_sum(numbers: Iterable[float]) -> float:
    """One after the other, with what rounding takes kept beside (Neumaier's sum).

    >>> careful_sum([1.0, 1e100, 1.0, -1e100])
    2.0
    """
    total = lost = 0.0
    for number in numbers:
        more = total + number
        if math.isinf(more):
            lost = 0.0
        elif abs(total) >= abs(number):
            lost += (total - more) + number
        else:
            lost += (number - more) + total
        total = more
    return total + lost

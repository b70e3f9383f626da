"""A native histogram as plain as can be: populations in dictionaries, by the number of their bucket.

Written from the specification of native histograms, to compare the product with: no arrays, no kernels, nothing of the
product's. Where the specification is silent, Prometheus decides.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

CUSTOM = -53
UNKNOWN, RESET, NOT_RESET, GAUGE = "unknown", "reset", "not_reset", "gauge"

_ROOTS = {1: 1.414213562373095} | {level: 2.0**2.0**-level for level in range(2, 9)}
"""Of two, from the first on. The first is not the nearest float."""


class IncompatibleError(Exception):
    """Exponential buckets and custom ones."""


@dataclass(frozen=True)
class Bucket:
    """A population and where it lies."""

    lower: float
    upper: float
    count: float


@dataclass(frozen=True)
class Histogram:
    """A distribution. An empty bucket may be there or not: that makes a difference to equality alone."""

    schema: int = 0
    zero_threshold: float = 0.0
    zero_count: float = 0.0
    count: float = 0.0
    sum: float = 0.0
    positive: dict[int, float] = field(default_factory=dict[int, float])
    negative: dict[int, float] = field(default_factory=dict[int, float])
    bounds: tuple[float, ...] = ()
    hint: str = UNKNOWN

    @property
    def is_custom(self) -> bool:
        """Whether its bounds are given one by one."""
        return self.schema == CUSTOM

    def end(self, index: int) -> float:
        """Where a bucket of the positive side ends."""
        if self.is_custom:
            if index < 0:
                return -math.inf
            return self.bounds[index] if index < len(self.bounds) else math.inf
        return exponential_end(index, self.schema)

    def upper_buckets(self) -> list[Bucket]:
        """The positive ones, upwards."""
        return [Bucket(self.end(i - 1), self.end(i), n) for i, n in sorted(self.positive.items())]

    def lower_buckets(self) -> list[Bucket]:
        """The negative ones, from zero downwards."""
        return [Bucket(-self.end(i), -self.end(i - 1), n) for i, n in sorted(self.negative.items())]

    def ascending(self) -> list[Bucket]:
        """All buckets. One that the zero bucket overlaps begins where that ends."""
        edge = self.zero_threshold
        below = [replace(b, upper=-edge) if -edge < b.upper < 0 else b for b in reversed(self.lower_buckets())]
        zero = [Bucket(-edge, edge, self.zero_count)] if self.zero_count > 0 else []
        above = [replace(b, lower=edge) if 0 < b.lower < edge else b for b in self.upper_buckets()]
        return below + zero + above

    def compact(self) -> "Histogram":
        """Without empty buckets."""
        return replace(self, positive=_populated(self.positive), negative=_populated(self.negative))

    def each(self, change: Callable[[float], float]) -> "Histogram":
        """Every number of observations, and their sum, changed."""
        return replace(
            self,
            zero_count=change(self.zero_count),
            count=change(self.count),
            sum=change(self.sum),
            positive={i: change(n) for i, n in self.positive.items()},
            negative={i: change(n) for i, n in self.negative.items()},
        )

    def scaled(self, factor: float) -> "Histogram":
        """Multiplied. What was made negative is a gauge."""
        product = self.each(lambda n: n * factor)
        return replace(product, hint=GAUGE) if factor < 0 else product

    def divided(self, number: float) -> "Histogram":
        """Divided. Division by zero leaves no buckets."""
        if number == 0:
            return replace(self, positive={}, negative={}).each(lambda n: over(n, number))
        quotient = self.each(lambda n: n / number)
        return replace(quotient, hint=GAUGE) if number < 0 else quotient

    def equals(self, other: "Histogram") -> bool:
        """Whether all data are the same to the bit. The hint is no data."""
        return self._data() == other._data()

    def _data(self) -> tuple[object, ...]:
        sides = [[(i, n.hex()) for i, n in sorted(side.items())] for side in (self.positive, self.negative)]
        numbers = (self.zero_threshold, self.bounds, self.zero_count.hex(), self.count.hex(), self.sum.hex())
        return (self.schema, *numbers, *sides)

    def __str__(self) -> str:
        shown = [*(_show(b, "[", ")") for b in reversed(self.lower_buckets()) if b.count != 0)]
        if self.zero_count != 0:
            shown.append(_show(Bucket(-self.zero_threshold, self.zero_threshold, self.zero_count), "[", "]"))
        for (index, _), bucket in zip(sorted(self.positive.items()), self.upper_buckets(), strict=True):
            if bucket.count != 0:
                shown.append(_show(bucket, "[" if self.is_custom and index == 0 else "(", "]"))
        return "{" + ", ".join([f"count:{short(self.count)}", f"sum:{short(self.sum)}", *shown]) + "}"


def over(number: float, divisor: float) -> float:
    """Division as hardware does it."""
    if divisor != 0:
        return number / divisor
    if number == 0 or math.isnan(number):
        return math.nan
    return math.copysign(math.inf, number) * math.copysign(1.0, divisor)


def exponential_end(index: int, schema: int) -> float:
    """Where a bucket ends: at a power of 2 ** (2 ** -schema), as Prometheus' table has it to the last digit; the last
    finite one at the largest number."""
    power = index * 2.0**-schema
    if power >= sys.float_info.max_exp:
        return sys.float_info.max if power == sys.float_info.max_exp else math.inf
    factor = 1.0
    for level, digit in enumerate(_binary(power % 1), start=1):
        factor *= _ROOTS[level] if digit else 1.0
    return math.ldexp(factor, math.floor(power))


def _binary(fraction: float) -> list[bool]:
    """Its first eight binary digits: no schema needs more."""
    return [bool(math.floor(fraction * 2**level) % 2) for level in range(1, 9)]


def short(number: float) -> str:
    """As `%g` of Go prints it: as few digits as say it all, an exponent from a million on and below 0.0001."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if math.copysign(1.0, number) < 0 else "0"
    precision = next(p for p in range(17) if float(f"{number:.{p}e}") == number)
    mantissa, _, power = f"{number:.{precision}e}".partition("e")
    if -4 <= int(power) < 6:
        return f"{number:.{max(0, precision - int(power))}f}"
    return f"{mantissa}e{power}"


def _show(bucket: Bucket, opening: str, closing: str) -> str:
    return f"{opening}{short(bucket.lower)},{short(bucket.upper)}{closing}:{short(bucket.count)}"


def _populated(side: dict[int, float]) -> dict[int, float]:
    return {i: n for i, n in side.items() if n != 0}

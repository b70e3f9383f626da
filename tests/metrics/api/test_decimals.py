"""Floats are written as Go writes them: digits from Python's repr, laid out by a slow reference."""

import math
from decimal import Decimal

import numpy as np
import pytest

from quarterdeck.metrics.api.decimals import LONGEST_BYTES
from quarterdeck.metrics.api.numbers import show_floats
from quarterdeck.metrics.promql.blocks import F64

COUNT = 200_000


def reference(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0"
    number = Decimal(repr(abs(value))).normalize()
    if 1e-6 <= abs(value) < 1e21:
        return f"{sign}{number:f}"
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    power = exponent + len(digits) - 1
    shown = "".join(map(str, digits))
    mantissa = shown[0] + ("." + shown[1:] if len(shown) > 1 else "")
    return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def check(values: F64) -> None:
    shown = show_floats(values)
    wrong = [
        (value.hex(), text, reference(value))
        for value, text in zip(values.tolist(), shown, strict=True)
        if text != reference(value)
    ]
    assert not wrong, wrong[:10]


def test_any_bits_are_written_as_the_shortest_decimal() -> None:
    check(np.random.default_rng(1).integers(0, 2**64, COUNT, dtype=np.uint64).view(np.float64))


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e6, 1e15, 1e20])
def test_numbers_of_usual_size_are_written_as_the_shortest_decimal(scale: float) -> None:
    generator = np.random.default_rng(2)
    check(generator.random(10_000) * scale)
    check(np.round(generator.random(10_000) * 1000, 2) * scale)
    check(-np.floor(generator.random(10_000) * scale))


def test_powers_of_two_and_ten_and_their_neighbours() -> None:
    powers = np.concatenate(
        (np.ldexp(1.0, np.arange(-1074, 1024)), np.array([float(f"1e{power}") for power in range(-323, 309)]))
    )
    below, above = np.nextafter(powers, 0.0), np.nextafter(powers, np.inf)
    check(np.concatenate((powers, below, above, -powers)))


def test_whole_numbers_and_the_ends_of_what_has_no_exponent() -> None:
    whole = [float(10**power + more) for power in range(18) for more in (-1, 0, 1)]
    ends = [2.0**53 - 1, 2.0**53, 2.0**53 + 2, 2.0**63, 1e-6, math.nextafter(1e-6, 0), 1e21, math.nextafter(1e21, 0)]
    least = [5e-324, 1e-323, 2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308]
    check(np.array([*whole, *ends, *least]))


@pytest.mark.parametrize(
    "value, shown",
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (1e-7, "1e-07"),
        (-1.5e-7, "-1.5e-07"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (0.000001, "0.000001"),
        (123456789012345680000.0, "123456789012345680000"),
        (1.25, "1.25"),
        (100.0, "100"),
    ],
)
def test_the_layout_of_a_number(value: float, shown: str) -> None:
    assert show_floats(np.array([value])) == [shown]


def test_every_not_a_number_is_one() -> None:
    bits = np.array([0x7FF0000000000001, 0x7FF0000000000002, 0x7FF8000000000000, 0xFFFFFFFFFFFFFFFF], np.uint64)
    assert show_floats(bits.view(np.float64)) == ["NaN"] * 4


def test_no_number_is_longer_than_promised() -> None:
    values = -np.random.default_rng(3).random(20_000) * 1e-5
    assert max(map(len, show_floats(values))) == LONGEST_BYTES

"""Operators and functions between floats, at the edges where NumPy and Go do not agree by themselves."""

import math

import numpy as np
import pytest

from quarterdeck.metrics.promql.arithmetic import extreme, power
from quarterdeck.metrics.promql.exec.selections import hashed_form

ROOTS = [(-math.inf, math.inf), (-0.0, 0.0), (0.0, 0.0), (math.inf, math.inf), (4.0, 2.0), (-4.0, math.nan)]


def same(found: float, expected: float) -> bool:
    """Not-a-number is the same as itself, and one zero is not the other."""
    return np.array(found).tobytes() == np.array(expected).tobytes() or (math.isnan(found) and math.isnan(expected))


@pytest.mark.parametrize("base, root", ROOTS)
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_number_to_the_power_of_a_half_is_the_same_alone_and_among_others(
    base: float, root: float, count: int
) -> None:
    bases = np.full((3, count), base)
    for exponents in (np.array([0.5]), np.full((1, count), 0.5), np.full((3, count), 0.5)):
        assert all(same(found, root) for found in power(bases, exponents).ravel().tolist())


@pytest.mark.parametrize(
    "lhs, rhs, smaller, larger",
    [
        (0.0, -0.0, -0.0, 0.0),
        (-0.0, 0.0, -0.0, 0.0),
        (-0.0, -0.0, -0.0, -0.0),
        (0.0, 0.0, 0.0, 0.0),
        (-0.0, -1.0, -1.0, -0.0),
        (-0.0, 1.0, -0.0, 1.0),
        (-0.0, math.nan, math.nan, math.nan),
    ],
)
def test_of_the_two_zeros_the_positive_one_is_larger(lhs: float, rhs: float, smaller: float, larger: float) -> None:
    assert same(extreme(np.array([lhs]), np.array([rhs]), largest=False).item(), smaller)
    assert same(extreme(np.array([lhs]), np.array([rhs]), largest=True).item(), larger)


@pytest.mark.parametrize(
    "length, prefix",
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80"),
        (254, b"\xfe"),
        (255, b"\xff\xff\x00\x00"),
        (256, b"\xff\x00\x01\x00"),
        (70_000, b"\xff\x70\x11\x01"),
    ],
)
def test_labels_are_hashed_with_the_length_in_bytes_before_each_text(length: int, prefix: bytes) -> None:
    value = "é" * (length // 2) + "x" * (length % 2)
    assert hashed_form((("a", value), ("bc", "\udcff"))) == b"\x01a" + prefix + value.encode() + b"\x02bc\x01\xff"

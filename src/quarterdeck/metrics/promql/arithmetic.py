"""The operators between floats, over whole arrays, with the results Go's math package gives."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, Bool
from quarterdeck.metrics.promql.syntax.ast import BinaryOp

Arithmetic: TypeAlias = Callable[[F64, F64], F64]
Comparison: TypeAlias = Callable[[F64, F64], Bool]


def power(base: F64, exponent: F64) -> F64:
    """One number to the power of another, as C and Go have it, however many there are of either.

    >>> power(np.array([-0.0, 4.0]), np.array([0.5])).tolist()
    [0.0, 2.0]
    """
    found = np.power(base, exponent)
    # NumPy takes the square root where one exponent is for all. That of -Inf is no number, and that of -0 is -0.
    root = exponent == 0.5
    if root.any():
        found = np.where(root & (base == -np.inf), np.inf, np.where(root & (base == 0.0), 0.0, found))
    return found


ARITHMETIC: Final[Mapping[BinaryOp, Arithmetic]] = MappingProxyType(
    {
        BinaryOp.ADD: np.add,
        BinaryOp.SUB: np.subtract,
        BinaryOp.MUL: np.multiply,
        BinaryOp.DIV: np.divide,
        BinaryOp.MOD: np.fmod,
        BinaryOp.POW: power,
        BinaryOp.ATAN2: np.arctan2,
    }
)

COMPARISONS: Final[Mapping[BinaryOp, Comparison]] = MappingProxyType(
    {
        BinaryOp.EQ: np.equal,
        BinaryOp.NE: np.not_equal,
        BinaryOp.GT: np.greater,
        BinaryOp.LT: np.less,
        BinaryOp.GE: np.greater_equal,
        BinaryOp.LE: np.less_equal,
    }
)


def scalars(op: BinaryOp, lhs: F64, rhs: F64) -> F64:
    """An operator between numbers; a comparison answers 0 or 1.

    >>> scalars(BinaryOp.MOD, np.array([-5.0]), np.array([3.0])).tolist()
    [-2.0]
    """
    with np.errstate(all="ignore"):
        if op in COMPARISONS:
            return COMPARISONS[op](lhs, rhs).astype(np.float64)
        return ARITHMETIC[op](lhs, rhs)


def extreme(lhs: F64, rhs: F64, largest: bool) -> F64:
    """The larger or smaller of two numbers; not-a-number if either is, unless the other is infinite in that direction.
    Of the two zeros the positive one is larger.

    >>> extreme(np.array([1.0, np.nan, np.nan]), np.array([2.0, 2.0, np.inf]), largest=True).tolist()
    [2.0, nan, inf]
    >>> extreme(np.array([0.0, -0.0]), np.array([-0.0, 0.0]), largest=True).tolist()
    [0.0, 0.0]
    """
    found = np.maximum(lhs, rhs) if largest else np.minimum(lhs, rhs)
    # A sum of zeros is negative only if all of them are.
    found = np.where((lhs == 0) & (rhs == 0), lhs + rhs if largest else -(-lhs - rhs), found)
    bound = np.inf if largest else -np.inf
    return np.where((lhs == bound) | (rhs == bound), bound, found)

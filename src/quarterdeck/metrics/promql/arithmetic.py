"""The operators between floats, over whole arrays, with the results Go's math package gives."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, Bool
from quarterdeck.metrics.promql.syntax.ast import BinaryOp

Arithmetic: TypeAlias = Callable[[F64, F64], F64]
Comparison: TypeAlias = Callable[[F64, F64], Bool]

ARITHMETIC: Final[Mapping[BinaryOp, Arithmetic]] = MappingProxyType(
    {
        BinaryOp.ADD: np.add,
        BinaryOp.SUB: np.subtract,
        BinaryOp.MUL: np.multiply,
        BinaryOp.DIV: np.divide,
        BinaryOp.MOD: np.fmod,
        BinaryOp.POW: np.power,
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

    >>> extreme(np.array([1.0, np.nan, np.nan]), np.array([2.0, 2.0, np.inf]), largest=True).tolist()
    [2.0, nan, inf]
    """
    found = np.maximum(lhs, rhs) if largest else np.minimum(lhs, rhs)
    bound = np.inf if largest else -np.inf
    return np.where((lhs == bound) | (rhs == bound), bound, found)

"""Which type an expression has.

An expression's type follows from its shape alone. Whether the shape is allowed is for `plan/rules/check_types.py`.
"""

from typing import assert_never

from quarterdeck.metrics.promql.syntax.ast import (
    Aggregation,
    Binary,
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.functions import FUNCTIONS
from quarterdeck.metrics.promql.syntax.value_types import ValueType


def binary_type(lhs: ValueType, rhs: ValueType) -> ValueType:
    """The type of a binary expression; a vector unless both sides are scalars."""
    return ValueType.SCALAR if lhs is rhs is ValueType.SCALAR else ValueType.VECTOR


def type_of(expr: Expr) -> ValueType:
    """The type of an expression.

    >>> from quarterdeck.metrics.promql.syntax.parser import parse
    >>> type_of(parse("rate(up[5m])")).shown
    'instant vector'
    """
    match expr:
        case NumberLiteral():
            return ValueType.SCALAR
        case StringLiteral():
            return ValueType.STRING
        case Paren(expr=inner) | Unary(expr=inner):
            return type_of(inner)
        case Binary():
            return binary_type(type_of(expr.lhs), type_of(expr.rhs))
        case Call():
            return FUNCTIONS[expr.function].returns
        case Aggregation() | VectorSelector():
            return ValueType.VECTOR
        case MatrixSelector() | Subquery():
            return ValueType.MATRIX
        case _:
            assert_never(expr)

"""A query's syntax tree as JSON, in the names that clients of `parse_query` read: Prometheus' page draws it.

It tells what was written. Lengths are in milliseconds; one that has to be worked out when the query's times are known
is 0, as there.
"""

import math
from typing import assert_never

from quarterdeck.metrics.promql.floats import show_float
from quarterdeck.metrics.promql.syntax.ast import (
    Aggregation,
    AtAnchor,
    Binary,
    Call,
    Expr,
    Extension,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorMatching,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.functions import FUNCTIONS

Document = dict[str, object]


def tree_document(expr: Expr) -> Document:
    """The tree of a query whose types fit.

    >>> from quarterdeck.metrics.promql.syntax.parser import parse
    >>> tree_document(parse("-(1)"))
    {'type': 'unaryExpr', 'op': '-', 'expr': {'type': 'parenExpr', 'expr': {'type': 'numberLiteral', 'val': '1'}}}
    """
    match expr:
        case NumberLiteral():
            return {"type": "numberLiteral", "val": show_float(expr.value)}
        case StringLiteral():
            return {"type": "stringLiteral", "val": expr.value}
        case Paren():
            return {"type": "parenExpr", "expr": tree_document(expr.expr)}
        case Unary():
            return {"type": "unaryExpr", "op": "-" if expr.negative else "+", "expr": tree_document(expr.expr)}
        case Binary():
            return _binary(expr)
        case Aggregation():
            return {
                "type": "aggregation",
                "op": expr.op.value,
                "expr": tree_document(expr.expr),
                "param": None if expr.parameter is None else tree_document(expr.parameter),
                "grouping": list(expr.grouping),
                "without": expr.without,
            }
        case Call():
            return _call(expr)
        case VectorSelector():
            return {"type": "vectorSelector", **_selector(expr)}
        case MatrixSelector():
            return {"type": "matrixSelector", "range": expr.range_ms, **_selector(expr.selector)}
        case Subquery():
            return {
                "type": "subquery",
                "expr": tree_document(expr.expr),
                "range": expr.range_ms,
                "step": expr.step_ms or 0,
                **_place(expr),
            }
        case _:
            assert_never(expr)


def _binary(expr: Binary) -> Document:
    return {
        "type": "binaryExpr",
        "op": expr.op.value,
        "lhs": tree_document(expr.lhs),
        "rhs": tree_document(expr.rhs),
        "matching": None if expr.matching is None else _matching(expr.matching),
        "bool": expr.return_bool,
    }


def _matching(matching: VectorMatching) -> Document:
    return {
        "card": matching.cardinality.value,
        "labels": list(matching.labels),
        "on": matching.on,
        "include": list(matching.include),
        "fillValues": {"lhs": _fill(matching.fill_left), "rhs": _fill(matching.fill_right)},
    }


def _fill(value: float | None) -> float | str | None:
    """JSON has no infinity and no not-a-number."""
    return value if value is None or math.isfinite(value) else show_float(value)


def _call(expr: Call) -> Document:
    function = FUNCTIONS[expr.function]
    return {
        "type": "call",
        "func": {
            "name": function.name,
            "argTypes": [kind.value for kind in function.args],
            "variadic": function.variadic,
            "returnType": function.returns.value,
        },
        "args": [tree_document(arg) for arg in expr.args],
    }


def _selector(selector: VectorSelector) -> Document:
    matchers = [{"name": one.name, "value": one.value, "type": one.op.value} for one in selector.matchers]
    return {
        "name": selector.name or "",
        "matchers": matchers,
        **_place(selector),
        "anchored": selector.extension is Extension.ANCHORED,
        "smoothed": selector.extension is Extension.SMOOTHED,
    }


def _place(expr: VectorSelector | Subquery) -> Document:
    """In time."""
    at = expr.at
    return {
        "offset": expr.offset_ms,
        "timestamp": None if isinstance(at, AtAnchor) else at,
        "startOrEnd": at.value if isinstance(at, AtAnchor) else None,
    }

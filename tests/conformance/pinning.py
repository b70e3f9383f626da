"""Queries that must answer the same at any time: `@ T` on every selector makes an instant query a constant.

Upstream runs each instant eval this way too; it finds an engine that takes the time of the query where it should take
that of the selector.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Final

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
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.printer import show

_FOLLOWS_THE_CLOCK: Final = frozenset(
    {
        "day_of_month",
        "day_of_week",
        "day_of_year",
        "days_in_month",
        "end",
        "hour",
        "minute",
        "month",
        "predict_linear",
        "range",
        "start",
        "step",
        "time",
        "timestamp",
        "year",
    }
)
"""Functions whose value depends on when they are evaluated, whatever their arguments are."""

_ASKS_FOR_THE_QUERY: Final = re.compile(r"(start|end|range|step)\(\)")


def asks_for_the_query(text: str) -> bool:
    """Whether a range query answers differently than an instant query at one of its steps would."""
    return _ASKS_FOR_THE_QUERY.search(text) is not None


@cache
def pinned(text: str, time_ms: int) -> str | None:
    """The query with `@ time` on every selector and subquery that has none yet; inside subqueries nothing changes.

    None when it cannot be made independent of the time it is evaluated at.
    """
    expr = parse(text)
    if any(call.function in _FOLLOWS_THE_CLOCK for call in _calls(expr)):
        return None
    return show(_pin(expr, time_ms))


def other_times_ms(time_ms: int) -> tuple[int, ...]:
    """The times at which a pinned query is evaluated: upstream's choice."""
    if time_ms == 0:
        return -1000, 0, 1000
    return -10 * time_ms, 0, time_ms // 5, time_ms, 10 * time_ms


def _calls(expr: Expr) -> Iterator[Call]:
    """The calls outside subqueries."""
    match expr:
        case NumberLiteral() | StringLiteral() | VectorSelector() | MatrixSelector() | Subquery():
            return
        case Paren() | Unary():
            yield from _calls(expr.expr)
        case Binary():
            yield from _calls(expr.lhs)
            yield from _calls(expr.rhs)
        case Aggregation():
            if expr.parameter is not None:
                yield from _calls(expr.parameter)
            yield from _calls(expr.expr)
        case Call():
            yield expr
            for argument in expr.args:
                yield from _calls(argument)


def _pin(expr: Expr, time_ms: int) -> Expr:
    match expr:
        case NumberLiteral() | StringLiteral():
            return expr
        case VectorSelector() | Subquery():
            # An instant query starts and ends at its one time: `@ start()` is pinned like no `@` at all.
            return expr if isinstance(expr.at, int) else replace(expr, at=time_ms)
        case MatrixSelector():
            at = expr.selector.at
            return expr if isinstance(at, int) else replace(expr, selector=replace(expr.selector, at=time_ms))
        case Paren() | Unary():
            return replace(expr, expr=_pin(expr.expr, time_ms))
        case Binary():
            return replace(expr, lhs=_pin(expr.lhs, time_ms), rhs=_pin(expr.rhs, time_ms))
        case Aggregation():
            parameter = None if expr.parameter is None else _pin(expr.parameter, time_ms)
            return replace(expr, parameter=parameter, expr=_pin(expr.expr, time_ms))
        case Call():
            return replace(expr, args=tuple(_pin(argument, time_ms) for argument in expr.args))

"""Lengths of time that were written as expressions are worked out."""

import math
from dataclasses import replace
from operator import is_
from typing import Final, assert_never

import numpy as np

from quarterdeck.metrics.promql import arithmetic
from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.syntax import ast
from quarterdeck.metrics.promql.syntax.ast import BinaryOp, QueryLength
from quarterdeck.metrics.promql.syntax.durations import MAX_MS

_BY_ZERO: Final = {BinaryOp.DIV: "division by zero", BinaryOp.MOD: "modulo by zero"}


def resolve_durations(expr: ast.Expr, text: str, range_ms: int, step_ms: int) -> ast.Expr:
    """The tree with a number of milliseconds for every range, step and offset; `range()` and `step()` are the query's.

    >>> from quarterdeck.metrics.promql.syntax.parser import parse
    >>> resolve_durations(parse("foo[step() * 2]"), "foo[step() * 2]", 3_600_000, 15_000).range_ms
    30000
    """
    return _Resolving(text, {QueryLength.RANGE: range_ms / 1000, QueryLength.STEP: step_ms / 1000}).tree(expr)


class _Resolving:
    def __init__(self, text: str, lengths_s: dict[QueryLength, float]) -> None:
        self._text = text
        self._lengths_s = lengths_s

    def tree(self, expr: ast.Expr) -> ast.Expr:
        """The same object where nothing is to be worked out."""
        match expr:
            case ast.NumberLiteral() | ast.StringLiteral():
                return expr
            case ast.VectorSelector():
                return self._selector(expr)
            case ast.MatrixSelector(selector=selector, range_expr=length):
                moved = self._selector(selector)
                if length is None:
                    return expr if moved is selector else replace(expr, selector=moved)
                return replace(expr, selector=moved, range_ms=self._positive_ms(length), range_expr=None)
            case ast.Subquery():
                return self._subquery(expr)
            case ast.Paren(expr=inner) | ast.Unary(expr=inner):
                found = self.tree(inner)
                return expr if found is inner else replace(expr, expr=found)
            case ast.Binary(lhs=lhs, rhs=rhs):
                left, right = self.tree(lhs), self.tree(rhs)
                return expr if left is lhs and right is rhs else replace(expr, lhs=left, rhs=right)
            case ast.Aggregation(expr=inner, parameter=parameter):
                found = self.tree(inner)
                chosen = None if parameter is None else self.tree(parameter)
                return expr if found is inner and chosen is parameter else replace(expr, expr=found, parameter=chosen)
            case ast.Call(args=args):
                found = tuple(self.tree(arg) for arg in args)
                return expr if all(map(is_, found, args)) else replace(expr, args=found)
            case _:
                assert_never(expr)

    def _selector(self, selector: ast.VectorSelector) -> ast.VectorSelector:
        if selector.offset_expr is None:
            return selector
        return replace(selector, offset_ms=self._ms(selector.offset_expr), offset_expr=None)

    def _subquery(self, expr: ast.Subquery) -> ast.Subquery:
        inner = self.tree(expr.expr)
        if inner is not expr.expr:
            expr = replace(expr, expr=inner)
        if expr.offset_expr is not None:
            expr = replace(expr, offset_ms=self._ms(expr.offset_expr), offset_expr=None)
        if expr.step_expr is not None:
            expr = replace(expr, step_ms=self._positive_ms(expr.step_expr), step_expr=None)
        if expr.range_expr is not None:
            expr = replace(expr, range_ms=self._positive_ms(expr.range_expr), range_expr=None)
        return expr

    def _positive_ms(self, expr: ast.DurationExpr) -> int:
        if self._seconds(expr) <= 0:
            raise ParseError("duration must be greater than 0", self._text, expr.span)
        length_ms = self._ms(expr)
        if not length_ms:  # Prometheus takes it for an empty range
            raise ParseError("duration must be at least 1ms", self._text, expr.span)
        return length_ms

    def _ms(self, expr: ast.DurationExpr) -> int:
        length_ms = self._seconds(expr) * 1000
        if math.isnan(length_ms) or abs(length_ms) > MAX_MS:
            raise ParseError("duration is out of range", self._text, expr.span)
        return int(length_ms)

    def _seconds(self, expr: ast.Duration) -> float:
        match expr:
            case ast.NumberLiteral(value=value):
                return value
            case ast.DurationCall(length=length):
                return self._lengths_s[length]
            case ast.DurationParen(inner=inner):
                return self._seconds(inner)
            case ast.DurationSigned(negative=negative, inner=inner):
                return -self._seconds(inner) if negative else self._seconds(inner)
            case ast.DurationExtreme(largest=largest, lhs=lhs, rhs=rhs):
                one, other = np.array([self._seconds(lhs)]), np.array([self._seconds(rhs)])
                return float(arithmetic.extreme(one, other, largest)[0])
            case ast.DurationBinary(op=op, lhs=lhs, rhs=rhs):
                one, other = np.array([self._seconds(lhs)]), np.array([self._seconds(rhs)])
                if not other[0] and op in _BY_ZERO:
                    raise ParseError(_BY_ZERO[op], self._text, expr.span)
                return float(arithmetic.scalars(op, one, other)[0])
            case _:
                assert_never(expr)

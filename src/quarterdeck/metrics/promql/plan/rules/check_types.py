"""The rule that types fit: what each operator, function and aggregation may stand between.

It changes nothing and refuses what Prometheus refuses, in its words and at its places.
"""

from typing import NoReturn, assert_never

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import (
    AggregateOp,
    Aggregation,
    Binary,
    Call,
    Cardinality,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorMatching,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.functions import FUNCTIONS, Function
from quarterdeck.metrics.promql.syntax.matchers import accepts
from quarterdeck.metrics.promql.syntax.quoting import quote
from quarterdeck.metrics.promql.syntax.types import ValueType, binary_type, type_of

_OPERANDS = (ValueType.SCALAR, ValueType.VECTOR)


def check_types(expr: Expr, text: str) -> None:
    """Refuse a tree whose types do not fit; `text` is the query it was parsed from.

    >>> from quarterdeck.metrics.promql.syntax.parser import parse
    >>> check_types(parse("rate(up[5m])"), "rate(up[5m])")
    """
    _Check(text).check(expr)


class _Check:
    def __init__(self, text: str) -> None:
        self._text = text

    def check(self, expr: Expr) -> ValueType:
        """The type of an expression in which all types fit; children are checked first, as Prometheus does."""
        match expr:
            case NumberLiteral():
                return ValueType.SCALAR
            case StringLiteral():
                return ValueType.STRING
            case Paren():
                return self.check(expr.expr)
            case Unary():
                return self._check_unary(expr)
            case Binary():
                return self._check_binary(expr)
            case Aggregation():
                return self._check_aggregate(expr)
            case Call():
                return self._check_call(expr)
            case VectorSelector():
                return self._check_selector(expr)
            case MatrixSelector():
                self._check_selector(expr.selector)
                return ValueType.MATRIX
            case Subquery():
                if (inner := self.check(expr.expr)) is not ValueType.VECTOR:
                    self._fail(f"subquery is only allowed on instant vector, got {inner} instead", expr.span)
                return ValueType.MATRIX
            case _:
                assert_never(expr)

    def _fail(self, reason: str, span: Span) -> NoReturn:
        raise ParseError(reason, self._text, span)

    def _expect(self, expr: Expr, wanted: ValueType, context: str) -> None:
        if (found := self.check(expr)) is not wanted:
            self._fail(f"expected type {wanted.shown} in {context}, got {found.shown}", expr.span)

    def _check_unary(self, expr: Unary) -> ValueType:
        inner = self.check(expr.expr)
        if inner not in _OPERANDS:
            reason = "unary expression only allowed on expressions of type scalar or instant vector"
            self._fail(f'{reason}, got "{inner.shown}"', expr.span)
        return inner

    def _check_binary(self, expr: Binary) -> ValueType:
        lhs, rhs = self.check(expr.lhs), self.check(expr.rhs)
        op, matching = expr.op, expr.matching
        if expr.return_bool and not op.is_comparison:
            self._fail("bool modifier can only be used on comparison operators", self._operator_span(expr))
        if op.is_comparison and not expr.return_bool and lhs is rhs is ValueType.SCALAR:
            self._fail("comparisons between scalars must use BOOL modifier", self._operator_span(expr))
        if matching is not None and matching.on:
            for label in matching.labels:
                if label in matching.include:
                    reason = f"label {quote(label)} must not occur in ON and GROUP clause at once"
                    self._fail(reason, self._operator_span(expr))
        for side, found in ((expr.lhs, lhs), (expr.rhs, rhs)):
            if found not in _OPERANDS:
                self._fail("binary expression must contain only scalar and instant vector types", side.span)
        if matching is not None:
            self._check_matching(expr, matching, lhs is rhs is ValueType.VECTOR)
        if op.is_set and ValueType.SCALAR in (lhs, rhs):
            self._fail(f"set operator {quote(op)} not allowed in binary scalar expression", expr.span)
        return binary_type(lhs, rhs)

    def _operator_span(self, expr: Binary) -> Span:
        """What stands between the sides, the operator with its modifiers; comments count, as in Prometheus."""
        between = self._text[expr.lhs.span.end : expr.rhs.span.start]
        start = expr.lhs.span.end + len(between) - len(between.lstrip(" \t\n\r"))
        return Span(start, expr.lhs.span.end + len(between.rstrip(" \t\n\r")))

    def _check_matching(self, expr: Binary, matching: VectorMatching, between_vectors: bool) -> None:
        fills = matching.fill_left is not None or matching.fill_right is not None
        if not between_vectors:
            if matching.labels:
                self._fail("vector matching only allowed between instant vectors", expr.span)
            if fills:
                self._fail("filling in missing series only allowed between instant vectors", expr.span)
        elif expr.op.is_set:
            if matching.cardinality in (Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY):
                self._fail(f"no grouping allowed for {quote(expr.op)} operation", expr.span)
            if fills:
                self._fail("filling in missing series not allowed for set operators", expr.span)

    def _check_aggregate(self, expr: Aggregation) -> ValueType:
        self._expect(expr.expr, ValueType.VECTOR, "aggregation expression")
        if expr.parameter is not None:
            wanted = ValueType.STRING if expr.op is AggregateOp.COUNT_VALUES else ValueType.SCALAR
            self._expect(expr.parameter, wanted, "aggregation parameter")
        return ValueType.VECTOR

    def _check_call(self, expr: Call) -> ValueType:
        function = FUNCTIONS.get(expr.function)
        if function is None:
            self._fail(f"unknown function with name {quote(expr.function)}", expr.span)
        self._check_argument_count(expr, function)
        if function.name == "info" and len(expr.args) > 1:
            self._check_info_selector(expr, expr.args[1])
        for index, arg in enumerate(expr.args):
            if function.name == "info" and index == 1:
                continue
            wanted = function.args[min(index, len(function.args) - 1)]
            self._expect(arg, wanted, f"call to function {quote(function.name)}")
        return function.returns

    def _check_argument_count(self, expr: Call, function: Function) -> None:
        count = len(expr.args)
        tail = f"argument(s) in call to {quote(function.name)}, got {count}"
        if not function.variadic:
            if count != len(function.args):
                self._fail(f"expected {len(function.args)} {tail}", expr.span)
        elif count < function.fewest:
            self._fail(f"expected at least {function.fewest} {tail}", expr.span)
        elif function.most is not None and count > function.most:
            self._fail(f"expected at most {function.most} {tail}", expr.span)

    def _check_info_selector(self, call: Call, arg: Expr) -> None:
        """The second argument of `info` is no vector but matchers; unlike a selector's they may match everything."""
        if (found := type_of(arg)) is not ValueType.VECTOR:
            reason = f"expected type {ValueType.VECTOR.shown} in call to function {quote(call.function)}"
            self._fail(f"{reason}, got {found.shown}", call.span)
        if not isinstance(arg, VectorSelector):
            self._fail("expected label selectors only", arg.span)
        if arg.name is not None:
            self._fail("expected label selectors only, got vector selector instead", arg.span)

    def _check_selector(self, expr: VectorSelector) -> ValueType:
        if expr.name is not None:
            for other in expr.matchers[:-1]:
                if other.name == METRIC_NAME:
                    reason = f"metric name must not be set twice: {quote(expr.name)} or {quote(other.value)}"
                    self._fail(reason, expr.span)
        elif all(accepts(matcher, "") for matcher in expr.matchers):
            self._fail("vector selector must contain at least one non-empty matcher", expr.span)
        return ValueType.VECTOR

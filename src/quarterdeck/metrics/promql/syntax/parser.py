"""From text to a tree: a parser by precedence, with the rules of Prometheus 3.14 and its words for what is wrong.

Nothing here recurses deeper than the cursor allows, and no tree is taller than `MAX_HEIGHT`, so that those who walk
the tree may recurse. Types matter only where the tree depends on them; `plan/rules/check_types.py` checks them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import (
    AggregateOp,
    Aggregation,
    Binary,
    BinaryOp,
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
)
from quarterdeck.metrics.promql.syntax.cursor import Cursor
from quarterdeck.metrics.promql.syntax.functions import FUNCTIONS
from quarterdeck.metrics.promql.syntax.grouping import Modifiers, parse_labels, parse_modifiers
from quarterdeck.metrics.promql.syntax.quoting import quote
from quarterdeck.metrics.promql.syntax.ranges import parse_suffix
from quarterdeck.metrics.promql.syntax.selectors import parse_selector
from quarterdeck.metrics.promql.syntax.tokens import BINARY_OPS, Token, TokenKind
from quarterdeck.metrics.promql.syntax.types import ValueType, binary_type

MAX_LENGTH = 128 * 1024
"""Characters of a query. The longest that people write by hand or have generated are a tenth of it."""
MAX_HEIGHT = 200
"""Levels of the tree; `a + b + c` has three."""

_EXPERIMENTAL_AGGREGATES = frozenset({AggregateOp.LIMITK, AggregateOp.LIMIT_RATIO})
_POWER = 6
_PRECEDENCE: dict[BinaryOp, int] = {
    BinaryOp.OR: 1,
    BinaryOp.AND: 2,
    BinaryOp.UNLESS: 2,
    **{op: 3 for op in BinaryOp if op.is_comparison},
    BinaryOp.TRIM_UPPER: 3,
    BinaryOp.TRIM_LOWER: 3,
    BinaryOp.ADD: 4,
    BinaryOp.SUB: 4,
    BinaryOp.MUL: 5,
    BinaryOp.DIV: 5,
    BinaryOp.MOD: 5,
    BinaryOp.ATAN2: 5,
    BinaryOp.POW: _POWER,
}
"""Higher binds closer. All but the power associate to the left, and a sign binds just below the power."""


def parse(text: str, *, experimental: bool = True) -> Expr:
    """The tree of a query; ParseError when it is none.

    Without `experimental`, what Prometheus has behind a switch is refused as it refuses it.

    >>> parse("1 + 2 * 3").rhs.op.value
    '*'
    """
    if len(text) > MAX_LENGTH:
        reason = f"the query has {len(text)} characters, and at most {MAX_LENGTH} are allowed"
        raise ParseError(reason, text[:MAX_LENGTH], Span(0, 1))
    cursor = Cursor(text, experimental=experimental)
    if cursor.peek().kind is TokenKind.END:
        cursor.fail("no expression found in input", Span(0, 0))
    part = _Parser(cursor).parse_expression(0)
    if cursor.peek().kind is not TokenKind.END:
        cursor.unexpected()
    return part.expr


class _Part(NamedTuple):
    """An expression with what the parser must know about it."""

    expr: Expr
    type: ValueType
    height: int = 1


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def parse_expression(self, precedence: int) -> _Part:
        """The longest expression whose operators bind at least as closely as `precedence`."""
        self._cursor.enter()
        lhs = self._signed()
        while (op := self._operator_ahead()) and _PRECEDENCE[op] >= precedence:
            self._cursor.take()
            modifiers = parse_modifiers(self._cursor)
            rhs = self.parse_expression(_PRECEDENCE[op] + (op is not BinaryOp.POW))
            lhs = self._binary(op, modifiers, lhs, rhs)
        self._cursor.leave()
        return lhs

    def _operator_ahead(self) -> BinaryOp | None:
        token = self._cursor.peek()
        return BINARY_OPS.get(token.word) if token.kind is TokenKind.OPERATOR else None

    def _built(self, expr: Expr, value_type: ValueType, parts: Sequence[_Part]) -> _Part:
        height = 1 + max((part.height for part in parts), default=0)
        if height > MAX_HEIGHT:
            reason = f"the query has more than {MAX_HEIGHT} levels of operators and functions"
            self._cursor.fail(reason, expr.span)
        return _Part(expr, value_type, height)

    def _binary(self, op: BinaryOp, modifiers: Modifiers, lhs: _Part, rhs: _Part) -> _Part:
        span = Span(lhs.expr.span.start, rhs.expr.span.end)
        if modifiers.fill_span and not self._cursor.experimental:
            self._cursor.fail("binop fill modifiers are experimental and not enabled", span)
        matching = _matching(op, modifiers.matching, lhs.type is rhs.type is ValueType.VECTOR)
        expr = Binary(op, lhs.expr, rhs.expr, modifiers.return_bool, matching, span)
        return self._built(expr, binary_type(lhs.type, rhs.type), (lhs, rhs))

    def _signed(self) -> _Part:
        """An operand, or one with signs before it; a sign before a number becomes part of the number."""
        signs: list[Token] = []
        while self._cursor.peek().says(TokenKind.OPERATOR, "+", "-"):
            signs.append(self._cursor.take())
        if not signs:
            return self._operand()
        part = self.parse_expression(_POWER)
        for sign in reversed(signs):
            negative, expr = sign.word == "-", part.expr
            span = Span(sign.span.start, expr.span.end)
            if isinstance(expr, NumberLiteral):
                value = -expr.value if negative and not math.isnan(expr.value) else expr.value
                part = _Part(NumberLiteral(value, expr.as_duration, span), part.type)
            else:
                part = self._built(Unary(negative, expr, span), part.type, (part,))
        return part

    def _operand(self) -> _Part:
        """What operators stand between, with its suffixes."""
        part = self._primary()
        while (suffixed := parse_suffix(self._cursor, part.expr)) is not None:
            if isinstance(suffixed, Subquery) and suffixed.expr is part.expr:
                part = self._built(suffixed, ValueType.MATRIX, (part,))
            elif isinstance(suffixed, MatrixSelector):
                part = _Part(suffixed, ValueType.MATRIX, 2)
            else:
                part = part._replace(expr=suffixed)
        return part

    def _primary(self) -> _Part:
        cursor, token = self._cursor, self._cursor.peek()
        match token.kind:
            case TokenKind.NUMBER | TokenKind.DURATION:
                cursor.take()
                number = NumberLiteral(cursor.value_of(token), token.kind is TokenKind.DURATION, token.span)
                return _Part(number, ValueType.SCALAR)
            case TokenKind.STRING:
                cursor.take()
                return _Part(StringLiteral(token.word, token.span), ValueType.STRING)
            case TokenKind.MARK if token.word == "(":
                cursor.take()
                inner = self.parse_expression(0)
                span = Span(token.span.start, cursor.expect_mark(")").span.end)
                return self._built(Paren(inner.expr, span), inner.type, (inner,))
            case TokenKind.MARK if token.word == "{":
                return _Part(parse_selector(cursor, None), ValueType.VECTOR)
            case _:
                return self._named(token)

    def _named(self, token: Token) -> _Part:
        """An aggregation, a call or a selector: all begin with a name, and many words of the language may be one."""
        cursor = self._cursor
        if not token.names_metric:
            cursor.unexpected()
        cursor.take()
        opens = cursor.peek().says(TokenKind.MARK, "(")
        if token.kind is TokenKind.AGGREGATE and (opens or cursor.peek().says(TokenKind.KEYWORD, "by", "without")):
            return self._aggregate(token)
        if opens and token.kind in (TokenKind.IDENTIFIER, TokenKind.ANCHOR):
            return self._call(token)
        return _Part(parse_selector(cursor, token), ValueType.VECTOR)

    def _arguments(self) -> tuple[list[_Part], int]:
        """Expressions in parentheses, and where they end."""
        cursor = self._cursor
        cursor.expect_mark("(")
        parts: list[_Part] = []
        comma: Token | None = None
        while not (end := cursor.take_mark(")")):
            if comma and not cursor.peek().begins_expression:
                break
            parts.append(self.parse_expression(0))
            comma = cursor.take_mark(",")
            if comma is None:
                return parts, cursor.expect_mark(")").span.end
        if comma:
            cursor.fail("trailing commas not allowed in function call args", comma.span)
        assert end is not None, "only a closing parenthesis ends the loop without a comma"
        return parts, end.span.end

    def _call(self, name: Token) -> _Part:
        parts, end = self._arguments()
        # A word of the language counts as written: `START()` is no function.
        function = FUNCTIONS.get(name.text)
        if function is None:
            self._cursor.fail(f"unknown function with name {quote(name.text)}", name.span)
        if function.experimental and not self._cursor.experimental:
            self._cursor.fail(f"function {quote(name.text)} is not enabled", name.span)
        call = Call(function.name, tuple(part.expr for part in parts), Span(name.span.start, end))
        return self._built(call, function.returns, parts)

    def _aggregate(self, name: Token) -> _Part:
        cursor = self._cursor
        cursor.open_aggregations += 1
        grouping: tuple[str, ...] = ()
        without = False
        grouped = cursor.peek().kind is TokenKind.KEYWORD
        if grouped:
            without = cursor.take().word == "without"
            grouping, _ = parse_labels(cursor)
        parts, end = self._arguments()
        cursor.open_aggregations -= 1
        if not grouped and cursor.peek().says(TokenKind.KEYWORD, "by", "without"):
            without = cursor.take().word == "without"
            grouping, labels_span = parse_labels(cursor)
            end = labels_span.end
        op, span = AggregateOp(name.word), Span(name.span.start, end)
        self._check_arguments(op, parts, span)
        parameter = parts[0].expr if op.takes_parameter else None
        expr = Aggregation(op, parts[-1].expr, parameter, grouping, without, span)
        return self._built(expr, ValueType.VECTOR, parts)

    def _check_arguments(self, op: AggregateOp, parts: Sequence[_Part], span: Span) -> None:
        if not parts:
            self._cursor.fail("no arguments for aggregate expression provided", span)
        if op in _EXPERIMENTAL_AGGREGATES and not self._cursor.experimental:
            reason = f"{op}() is experimental and must be enabled with --enable-feature=promql-experimental-functions"
            self._cursor.fail(reason, span)
        wanted = 2 if op.takes_parameter else 1
        if len(parts) != wanted:
            reason = "wrong number of arguments for aggregate expression provided"
            self._cursor.fail(f"{reason}, expected {wanted}, got {len(parts)}", span)


def _matching(op: BinaryOp, written: VectorMatching, between_vectors: bool) -> VectorMatching | None:
    """How the sides match; between other types nothing, but what was written stays, for its check to refuse."""
    if op.is_set and written.cardinality is Cardinality.ONE_TO_ONE:
        written = replace(written, cardinality=Cardinality.MANY_TO_MANY)
    fills = written.fill_left is not None or written.fill_right is not None
    return written if between_vectors or written.labels or fills else None

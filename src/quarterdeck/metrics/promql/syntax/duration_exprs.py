"""Parsing of lengths of time: `5m`, `300`, `-(step() * 2)`, `min_of(range(), 1h)`.

Between square brackets a length is a whole expression. After `offset` it ends as soon as it can, so that
`foo offset 5m * 2` is twice what `foo offset 5m` is; only one that begins with a bare parenthesis or two signs goes on.
"""

from typing import Final, NamedTuple

from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import (
    BinaryOp,
    Duration,
    DurationBinary,
    DurationCall,
    DurationExtreme,
    DurationParen,
    DurationSigned,
    NumberLiteral,
    QueryLength,
)
from quarterdeck.metrics.promql.syntax.cursor import Cursor
from quarterdeck.metrics.promql.syntax.durations import MAX_MS
from quarterdeck.metrics.promql.syntax.tokens import BINARY_OPS, DURATION_WORDS, Token, TokenKind

MAX_PARTS: Final = 50
"""Numbers, signs, parentheses and calls of one length: nobody writes half as many, and those who walk it recurse."""

_POWER: Final = 3
_PRECEDENCE: Final = {
    BinaryOp.ADD: 1,
    BinaryOp.SUB: 1,
    BinaryOp.MUL: 2,
    BinaryOp.DIV: 2,
    BinaryOp.MOD: 2,
    BinaryOp.POW: _POWER,
}
_LENGTHS: Final = {length.value: length for length in QueryLength}
_BY_ZERO: Final = {BinaryOp.DIV: "division by zero", BinaryOp.MOD: "modulo by zero"}


class Place(NamedTuple):
    """Where a length stands and what may begin one there, in the words of messages."""

    context: str
    expected: str


def parse_duration(cursor: Cursor, place: Place) -> Duration:
    """The length between square brackets."""
    return _Parser(cursor, place).expression(0)


def parse_offset(cursor: Cursor, place: Place) -> Duration:
    """The length after `offset`."""
    return _Parser(cursor, place).offset()


class _Parser:
    def __init__(self, cursor: Cursor, place: Place) -> None:
        self._cursor = cursor
        self._place = place
        self._parts = 0

    def offset(self) -> Duration:
        if self._cursor.peek().says(TokenKind.MARK, "("):
            return self._operators(self._operand(), 0)
        signs = self._signs()
        if len(signs) > 1:
            return self._operators(self._signed(signs, self.expression(_POWER)), 0)
        return self._signed(signs, self._operand(signs[0].span if signs else None))

    def expression(self, precedence: int) -> Duration:
        """The longest length whose operators bind at least as closely as `precedence`."""
        self._cursor.enter()
        signs = self._signs()
        lhs = self._signed(signs, self.expression(_POWER)) if signs else self._operand()
        whole = self._operators(lhs, precedence)
        self._cursor.leave()
        return whole

    def _operators(self, lhs: Duration, precedence: int) -> Duration:
        cursor = self._cursor
        while (op := self._operator_ahead()) and _PRECEDENCE[op] >= precedence:
            self._allow(lhs.span)
            op_span = cursor.take().span
            rhs = self.expression(_PRECEDENCE[op] + (op is not BinaryOp.POW))
            if isinstance(rhs, NumberLiteral) and rhs.value == 0 and op in _BY_ZERO:
                cursor.fail(_BY_ZERO[op], op_span)
            lhs = DurationBinary(op, lhs, rhs, Span(lhs.span.start, rhs.span.end))
        return lhs

    def _operator_ahead(self) -> BinaryOp | None:
        token = self._cursor.peek()
        op = BINARY_OPS.get(token.word) if token.kind is TokenKind.OPERATOR else None
        return op if op in _PRECEDENCE else None

    def _sign_ahead(self) -> bool:
        return self._cursor.peek().says(TokenKind.OPERATOR, "+", "-")

    def _signs(self) -> list[Token]:
        signs: list[Token] = []
        while self._sign_ahead():
            signs.append(self._cursor.take())
            self._count(signs[-1])
        return signs

    @staticmethod
    def _signed(signs: list[Token], inner: Duration) -> Duration:
        """With signs before it; one before a number becomes part of the number, and a plus says nothing."""
        for sign in reversed(signs):
            negative, span = sign.word == "-", Span(sign.span.start, inner.span.end)
            if isinstance(inner, NumberLiteral):
                inner = NumberLiteral(-inner.value if negative else inner.value, inner.as_duration, span)
            elif negative:
                inner = DurationSigned(True, inner, span)
        return inner

    def _operand(self, place: Span | None = None) -> Duration:
        """What operators stand between; a number that is too large is told of at `place`, else where it is."""
        cursor, token = self._cursor, self._cursor.peek()
        self._count(token)
        if token.kind in (TokenKind.NUMBER, TokenKind.DURATION):
            cursor.take()
            return self._number(token, place or token.span)
        if token.says(TokenKind.MARK, "("):
            cursor.take()
            inner = self.expression(0)
            self._allow(inner.span)
            span = Span(token.span.start, self._expect(")").span.end)
            return DurationParen(inner.inner if isinstance(inner, DurationParen) else inner, span)
        if token.kind not in (TokenKind.ANCHOR, TokenKind.IDENTIFIER) or token.text.lower() not in DURATION_WORDS:
            cursor.unexpected(*self._place)
        return self._call(cursor.take())

    def _number(self, token: Token, place: Span) -> NumberLiteral:
        value = self._cursor.value_of(token)
        if not value * 1000 <= MAX_MS:
            self._cursor.fail("duration out of range", place)
        return NumberLiteral(value, token.kind is TokenKind.DURATION, token.span)

    def _call(self, token: Token) -> DurationCall | DurationExtreme:
        name = token.text.lower()
        self._expect("(")
        if name in _LENGTHS:
            call = DurationCall(_LENGTHS[name], Span(token.span.start, self._expect(")").span.end))
        else:
            lhs = self.expression(0)
            self._expect(",")
            rhs = self.expression(0)
            call = DurationExtreme(name == "max_of", lhs, rhs, Span(token.span.start, self._expect(")").span.end))
        self._allow(call.span)
        return call

    def _expect(self, mark: str) -> Token:
        return self._cursor.expect_mark(mark, *self._place)

    def _allow(self, span: Span) -> None:
        if not self._cursor.experimental:
            self._cursor.fail("experimental duration expression is not enabled", span)

    def _count(self, token: Token) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            self._cursor.fail(f"a duration has at most {MAX_PARTS} parts", token.span)

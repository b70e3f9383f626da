"""Parsing of what stands after an expression: `[5m]`, `[5m:1m]`, `offset`, `@`, `anchored` and `smoothed`."""

import math
from dataclasses import replace
from typing import NamedTuple

from quarterdeck.metrics.promql.floats import show_float
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import (
    At,
    AtAnchor,
    Duration,
    DurationExpr,
    Expr,
    Extension,
    MatrixSelector,
    NumberLiteral,
    Subquery,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.cursor import Cursor
from quarterdeck.metrics.promql.syntax.duration_exprs import Place, parse_duration, parse_offset
from quarterdeck.metrics.promql.syntax.tokens import TokenKind

_LENGTHS = "number, duration, step(), or range()"
_LENGTHS_OR_END = 'number, duration, step(), range(), or "]"'
_PRECEDED_BY = "must be preceded by an instant vector selector or range vector selector or a subquery"
_MAX_TIME_MS = 2**63 - 1


def parse_suffix(cursor: Cursor, expr: Expr) -> Expr | None:
    """The expression with the suffix that comes next; None when none comes next."""
    token = cursor.peek()
    if token.says(TokenKind.MARK, "["):
        return _parse_range(cursor, expr)
    if token.says(TokenKind.KEYWORD, "offset"):
        return _parse_offset(cursor, expr)
    if token.says(TokenKind.OPERATOR, "@"):
        return _parse_at(cursor, expr)
    if token.says(TokenKind.KEYWORD, *Extension):
        return _parse_extension(cursor, expr)
    return None


def _parse_range(cursor: Cursor, expr: Expr) -> MatrixSelector | Subquery:
    opening = cursor.take()
    length = _parse_positive_length(cursor, Place("subquery or range selector", _LENGTHS))
    if cursor.take_mark(":"):
        step = _NO_LENGTH
        if not cursor.peek().says(TokenKind.MARK, "]"):
            step = _parse_positive_length(cursor, Place("subquery selector", _LENGTHS_OR_END))
        closing = cursor.expect_mark("]", "subquery selector", '"]"')
        return Subquery(
            expr,
            length.ms,
            None if step is _NO_LENGTH else step.ms,
            range_expr=length.expr,
            step_expr=step.expr,
            span=Span(expr.span.start, closing.span.end),
        )
    closing = cursor.expect_mark("]", "subquery or range", '":" or "]"')
    bracket = Span(opening.span.start, closing.span.end)
    if not isinstance(expr, VectorSelector):
        cursor.fail("ranges only allowed for vector selectors", bracket)
    if expr.offset_ms or expr.offset_expr:
        cursor.fail("no offset modifiers allowed before range", bracket)
    if expr.at is not None:
        cursor.fail("no @ modifiers allowed before range", bracket)
    return MatrixSelector(expr, length.ms, length.expr, Span(expr.span.start, closing.span.end))


class _Length(NamedTuple):
    """A length of time, its sign included: in milliseconds, or, with 0 for now, what it is to be worked out from."""

    ms: int
    expr: DurationExpr | None
    end: int
    """Where it ends in the text."""


_NO_LENGTH = _Length(0, None, 0)


def _parse_positive_length(cursor: Cursor, place: Place) -> _Length:
    length = parse_duration(cursor, place)
    if isinstance(length, NumberLiteral):
        if not length.value > 0:
            cursor.fail("duration must be greater than 0", length.span)
        if not _literal_ms(length):  # Prometheus takes it for an empty range
            cursor.fail("duration must be at least 1ms", length.span)
    return _length(length)


def _length(duration: Duration) -> _Length:
    if isinstance(duration, NumberLiteral):
        return _Length(_literal_ms(duration), None, duration.span.end)
    return _Length(0, duration, duration.span.end)


def _literal_ms(literal: NumberLiteral) -> int:
    """A number of seconds, or a duration, as a length; of a number what is below a millisecond is cut off."""
    if literal.as_duration:
        return round(literal.value * 1000)
    ms = round(abs(literal.value) * 1e9) // 1_000_000
    return -ms if literal.value < 0 else ms


def _parse_offset(cursor: Cursor, expr: Expr) -> Expr:
    cursor.take()
    offset_ms, offset_expr, end = _length(parse_offset(cursor, Place("offset", _LENGTHS)))
    selector = expr.selector if isinstance(expr, MatrixSelector) else expr
    if not isinstance(selector, VectorSelector | Subquery):
        cursor.fail(f"offset modifier {_PRECEDED_BY}", expr.span)
    if selector.offset_ms or selector.offset_expr:
        cursor.fail("offset may not be set multiple times", expr.span)
    whole = Span(expr.span.start, end)
    if isinstance(expr, MatrixSelector):
        moved = replace(expr.selector, offset_ms=offset_ms, offset_expr=offset_expr)
        return replace(expr, selector=moved, span=whole)
    return replace(selector, offset_ms=offset_ms, offset_expr=offset_expr, span=whole)


def _parse_extension(cursor: Cursor, expr: Expr) -> Expr:
    extension = Extension(cursor.take().word)
    if not cursor.experimental:
        cursor.fail(f"{extension} modifier is experimental and not enabled", expr.span)
    if isinstance(expr, Subquery):
        cursor.fail(f"{extension} modifier is not supported for subqueries", expr.span)
    selector = expr.selector if isinstance(expr, MatrixSelector) else expr
    if not isinstance(selector, VectorSelector):
        cursor.fail(f"{extension} modifier not implemented", expr.span)
    if selector.extension not in (None, extension):
        cursor.fail("anchored and smoothed modifiers cannot be used together", expr.span)
    # As in Prometheus, its place is no part of the selector's.
    if isinstance(expr, MatrixSelector):
        return replace(expr, selector=replace(expr.selector, extension=extension))
    return replace(selector, extension=extension)


def _parse_at(cursor: Cursor, expr: Expr) -> Expr:
    cursor.take()
    at, end = _parse_time(cursor, expr)
    selector = expr.selector if isinstance(expr, MatrixSelector) else expr
    if not isinstance(selector, VectorSelector | Subquery):
        cursor.fail(f"@ modifier {_PRECEDED_BY}", expr.span)
    if selector.at is not None:
        cursor.fail("@ <timestamp> may not be set multiple times", expr.span)
    whole = Span(expr.span.start, end)
    if isinstance(expr, MatrixSelector):
        return replace(expr, selector=replace(expr.selector, at=at), span=whole)
    return replace(selector, at=at, span=whole)


def _parse_time(cursor: Cursor, expr: Expr) -> tuple[At, int]:
    """What follows `@`, and where it ends."""
    if cursor.peek().says(TokenKind.ANCHOR, "start", "end"):
        anchor = AtAnchor(cursor.take().word)
        cursor.expect_mark("(", "@", "timestamp")
        return anchor, cursor.expect_mark(")", "@", "timestamp").span.end
    negative = False
    if cursor.peek().says(TokenKind.OPERATOR, "+", "-"):
        negative = cursor.take().word == "-"
    if cursor.peek().kind not in (TokenKind.NUMBER, TokenKind.DURATION):
        cursor.unexpected("@", "timestamp")
    token = cursor.take()
    seconds = cursor.value_of(token)
    seconds = -seconds if negative else seconds
    if not abs(seconds) * 1000 < _MAX_TIME_MS:
        cursor.fail(f"timestamp out of bounds for @ modifier: {_show_seconds(seconds)}", expr.span)
    return _round_half_away(seconds * 1000), token.span.end


def _round_half_away(value: float) -> int:
    whole = math.floor(abs(value))
    rounded = whole + 1 if abs(value) - whole >= 0.5 else whole
    return -rounded if value < 0 else rounded


def _show_seconds(seconds: float) -> str:
    return show_float(seconds) if not math.isfinite(seconds) else f"{seconds:f}"

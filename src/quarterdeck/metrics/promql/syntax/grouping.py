"""Parsing of what stands beside an operator: label lists, `bool`, `on`, `group_left`, `fill` and their kin."""

import math
from dataclasses import dataclass, replace

from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import Cardinality, VectorMatching
from quarterdeck.metrics.promql.syntax.cursor import Cursor
from quarterdeck.metrics.promql.syntax.quoting import quote
from quarterdeck.metrics.promql.syntax.tokens import FILLS, TokenKind

_CONTEXT = "grouping opts"
_CARDINALITIES = {"group_left": Cardinality.MANY_TO_ONE, "group_right": Cardinality.ONE_TO_MANY}


@dataclass(frozen=True, slots=True)
class Modifiers:
    """What was written between a binary operator and its right side."""

    return_bool: bool
    matching: VectorMatching
    fill_span: Span | None


def parse_labels(cursor: Cursor) -> tuple[tuple[str, ...], Span]:
    """Labels in parentheses; a comma may follow the last one, and a word of the language may be a label."""
    start = cursor.expect_mark("(", _CONTEXT, '"("')
    labels: list[str] = []
    while not (end := cursor.take_mark(")")):
        label = cursor.peek()
        if not (label.names_label or label.kind is TokenKind.STRING):
            cursor.unexpected(_CONTEXT, "label")
        name = label.word if label.kind is TokenKind.STRING else label.text
        if not name or any("\ud800" <= char <= "\udfff" for char in name):
            cursor.fail(f"invalid label name for grouping: {quote(name)}", label.span)
        labels.append(name)
        cursor.take()
        if not cursor.take_mark(","):
            end = cursor.expect_mark(")", _CONTEXT, '"," or ")"')
            break
    return tuple(labels), Span(start.span.start, end.span.end)


def parse_modifiers(cursor: Cursor) -> Modifiers:
    """What stands between a binary operator and its right side."""
    return_bool = cursor.peek().says(TokenKind.KEYWORD, "bool")
    if return_bool:
        cursor.take()
    matching = VectorMatching()
    if cursor.peek().says(TokenKind.KEYWORD, "on", "ignoring"):
        on = cursor.take().word == "on"
        matching = VectorMatching(on=on, labels=parse_labels(cursor)[0])
        if cursor.peek().says(TokenKind.KEYWORD, *_CARDINALITIES):
            cardinality = _CARDINALITIES[cursor.take().word]
            # A parenthesis begins labels, though it could begin the right side too.
            opens = cursor.peek().says(TokenKind.MARK, "(")
            include = parse_labels(cursor)[0] if opens or not cursor.peek().begins_expression else ()
            matching = replace(matching, cardinality=cardinality, include=include)
    fill_span = cursor.peek().span if cursor.peek().says(TokenKind.KEYWORD, *FILLS) else None
    return Modifiers(return_bool, _parse_fills(cursor, matching), fill_span)


def _parse_fills(cursor: Cursor, matching: VectorMatching) -> VectorMatching:
    """`fill`, or one or both of `fill_left` and `fill_right`, each with a number in parentheses."""
    if cursor.peek().says(TokenKind.KEYWORD, "fill"):
        cursor.take()
        value = _parse_fill_value(cursor)
        return replace(matching, fill_left=value, fill_right=value)
    while cursor.peek().says(TokenKind.KEYWORD, "fill_left", "fill_right"):
        if cursor.peek().word == "fill_left" and matching.fill_left is None:
            cursor.take()
            matching = replace(matching, fill_left=_parse_fill_value(cursor))
        elif cursor.peek().word == "fill_right" and matching.fill_right is None:
            cursor.take()
            matching = replace(matching, fill_right=_parse_fill_value(cursor))
        else:
            break
    return matching


def _parse_fill_value(cursor: Cursor) -> float:
    cursor.expect_mark("(")
    negative = False
    if cursor.peek().says(TokenKind.OPERATOR, "+", "-"):
        negative = cursor.take().word == "-"
    if cursor.peek().kind not in (TokenKind.NUMBER, TokenKind.DURATION):
        cursor.unexpected()
    value = cursor.value_of(cursor.take())
    cursor.expect_mark(")")
    return -value if negative and not math.isnan(value) else value

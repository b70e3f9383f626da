"""From a tree to text: what Prometheus prints for the same query, and what parses to the same tree again.

As in Prometheus, matchers are sorted. What differs keeps the second promise: an infinity before `^` or a bracket has
no sign, an offset in parentheses before an operator has one, and labels that would not be read as such are quoted.
"""

import math
from collections.abc import Sequence
from typing import assert_never

from quarterdeck.metrics.promql.floats import show_float, show_short
from quarterdeck.metrics.promql.labels import METRIC_NAME, is_plain_name
from quarterdeck.metrics.promql.syntax.ast import (
    Aggregate,
    AtAnchor,
    Binary,
    BinaryOp,
    Call,
    Cardinality,
    Duration,
    DurationBinary,
    DurationCall,
    DurationExpr,
    DurationExtreme,
    DurationParen,
    DurationSigned,
    Expr,
    Matcher,
    MatchOp,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorMatching,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.durations import show_duration_ms
from quarterdeck.metrics.promql.syntax.quoting import quote
from quarterdeck.metrics.promql.syntax.tokens import NOT_LABELS

_DURATION_OPS = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MOD, BinaryOp.POW)
"""The operators that may stand within an offset too."""


def show(expr: Expr) -> str:
    """The query that a tree stands for.

    >>> from quarterdeck.metrics.promql.syntax.parser import parse
    >>> show(parse("sum(rate(http_total{code=~'5..'}[300]))by(job)"))
    'sum by (job) (rate(http_total{code=~"5.."}[5m]))'
    """
    match expr:
        case NumberLiteral():
            return _show_literal(expr)
        case StringLiteral():
            return _quoted(expr.value)
        case Paren():
            return f"({show(expr.expr)})"
        case Unary():
            return ("-" if expr.negative else "+") + show(expr.expr)
        case Binary():
            return _show_binary(expr)
        case Aggregate():
            return _show_aggregate(expr)
        case Call():
            return f"{expr.function}({', '.join(map(show, expr.args))})"
        case VectorSelector():
            return _show_selector(expr) + _show_suffixes(expr, after=_show_extension(expr))
        case MatrixSelector(selector=selector):
            length = _show_length(expr.range_ms, expr.range_expr)
            return f"{_show_selector(selector)}[{length}]{_show_suffixes(selector, before=_show_extension(selector))}"
        case Subquery():
            step = "" if expr.step_ms is None else _show_length(expr.step_ms, expr.step_expr)
            length = _show_length(expr.range_ms, expr.range_expr)
            return f"{_show_unsigned(expr.expr)}[{length}:{step}]{_show_suffixes(expr)}"
        case _:
            assert_never(expr)


def show_matchers(matchers: Sequence[Matcher]) -> str:
    """The selector with these matchers.

    >>> show_matchers([Matcher("job", MatchOp.NOT_REGEX, 'a"b'), Matcher("__name__", MatchOp.EQUAL, "up")])
    'up{job!~"a\\\\"b"}'
    """
    named = [one for one in matchers if one.name == METRIC_NAME and one.op is MatchOp.EQUAL]
    named = [one for one in named if is_plain_name(one.value.replace(":", "_"))]
    name = named[0].value if named else ""
    others = [one for one in matchers if one not in named[:1]]
    inside = sorted(f"{_show_label(one.name)}{one.op}{_quoted(one.value)}" for one in others)
    return f"{name}{{{','.join(inside)}}}" if inside or not name else name


def _quoted(text: str) -> str:
    # The one character that is text, and that no string may hold but by its escape.
    return quote(text).replace("\ufffd", r"\ufffd")


def _show_literal(literal: NumberLiteral) -> str:
    if not literal.as_duration:
        return show_float(literal.value)
    sign = "-" if math.copysign(1, literal.value) < 0 else ""
    return sign + show_duration_ms(round(abs(literal.value) * 1000))


def _show_unsigned(expr: Expr) -> str:
    """What stands before something that binds closer than a sign."""
    return show(expr).removeprefix("+") if isinstance(expr, NumberLiteral) else show(expr)


def _show_binary(expr: Binary) -> str:
    lhs = _show_unsigned(expr.lhs) if expr.op is BinaryOp.POW else show(expr.lhs)
    if expr.op in _DURATION_OPS and (offset := _open_offset(expr.lhs)):
        lhs = f"{lhs.removesuffix(offset)}+{offset}"
    returned = " bool" if expr.return_bool else ""
    matching = "" if expr.matching is None else _show_matching(expr.matching)
    return f"{lhs} {expr.op}{returned}{matching} {show(expr.rhs)}"


def _open_offset(expr: Expr) -> str:
    """The offset in parentheses that an expression ends in, if it does: an operator after it would be part of it."""
    match expr:
        case Binary():
            return _open_offset(expr.rhs)
        case Unary():
            return _open_offset(expr.expr)
        case MatrixSelector(selector=selector):
            return _open_offset(selector)
        case VectorSelector(offset_expr=offset) | Subquery(offset_expr=offset):
            return _show_duration(offset) if isinstance(offset, DurationParen) else ""
        case _:
            return ""


def _show_matching(matching: VectorMatching) -> str:
    shown = ""
    grouped = matching.cardinality in (Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY)
    if matching.labels or matching.on or grouped:
        shown += f" {'on' if matching.on else 'ignoring'} ({_show_labels(matching.labels)})"
    if grouped:
        side = "left" if matching.cardinality is Cardinality.MANY_TO_ONE else "right"
        shown += f" group_{side} ({_show_labels(matching.include)})"
    left, right = matching.fill_left, matching.fill_right
    if left is not None and right is not None and show_float(left) == show_float(right):
        return f"{shown} fill ({show_short(left)})"
    shown += "" if left is None else f" fill_left ({show_short(left)})"
    return shown + ("" if right is None else f" fill_right ({show_short(right)})")


def _show_aggregate(expr: Aggregate) -> str:
    grouping = ""
    if expr.without or expr.grouping:
        grouping = f" {'without' if expr.without else 'by'} ({_show_labels(expr.grouping)}) "
    parameter = "" if expr.parameter is None else f"{show(expr.parameter)}, "
    return f"{expr.op}{grouping}({parameter}{show(expr.expr)})"


def _show_labels(labels: tuple[str, ...]) -> str:
    return ", ".join(_quoted(name) if name.lower() in NOT_LABELS else _show_label(name) for name in labels)


def _show_label(name: str) -> str:
    return name if name and is_plain_name(name) else _quoted(name)


def _show_selector(selector: VectorSelector) -> str:
    name = selector.name or ""
    matchers = selector.matchers[:-1] if name else selector.matchers
    inside = sorted(f"{_show_label(matcher.name)}{matcher.op}{_quoted(matcher.value)}" for matcher in matchers)
    return f"{name}{{{','.join(inside)}}}" if inside or not name else name


def _show_length(length_ms: int, expr: DurationExpr | None) -> str:
    return show_duration_ms(length_ms) if expr is None else _show_duration(expr)


def _show_duration(expr: Duration) -> str:
    match expr:
        case NumberLiteral():
            return _show_literal(expr)
        case DurationCall():
            return f"{expr.length}()"
        case DurationExtreme():
            return f"{'max' if expr.largest else 'min'}_of({_show_duration(expr.lhs)}, {_show_duration(expr.rhs)})"
        case DurationBinary():
            return f"{_show_duration(expr.lhs)} {expr.op} {_show_duration(expr.rhs)}"
        case DurationSigned():
            return f"{'-' if expr.negative else '+'}{_show_duration(expr.inner)}"
        case DurationParen():
            return f"({_show_duration(expr.inner)})"
        case _:
            assert_never(expr)


def _show_extension(selector: VectorSelector) -> str:
    return "" if selector.extension is None else f" {selector.extension}"


def _show_suffixes(expr: VectorSelector | Subquery, before: str = "", after: str = "") -> str:
    """`@` and `offset`, and what stands before and after `@`."""
    at = ""
    if isinstance(expr.at, AtAnchor):
        at = f" @ {expr.at}()"
    elif expr.at is not None:
        at = f" @ {'-' if expr.at < 0 else ''}{abs(expr.at) // 1000}.{abs(expr.at) % 1000:03d}"
    others = f"{before}{at}{after}"
    offset = expr.offset_expr
    if isinstance(offset, DurationBinary) or (isinstance(offset, DurationSigned) and not _is_closed(offset.inner)):
        # Only a parenthesis or two signs let an offset go on, and then nothing else may follow it but a suffix.
        shown = _show_duration(offset)
        signs = len(shown) - len(shown.lstrip("-"))
        return f" offset {'' if shown.startswith('(') else '+' * (2 - signs)}{shown}{others}"
    return others + (f" offset {_show_length(expr.offset_ms, offset)}" if expr.offset_ms or offset else "")


def _is_closed(duration: Duration) -> bool:
    return not isinstance(duration, DurationBinary | DurationSigned)

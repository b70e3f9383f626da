"""From a tree to text: what Prometheus prints for the same query, and what parses to the same tree again.

As in Prometheus, matchers are sorted. What differs keeps the second promise: an infinity before `^` or a bracket has
no sign, an offset in parentheses before an operator has one, and labels that would not be read as such are quoted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from quarterdeck.metrics.promql.floats import show_float, show_short
from quarterdeck.metrics.promql.labels import METRIC_NAME, is_plain_name
from quarterdeck.metrics.promql.syntax.ast import (
    Aggregation,
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
        case Aggregation():
            return _show_aggregate(expr)
        case Call():
            return f"{expr.function}({', '.join(map(show, expr.args))})"
        case VectorSelector():
            return _show_selector(expr) + _suffixes(expr).shown
        case MatrixSelector(selector=selector):
            length = _show_length(expr.range_ms, expr.range_expr)
            return f"{_show_selector(selector)}[{length}]{_suffixes(expr).shown}"
        case Subquery():
            return _show_unsigned(expr.expr) + show_window(expr)
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
    if expr.op in _DURATION_OPS and (suffixes := _open_suffixes(expr.lhs)) is not None:
        lhs = lhs.removesuffix(suffixes.shown) + suffixes.closed
    return f"{lhs} {show_operator(expr)} {show(expr.rhs)}"


def show_operator(expr: Binary) -> str:
    """What stands between the two sides."""
    returned = " bool" if expr.return_bool else ""
    return f"{expr.op}{returned}{'' if expr.matching is None else _show_matching(expr.matching)}"


def is_changed_beside_operator(expr: Binary) -> bool:
    """Whether the left side is written otherwise than it is by itself, so that the operator is read as one."""
    if expr.op is BinaryOp.POW and show(expr.lhs) != _show_unsigned(expr.lhs):
        return True
    if expr.op not in _DURATION_OPS or (suffixes := _open_suffixes(expr.lhs)) is None:
        return False
    return suffixes.shown != suffixes.closed


def _open_suffixes(expr: Expr) -> "_Suffixes | None":
    """The suffixes that an expression ends in, if an operator after them would be part of the offset."""
    match expr:
        case Binary():
            return _open_suffixes(expr.rhs)
        case Unary():
            return _open_suffixes(expr.expr)
        case MatrixSelector() | VectorSelector() | Subquery():
            return _suffixes(expr)
        case _:
            return None


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


def _show_aggregate(expr: Aggregation) -> str:
    parameter = "" if expr.parameter is None else f"{show(expr.parameter)}, "
    return f"{show_head(expr)}({parameter}{show(expr.expr)})"


def show_head(expr: Aggregation) -> str:
    """What stands before the parenthesis."""
    if expr.without or expr.grouping:
        return f"{expr.op} {'without' if expr.without else 'by'} ({_show_labels(expr.grouping)}) "
    return expr.op.value


def _show_labels(labels: tuple[str, ...]) -> str:
    return ", ".join(_quoted(name) if name.lower() in NOT_LABELS else _show_label(name) for name in labels)


def _show_label(name: str) -> str:
    return name if name and is_plain_name(name) else _quoted(name)


def _show_selector(selector: VectorSelector) -> str:
    name = selector.name or ""
    matchers = selector.matchers[:-1] if name else selector.matchers
    inside = sorted(f"{_show_label(matcher.name)}{matcher.op}{_quoted(matcher.value)}" for matcher in matchers)
    return f"{name}{{{','.join(inside)}}}" if inside or not name else name


def show_window(expr: Subquery) -> str:
    """What stands after the expression of a subquery."""
    step = "" if expr.step_ms is None else _show_length(expr.step_ms, expr.step_expr)
    return f"[{_show_length(expr.range_ms, expr.range_expr)}:{step}]{_suffixes(expr).shown}"


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


@dataclass(frozen=True, slots=True)
class _Suffixes:
    """What stands behind a selector or subquery: `@`, an offset and what makes a selector an extended one."""

    shown: str
    closed: str
    """The same where an operator of durations follows, which must not become part of the offset."""


def _suffixes(expr: VectorSelector | MatrixSelector | Subquery) -> _Suffixes:
    before = after = ""
    match expr:
        case MatrixSelector(selector=selector):
            before, expr = _show_extension(selector), selector
        case VectorSelector():
            after = _show_extension(expr)
        case _:
            pass
    at = ""
    if isinstance(expr.at, AtAnchor):
        at = f" @ {expr.at}()"
    elif expr.at is not None:
        at = f" @ {'-' if expr.at < 0 else ''}{abs(expr.at) // 1000}.{abs(expr.at) % 1000:03d}"
    others = f"{before}{at}{after}"
    duration = expr.offset_expr
    if isinstance(duration, DurationBinary) or (
        isinstance(duration, DurationSigned) and not _is_closed(duration.inner)
    ):
        # Only a parenthesis or two signs let an offset go on, and then only another suffix ends it.
        shown = _show_duration(duration)
        signs = len(shown) - len(shown.lstrip("-"))
        offset = f" offset {'' if shown.startswith('(') else '+' * (2 - signs)}{shown}"
        return _Suffixes(others + offset, offset + others)
    offset = f" offset {_show_length(expr.offset_ms, duration)}" if expr.offset_ms or duration else ""
    if isinstance(duration, DurationParen):
        return _Suffixes(others + offset, f"{others} offset +{_show_duration(duration)}")
    return _Suffixes(others + offset, others + offset)


def _is_closed(duration: Duration) -> bool:
    return not isinstance(duration, DurationBinary | DurationSigned)

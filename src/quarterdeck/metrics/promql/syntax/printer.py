"""From a tree to text: what Prometheus prints for the same query, and what parses to the same tree again.

Two differences keep the second promise: matchers stay in the order in which they were written, and an infinity
before `^` or a bracket has no sign.
"""

import math
from typing import assert_never

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
    Extension,
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
from quarterdeck.metrics.promql.syntax.numerals import show_number
from quarterdeck.metrics.promql.syntax.quoting import quote
from quarterdeck.metrics.promql.syntax.tokens import FILLS, NOT_METRIC_NAMES


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
            return quote(expr.value)
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
            return _show_selector(expr) + _show_suffixes(expr, expr.extension)
        case MatrixSelector(selector=selector):
            length = _show_length(expr.range_ms, expr.range_expr)
            return f"{_show_selector(selector)}[{length}]{_show_suffixes(selector, selector.extension)}"
        case Subquery():
            step = "" if expr.step_ms is None else _show_length(expr.step_ms, expr.step_expr)
            length = _show_length(expr.range_ms, expr.range_expr)
            return f"{_show_unsigned(expr.expr)}[{length}:{step}]{_show_suffixes(expr, None)}"
        case _:
            assert_never(expr)


def _show_literal(literal: NumberLiteral) -> str:
    if not literal.as_duration:
        return show_number(literal.value)
    sign = "-" if math.copysign(1, literal.value) < 0 else ""
    return sign + show_duration_ms(round(abs(literal.value) * 1000))


def _show_unsigned(expr: Expr) -> str:
    """What stands before something that binds closer than a sign."""
    return show(expr).removeprefix("+") if isinstance(expr, NumberLiteral) else show(expr)


def _show_binary(expr: Binary) -> str:
    lhs = _show_unsigned(expr.lhs) if expr.op is BinaryOp.POW else show(expr.lhs)
    returned = " bool" if expr.return_bool else ""
    matching = "" if expr.matching is None else _show_matching(expr.matching)
    return f"{lhs} {expr.op}{returned}{matching} {show(expr.rhs)}"


def _show_matching(matching: VectorMatching) -> str:
    shown = ""
    grouped = matching.cardinality in (Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY)
    if matching.labels or matching.on or grouped:
        shown += f" {'on' if matching.on else 'ignoring'} ({_show_labels(matching.labels)})"
    if grouped:
        side = "left" if matching.cardinality is Cardinality.MANY_TO_ONE else "right"
        shown += f" group_{side} ({_show_labels(matching.include)})"
    left, right = matching.fill_left, matching.fill_right
    if left is not None and right is not None and show_number(left) == show_number(right):
        return f"{shown} fill ({show_number(left)})"
    shown += "" if left is None else f" fill_left ({show_number(left)})"
    return shown + ("" if right is None else f" fill_right ({show_number(right)})")


def _show_aggregate(expr: Aggregate) -> str:
    grouping = ""
    if expr.without or expr.grouping:
        grouping = f" {'without' if expr.without else 'by'} ({_show_labels(expr.grouping)}) "
    parameter = "" if expr.parameter is None else f"{show(expr.parameter)}, "
    return f"{expr.op}{grouping}({parameter}{show(expr.expr)})"


def _show_labels(labels: tuple[str, ...]) -> str:
    return ", ".join(map(_show_label, labels))


def _show_label(name: str) -> str:
    # In a list of labels `inf` would be read as a number.
    return name if name and is_plain_name(name) and name.lower() not in ("inf", "nan") else quote(name)


def _show_selector(selector: VectorSelector) -> str:
    matchers = list(selector.matchers)
    before = ""
    if selector.name is not None:
        matchers = matchers[:-1] if _is_name(matchers[-1], selector.name) else matchers
        named_again = any(matcher.name == METRIC_NAME for matcher in matchers)
        before = selector.name if _is_plain_metric_name(selector.name) and not named_again else ""
    inside = [f"{_show_label(matcher.name)}{matcher.op}{quote(matcher.value)}" for matcher in matchers]
    if selector.name is not None and not before:
        inside.insert(0, quote(selector.name))
    return f"{before}{{{','.join(inside)}}}" if inside or not before else before


def _is_name(matcher: Matcher, name: str) -> bool:
    return matcher == Matcher(METRIC_NAME, MatchOp.EQUAL, name)


def _is_plain_metric_name(name: str) -> bool:
    # A fill is a name unless a parenthesis follows, and what follows is not known here.
    reserved = name.lower() in NOT_METRIC_NAMES or name.lower() in FILLS
    return name != "" and is_plain_name(name.replace(":", "_")) and not reserved


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


def _show_suffixes(expr: VectorSelector | Subquery, extension: Extension | None) -> str:
    others = "" if extension is None else f" {extension}"
    if isinstance(expr.at, AtAnchor):
        others += f" @ {expr.at}()"
    elif expr.at is not None:
        others += f" @ {'-' if expr.at < 0 else ''}{abs(expr.at) // 1000}.{abs(expr.at) % 1000:03d}"
    if not (expr.offset_ms or expr.offset_expr):
        return others
    offset = f" offset {_show_length(expr.offset_ms, expr.offset_expr)}"
    # After a parenthesis an operator would belong to the offset.
    return offset + others if offset.startswith(" offset (") else others + offset

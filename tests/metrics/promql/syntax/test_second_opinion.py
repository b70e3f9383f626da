"""What another parser says, `promql_parser`: both accept a query or both refuse it, but for a list with reasons.

It is never asked about negative times after `@`, boundless lengths or deep nesting, at which it panics.
"""

from itertools import product

import promql_parser
import pytest

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.plan.rules.check_types import check_types
from quarterdeck.metrics.promql.syntax.ast import Binary, BinaryOp, Expr, Unary, VectorSelector
from quarterdeck.metrics.promql.syntax.functions import FUNCTIONS
from quarterdeck.metrics.promql.syntax.parser import parse
from tests.metrics.promql.syntax import test_accepted_queries as accepted
from tests.metrics.promql.syntax import test_refused_queries as refused

_OPERANDS = ["1", "foo", "foo[5m]", '"a"', "foo[5m:]", "time()", "(2)", "-foo"]
_MODIFIERS = ["", "bool", "on(a)", "ignoring(a) group_left", "on() group_right(b)", "bool on(a) group_left(b)"]
_NEWER = {
    *("start_timestamp", "max_of", "min_of", "start", "end", "step", "range", "integral", "histogram_quantiles"),
    *("info",),
}
"""Functions that it does not know, or of which it checks less."""

_PANICS = {"foo offset Inf", "foo offset -1e20", "foo[1e20]"}

DIFFERENT = {
    "anchored{}": "it does not take this word for a name",
    "smoothed{}": "it does not take this word for a name",
    "0x1e": "it takes the letter for a digit, not for an exponent",
    "`\ufffd`": "it does not take this character for bytes that are no text",
    'foo{a="b\ufffd"}': "it does not take this character for bytes that are no text",
    "300y": "it does not bound a duration that stands for a number",
    "9e999": "it takes a number beyond all floats for infinity",
    "foo == bar </ 1": "it does not know the trim operators",
    "foo >/ 1 + 2": "it does not know the trim operators",
    "foo + on(a) group_left fill_left(5m) bar": "it knows fill, but not with a duration",
    "foo[+4.018]": "it takes no sign between brackets",
    "foo[0.0001]": "we refuse a range of no milliseconds, which selects nothing",
    "foo[5m:0]": "it takes a step of nothing",
    "foo @ 9223372036854775808": "it does not bound times",
    'foo{a!~"b**"}': "its regular expressions are Rust's, not RE2",
    'foo{a=~"b)(?:c"}': "it checks the pattern only between anchors",
    'sum by ("")(foo)': "it does not check quoted labels",
    'sum by ("\\xff")(foo)': "it does not check quoted labels",
    'sum by ("a.b", a:b) (foo)': "since 3.0 a label may hold a colon",
}

QUERIES = sorted(
    {
        *(query for query, _ in [*accepted.PRECEDENCE, *accepted.SELECTORS, *accepted.RANGES, *accepted.CALLS]),
        *(query for query, _ in accepted.MATCHING),
        *(query for query, _, _ in [*refused.CHARACTERS, *refused.NUMBERS, *refused.STRINGS, *refused.OPERATORS]),
        *(query for query, _, _ in [*refused.MATCHERS, *refused.RANGES, *refused.SHIFTS, *refused.CALLS]),
        *(f"{name}({args})" for name in FUNCTIONS for args in ("", "foo", "foo[5m]", "1", "foo, 1", "1, foo[5m]")),
        *(f"{name}{{}}" for name in accepted.WORDS),
    }
)


def _asked(query: str) -> bool:
    is_text = query.isascii() or query.encode("utf-8", "replace").decode() == query
    panics = query in _PANICS or "@ -" in query
    return is_text and not panics and query.partition("(")[0] not in _NEWER


def _we_accept(query: str) -> bool:
    try:
        check_types(parse(query), query)
    except ParseError:
        return False
    return True


def _they_accept(query: str) -> bool:
    try:
        promql_parser.parse(query)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("query", [query for query in QUERIES if _asked(query)])
def test_both_parsers_accept_a_query_or_both_refuse_it(query: str) -> None:
    assert (_we_accept(query) == _they_accept(query)) is (query not in DIFFERENT)


@pytest.mark.parametrize("op", [op for op in BinaryOp if op not in (BinaryOp.TRIM_LOWER, BinaryOp.TRIM_UPPER)])
def test_both_parsers_accept_the_same_operands_of_an_operator(op: BinaryOp) -> None:
    queries = [f"{lhs} {op} {how} {rhs}" for lhs, how, rhs in product(_OPERANDS, _MODIFIERS, _OPERANDS)]
    assert [query for query in queries if _we_accept(query)] == [query for query in queries if _they_accept(query)]


def test_both_parsers_group_operators_alike() -> None:
    operators = ["+", "*", "^", "==", "and", "or", "unless", "atan2", "^ -", "- -"]
    for first, second, third in product(operators, repeat=3):
        query = f"-a {first} b offset 1m {second} -rate(c[5m]) {third} d"
        assert _our_shape(parse(query)) == _their_shape(promql_parser.parse(query)), query


def _our_shape(expr: Expr) -> str:
    match expr:
        case Binary():
            return f"({_our_shape(expr.lhs)} {expr.op} {_our_shape(expr.rhs)})"
        case Unary():
            return f"-{_our_shape(expr.expr)}"
        case VectorSelector():
            return f"{expr.name} offset {expr.offset_ms}"
        case _:
            return type(expr).__name__


def _their_shape(expr: promql_parser.Expr) -> str:
    match expr:
        case promql_parser.BinaryExpr():
            return f"({_their_shape(expr.lhs)} {expr.op} {_their_shape(expr.rhs)})"
        case promql_parser.UnaryExpr():
            return f"-{_their_shape(expr.expr)}"
        case promql_parser.VectorSelector():
            offset_ms = 0 if expr.offset is None else round(expr.offset.total_seconds() * 1000)
            return f"{expr.name} offset {offset_ms}"
        case _:
            return type(expr).__name__

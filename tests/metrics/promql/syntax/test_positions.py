"""Where each node of a tree stands in the text; annotations print the line and column of its start."""

import pytest

from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import (
    Aggregation,
    Binary,
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.parser import parse


def _places(expr: Expr) -> list[tuple[str, Span]]:
    """Every node below and with this one, the outermost first."""
    match expr:
        case NumberLiteral() | StringLiteral() | VectorSelector():
            children: list[Expr] = []
        case Paren(expr=inner) | Unary(expr=inner) | Subquery(expr=inner):
            children = [inner]
        case MatrixSelector():
            children = [expr.selector]
        case Binary():
            children = [expr.lhs, expr.rhs]
        case Aggregation():
            children = [expr.expr] if expr.parameter is None else [expr.parameter, expr.expr]
        case Call():
            children = list(expr.args)
    return [(type(expr).__name__, expr.span), *(place for child in children for place in _places(child))]


@pytest.mark.parametrize(
    "query, places",
    [
        (" 1 ", ["NumberLiteral:1"]),
        (" -1", ["NumberLiteral:-1"]),
        ("'a'", ["StringLiteral:'a'"]),
        (" foo{a='b'} ", ["VectorSelector:foo{a='b'}"]),
        (" { 'foo' } ", ["VectorSelector:{ 'foo' }"]),
        ("foo @ 1 offset 5m ", ["VectorSelector:foo @ 1 offset 5m"]),
        ("foo @ start( ) ", ["VectorSelector:foo @ start( )"]),
        ("foo[5m] offset 1m ", ["MatrixSelector:foo[5m] offset 1m", "VectorSelector:foo"]),
        (
            "(foo)[5m:1m] @ 5 ",
            ["Subquery:(foo)[5m:1m] @ 5", "Paren:(foo)", "VectorSelector:foo"],
        ),
        ("- foo", ["Unary:- foo", "VectorSelector:foo"]),
        (
            "1 + on ( a ) - foo",
            ["Binary:1 + on ( a ) - foo", "NumberLiteral:1", "Unary:- foo", "VectorSelector:foo"],
        ),
        ("foo[5m] anchored ", ["MatrixSelector:foo[5m]", "VectorSelector:foo"]),
        ("foo smoothed offset 1m", ["VectorSelector:foo smoothed offset 1m"]),
        ("abs( foo )", ["Call:abs( foo )", "VectorSelector:foo"]),
        ("sum by(a)(foo) ", ["Aggregation:sum by(a)(foo)", "VectorSelector:foo"]),
        ("sum(foo)by(a) ", ["Aggregation:sum(foo)by(a)", "VectorSelector:foo"]),
        ("sum(foo) ", ["Aggregation:sum(foo)", "VectorSelector:foo"]),
        (
            "topk(1,sum(foo))",
            ["Aggregation:topk(1,sum(foo))", "NumberLiteral:1", "Aggregation:sum(foo)", "VectorSelector:foo"],
        ),
    ],
)
def test_a_node_stands_where_it_was_written(query: str, places: list[str]) -> None:
    found = [f"{name}:{query[span.start : span.end]}" for name, span in _places(parse(query))]
    assert found == places


def test_a_binary_expression_begins_with_its_left_side() -> None:
    tree = parse("  a\n  *\n  b == bool c")
    assert isinstance(tree, Binary)
    assert tree.span == Span(2, 21)
    assert tree.lhs.span == Span(2, 11)


def test_the_order_of_matchers_does_not_count_for_equality() -> None:
    assert parse('foo{a="1",b="2"}') == parse('foo{b="2",a="1"}')
    assert parse('{"foo",a="1"}') == parse('{a="1",__name__="foo"}')
    assert parse('foo{a="1"}') != parse('foo{a="1",a="1"}')
    assert parse('{"foo"}') != parse("foo"), "only one of them has a name before the braces"


def test_places_do_not_count_for_equality() -> None:
    one: Expr = parse("foo")
    other: Expr = parse("   foo  ")
    assert one == other
    assert isinstance(other, VectorSelector)
    assert other.span == Span(3, 6)

"""What is printed for a tree, and that it reads as the same tree again."""

import pytest
from hypothesis import given, settings

from quarterdeck.metrics.promql.syntax.ast import Expr
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.printer import show
from tests.metrics.promql.syntax.trees import trees


@pytest.mark.parametrize(
    "query, shown",
    [
        ("1e3", "1000"),
        ("-.5", "-0.5"),
        ("0x10", "16"),
        ("inf", "+Inf"),
        ("Inf ^ 2", "Inf ^ 2"),
        ("-NaN", "NaN"),
        ("90m", "1h30m"),
        ("-5m", "-5m"),
        ("-0s", "-0s"),
        ("'say \"hi\"'", '"say \\"hi\\""'),
        (r"'\xff\n'", r'"\xff\n"'),
        (r"'\ufffd'", r'"\ufffd"'),
        (r"{'\ufffd'='\ufffd'}", r'{"\ufffd"="\ufffd"}'),
        ("sum by() (foo)", "sum(foo)"),
        ("sum(foo)by(a,'b.c')", 'sum by (a, "b.c") (foo)'),
        ("sum without() (foo)", "sum without () (foo)"),
        ("topk(5,foo)", "topk(5, foo)"),
        ("a+b*c", "a + b * c"),
        ("a==bool b", "a == bool b"),
        ("a-on(b)group_left c", "a - on (b) group_left () c"),
        ("a-ignoring()c", "a - c"),
        ("a-on()c", "a - on () c"),
        ("a and ignoring(x) b", "a and ignoring (x) b"),
        ("a+fill(1)b", "a + fill (1) b"),
        ("a+fill_right(1)fill_left(2)b", "a + fill_left (2) fill_right (1) b"),
        ("a+fill_right(1)b", "a + fill_right (1) b"),
        ("foo{}", "foo"),
        ("foo{a='b',c=~'d'}", 'foo{a="b",c=~"d"}'),
        ("foo{c=~'d',a='b'}", 'foo{a="b",c=~"d"}'),
        ("fill{inf='1'}", 'fill{inf="1"}'),
        ('{"foo"}', '{__name__="foo"}'),
        ('{"foo.bar","a.b"="c"}', '{"a.b"="c",__name__="foo.bar"}'),
        ('{"b",a="c","d"}', '{__name__="b",__name__="d",a="c"}'),
        ('{__name__="foo"}', '{__name__="foo"}'),
        ("{}", "{}"),
        ('{""}', '{__name__=""}'),
        ('sum by ("inf", "Without", bool) (foo)', 'sum by ("inf", "Without", bool) (foo)'),
        ("a+fill(1e6)b", "a + fill (1e+06) b"),
        ("a+fill_left(-0.00001)b", "a + fill_left (-1e-05) b"),
        ("foo anchored@5 offset 1m", "foo @ 5.000 anchored offset 1m"),
        ("foo[5m]@5 anchored offset 1m", "foo[5m] anchored @ 5.000 offset 1m"),
        ("foo offset 1h@5", "foo @ 5.000 offset 1h"),
        ("foo @ -0.5", "foo @ -0.500"),
        ("foo offset (5m)+1m @ 100", "foo @ 100.000 offset (5m) + 1m"),
        ("foo offset +-5m+3m @ 3", "foo @ 3.000 offset +-5m + 3m"),
        ("foo[5m] smoothed offset (1m)*2 @ 5", "foo[5m] smoothed @ 5.000 offset (1m) * 2"),
        ("foo offset (5m)+1m @ 100 + 2", "foo offset (5m) + 1m @ 100.000 + 2"),
        ("foo[300]@start()offset -1m", "foo[5m] @ start() offset -1m"),
        ("foo[5m:]", "foo[5m:]"),
        ("(foo)[1d:60]@end()", "(foo)[1d:1m] @ end()"),
        ("-foo^2", "-foo ^ 2"),
        ("label_replace(foo,'a','b','c','d')", 'label_replace(foo, "a", "b", "c", "d")'),
    ],
)
def test_a_query_prints_in_one_form(query: str, shown: str) -> None:
    assert show(parse(query)) == shown
    assert show(parse(shown)) == shown


@given(trees)
@settings(max_examples=200, deadline=None)
def test_a_printed_tree_parses_to_the_same_tree(tree: Expr) -> None:
    shown = show(tree)
    again = parse(shown)
    assert again == tree
    assert show(again) == shown

"""A query over several lines, as Prometheus prints it, and that it reads as the same tree again."""

import pytest
from hypothesis import given, settings

from quarterdeck.metrics.promql.syntax.ast import Expr
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.pretty import pretty
from tests.metrics.promql.syntax.trees import trees

CASES = [
    ("a+b", "a + b"),
    ("a == bool 1", "  a\n== bool\n  1"),
    ("a + ignoring(job) b", "  a\n+ ignoring (job)\n  b"),
    ("foo_1 + foo_2 + foo_3", "    foo_1\n  +\n    foo_2\n+\n  foo_3"),
    ("foo + baar + foo_3", "  foo + baar\n+\n  foo_3"),
    ("(foo)", "(foo)"),
    ("((_foo_long_))", "(\n  (\n    _foo_long_\n  )\n)"),
    ("(1111 + 2222)", "(\n    1111\n  +\n    2222\n)"),
    (
        "sum by(job,foo)(sum(long_name{a='b'}) without(foo))",
        'sum by (job, foo) (\n  sum without (foo) (\n    long_name{a="b"}\n  )\n)',
    ),
    ("topk(12345, some_metric)", "topk(\n  12345,\n  some_metric\n)"),
    (
        "histogram_quantile(0.9, rate(foo[1m] @ start()))",
        "histogram_quantile(\n  0.9,\n  rate(\n    foo[1m] @ start()\n  )\n)",
    ),
    ("-rate(long_name[1m])", "-rate(\n  long_name[1m]\n)"),
    ("(-vector_selector)", "(\n  -vector_selector\n)"),
    ("rate(foo[-5m+35m])", "rate(\n  foo[-5m + 35m]\n)"),
    (
        "max_over_time((long_name + b)[1d:5m] offset 1h)",
        "max_over_time(\n  (\n      long_name\n    +\n      b\n  )[1d:5m] offset 1h\n)",
    ),
    ("long_name == 'äöü'", '  long_name\n==\n  "äöü"'),
    ("vector(time()) + b", "  vector(\n    time()\n  )\n+\n  b"),
    ("(1 + Inf) ^ 12345", "  (1 + +Inf)\n^\n  12345"),
    ("Inf[12345m:1m]", "Inf[8d13h45m:1m]"),
]


@pytest.mark.parametrize("query, shown", CASES)
def test_what_is_too_long_for_a_line_is_written_on_several(query: str, shown: str) -> None:
    assert pretty(parse(query), 10) == shown


def test_a_line_has_a_hundred_bytes() -> None:
    fits = f"{'a' * 48} + {'b' * 49}"
    assert pretty(parse(fits)) == fits
    assert pretty(parse(fits + "b")) == f"  {'a' * 48}\n+\n  {'b' * 50}"
    assert pretty(parse(f'a == "{"ä" * 47}"')).count("\n") == 2, "bytes, as Prometheus counts"


@given(trees)
@settings(max_examples=200, deadline=None)
def test_what_is_on_several_lines_is_the_same_query(tree: Expr) -> None:
    for width in (1, 10, 40):
        assert parse(pretty(tree, width)) == tree

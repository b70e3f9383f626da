"""The rule that types fit, with the places and the words of Prometheus."""

import pytest

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.plan.rules.check_types import check_types
from quarterdeck.metrics.promql.syntax.ast import Call
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.types import type_of

_EMPTY = "vector selector must contain at least one non-empty matcher"
_OPERANDS = "binary expression must contain only scalar and instant vector types"


@pytest.mark.parametrize(
    "query, column, reason",
    [
        ("{}", 1, _EMPTY),
        ('{x=""}', 1, _EMPTY),
        ('{""}', 1, _EMPTY),
        ('{x=~".*"}', 1, _EMPTY),
        ('{x!~".+"}', 1, _EMPTY),
        ('{x!="a"}', 1, _EMPTY),
        ('rate({x=""}[5m])', 6, _EMPTY),
        ('-"string"', 1, 'unary expression only allowed on expressions of type scalar or instant vector, got "string"'),
        (
            "-test[5m]",
            1,
            'unary expression only allowed on expressions of type scalar or instant vector, got "range vector"',
        ),
        ("1 == 1", 3, "comparisons between scalars must use BOOL modifier"),
        ("(1) < (2)", 5, "comparisons between scalars must use BOOL modifier"),
        ("foo + bool bar", 5, "bool modifier can only be used on comparison operators"),
        ("foo and bool 10", 5, "bool modifier can only be used on comparison operators"),
        ("1 # comment\t== 1\n > 2", 3, "comparisons between scalars must use BOOL modifier"),
        ("foo anchored + bool bar", 5, "bool modifier can only be used on comparison operators"),
        ('foo{__name__="bar"}', 1, 'metric name must not be set twice: "foo" or "bar"'),
        ('rate(foo{"bar", "baz"}[5m])', 6, 'metric name must not be set twice: "foo" or "bar"'),
        ('foo{__name__=~".*"}', 1, 'metric name must not be set twice: "foo" or ".*"'),
        ("1 and 1", 1, 'set operator "and" not allowed in binary scalar expression'),
        ("foo or 1", 1, 'set operator "or" not allowed in binary scalar expression'),
        ("1 unless foo", 1, 'set operator "unless" not allowed in binary scalar expression'),
        ("1 or on(bar) foo", 1, "vector matching only allowed between instant vectors"),
        ("foo == on(bar) 10", 1, "vector matching only allowed between instant vectors"),
        ("foo + fill(1) 10", 1, "filling in missing series only allowed between instant vectors"),
        ("foo and fill(1) bar", 1, "filling in missing series not allowed for set operators"),
        ("foo and on(bar) group_left(baz) bar", 1, 'no grouping allowed for "and" operation'),
        ("foo or on(bar) group_right(baz) bar", 1, 'no grouping allowed for "or" operation'),
        ("a + on(x) group_left(y, x) b", 3, 'label "x" must not occur in ON and GROUP clause at once'),
        ('foo + "bar"', 7, _OPERANDS),
        ("foo[5m] + bar", 1, _OPERANDS),
        ("1[5m:]", 1, "subquery is only allowed on instant vector, got scalar instead"),
        ("foo[5d] OFFSET 10s [10m:5s]", 1, "subquery is only allowed on instant vector, got matrix instead"),
        ("floor()", 1, 'expected 1 argument(s) in call to "floor", got 0'),
        ("floor(a, b)", 1, 'expected 1 argument(s) in call to "floor", got 2'),
        ("time(foo)", 1, 'expected 0 argument(s) in call to "time", got 1'),
        ("hour(a, a, a)", 1, 'expected at most 1 argument(s) in call to "hour", got 3'),
        ("round()", 1, 'expected at least 1 argument(s) in call to "round", got 0'),
        ('label_join(foo, "a")', 1, 'expected at least 3 argument(s) in call to "label_join", got 2'),
        ('histogram_quantiles(a, "b")', 1, 'expected at least 3 argument(s) in call to "histogram_quantiles", got 2'),
        ("floor(1)", 7, 'expected type instant vector in call to function "floor", got scalar'),
        ("rate(foo)", 6, 'expected type range vector in call to function "rate", got instant vector'),
        ("abs(foo[5m])", 5, 'expected type instant vector in call to function "abs", got range vector'),
        ('label_join(foo, "a", "b", 1)', 27, 'expected type string in call to function "label_join", got scalar'),
        ("sum(1)", 5, "expected type instant vector in aggregation expression, got scalar"),
        ("topk(foo, bar)", 6, "expected type scalar in aggregation parameter, got instant vector"),
        ("count_values(5, foo)", 14, "expected type string in aggregation parameter, got scalar"),
        ("info(foo, bar)", 11, "expected label selectors only, got vector selector instead"),
        ("info(foo, abs(bar))", 11, "expected label selectors only"),
        ("info({}, bar)", 10, "expected label selectors only, got vector selector instead"),
        ("info(1, 2)", 1, 'expected type instant vector in call to function "info", got scalar'),
        ("info(1, {})", 6, 'expected type instant vector in call to function "info", got scalar'),
        ("info(foo, abs(1))", 11, "expected label selectors only"),
        ("info(foo, 1)", 1, 'expected type instant vector in call to function "info", got scalar'),
    ],
)
def test_types_that_do_not_fit_are_refused_at_their_place(query: str, column: int, reason: str) -> None:
    tree = parse(query)
    with pytest.raises(ParseError) as caught:
        check_types(tree, query)
    assert caught.value.reason == f"1:{column}: parse error: {reason}"


@pytest.mark.parametrize(
    "query, type_shown",
    [
        ("1 == bool 1", "scalar"),
        ("1 + -(2)", "scalar"),
        ("foo == 1", "instant vector"),
        ("2 atan2 foo", "instant vector"),
        ('"a"', "string"),
        ('("a")', "string"),
        ("foo[5m]", "range vector"),
        ("rate(foo[5m])[5m:]", "range vector"),
        ("scalar(foo)", "scalar"),
        ("vector(1) and on(a) foo", "instant vector"),
        ("1 + on() group_left foo", "instant vector"),
        ("a + ignoring(x) group_left(x) b", "instant vector"),
        ("hour()", "instant vector"),
        ("round(foo, 5)", "instant vector"),
        ('label_join(foo, "a", ",")', "instant vector"),
        ('sort_by_label(foo, "a", "b")', "instant vector"),
        ('count_values("a", foo)', "instant vector"),
        ("info(foo)", "instant vector"),
        ("info(foo, {})", "instant vector"),
        ('info(foo, {"bar"})', "instant vector"),
        ('{"", a="b"}', "instant vector"),
        ('{x=~".+"}', "instant vector"),
    ],
)
def test_types_that_fit_pass(query: str, type_shown: str) -> None:
    tree = parse(query)
    check_types(tree, query)
    assert type_of(tree).shown == type_shown


def test_a_call_that_the_parser_did_not_make_is_checked_for_its_function_too() -> None:
    with pytest.raises(ParseError, match='unknown function with name "nothing"'):
        check_types(Call("nothing", ()), "")

"""Queries made to hurt: all are answered at once, and none exhausts Python's stack."""

import inspect
import sys
import time
from collections.abc import Iterator

import pytest

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.plan.rules.check_types import check_types
from quarterdeck.metrics.promql.plan.rules.resolve_durations import resolve_durations
from quarterdeck.metrics.promql.syntax.cursor import MAX_NESTING
from quarterdeck.metrics.promql.syntax.parser import MAX_HEIGHT, MAX_LENGTH, parse
from quarterdeck.metrics.promql.syntax.printer import show
from quarterdeck.metrics.promql.syntax.types import type_of

_NESTED = f"the query is nested deeper than {MAX_NESTING} levels"
_TALL = f"the query has more than {MAX_HEIGHT} levels of operators and functions"


@pytest.mark.parametrize(
    "query, place, reason",
    [
        ("(" * 10_000 + "1" + ")" * 10_000, "1:101", _NESTED),
        ("(" * 10_000, "1:101", _NESTED),
        ("abs(" * 10_000, "1:401", _NESTED),
        ("sum(" * 10_000, "1:401", _NESTED),
        ("foo[" + "min_of(" * 10_000, "1:355", "a duration has at most 50 parts"),
        ("2^" * 10_000 + "2", "1:201", _NESTED),
        ("-" * 10_000, "1:10001", "unexpected end of input"),
        ("-" * 10_000 + "foo", "1:9801", _TALL),
        ("+".join(["1"] * 10_000), "1:1", _TALL),
        ("foo" + "[5m:]" * 10_000, "1:1", _TALL),
        ("{" * 10_000, "1:2", "unexpected left brace '{'"),
        ("9" * 1000 + "s", "1:1", f'not a valid duration string: "{"9" * 1000}s"'),
        ("x" * 1_000_000, "1:1", f"the query has 1000000 characters, and at most {MAX_LENGTH} are allowed"),
        ('{a=~"(a{1000}){100}"}', "1:2", "error parsing regexp: invalid repeat count: `{100}`"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_an_outrageous_query_is_refused_at_once(query: str, place: str, reason: str) -> None:
    started = time.process_time()
    with pytest.raises(ParseError) as caught:
        parse(query)
    assert caught.value.reason == f"{place}: parse error: {reason}"
    assert len(str(caught.value)) < 2000
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "query",
    [
        "-" * 20_000 + "1",
        "foo" + " offset 0" * 10_000,
        "label_join(a" + ',"z"' * 5_000 + ")",
        "sum by (" + "a," * 10_000 + ") (foo)",
        "{" + 'a="b",' * 5_000 + "}",
        '"' + "\\x41" * 30_000 + '"',
        "# comment\n" * 10_000 + "1",
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_long_query_is_understood_within_a_second(query: str) -> None:
    started = time.process_time()
    check_types(parse(query), query)
    assert time.process_time() - started < 1


@pytest.fixture
def little_stack() -> Iterator[None]:
    """Python's stack as a server leaves it: 250 frames are in use before a query comes."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 750)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "query",
    [
        "(" * (MAX_NESTING - 1) + "1" + ")" * (MAX_NESTING - 1),
        "abs(" * (MAX_NESTING - 1) + "foo" + ")" * (MAX_NESTING - 1),
        "sum(" * (MAX_NESTING - 1) + "foo" + ")" * (MAX_NESTING - 1),
        "^".join(["2"] * MAX_NESTING),
        "+".join(["foo"] * MAX_HEIGHT),
        "-" * (MAX_HEIGHT - 1) + "foo",
        "abs(" * 48 + "rate(foo[" + "-(" * 24 + "step()" + ")" * 24 + "])" + ")" * 48,
        "abs(" * 98 + "+".join(["foo"] * 101) + ")" * 98,
    ],
    ids=lambda value: str(value)[:12],
)
@pytest.mark.usefixtures("little_stack")
def test_the_tallest_query_is_checked_printed_and_compared_within_the_stack(query: str) -> None:
    tree = parse(query)
    check_types(tree, query)
    assert type_of(tree).shown in ("scalar", "instant vector")
    assert parse(show(tree)) == tree
    assert hash(tree) == hash(parse(query))
    resolve_durations(tree, query, 0, 1000)

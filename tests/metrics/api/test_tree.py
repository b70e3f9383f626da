"""The syntax tree as `parse_query` tells it: each kind of node, with the names that Prometheus' own page reads."""

from typing import Any

import pytest
from hypothesis import given, settings

from quarterdeck.metrics.api.json_text import json_bytes
from quarterdeck.metrics.api.tree import tree_document
from quarterdeck.metrics.promql.syntax.ast import Expr
from quarterdeck.metrics.promql.syntax.parser import parse
from tests.metrics.promql.syntax.trees import trees


def tree(query: str) -> Any:
    return tree_document(parse(query))


def selector(name: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "vectorSelector",
        "name": name,
        "offset": 0,
        "matchers": [{"name": "__name__", "value": name, "type": "="}],
        "timestamp": None,
        "startOrEnd": None,
        "anchored": False,
        "smoothed": False,
        **more,
    }


def number(val: str) -> dict[str, Any]:
    return {"type": "numberLiteral", "val": val}


@pytest.mark.parametrize(
    "query, val",
    [("1", "1"), ("1e20", "100000000000000000000"), ("-0.5", "-0.5"), ("5m", "300"), ("inf", "+Inf"), ("NaN", "NaN")],
)
def test_a_number_is_written_without_an_exponent(query: str, val: str) -> None:
    assert tree(query) == number(val)


def test_a_string() -> None:
    assert tree(r'"a\"b"') == {"type": "stringLiteral", "val": 'a"b'}


def test_a_parenthesis() -> None:
    assert tree("(a)") == {"type": "parenExpr", "expr": selector("a")}


@pytest.mark.parametrize("op", ["-", "+"])
def test_a_sign(op: str) -> None:
    assert tree(f"{op}a") == {"type": "unaryExpr", "op": op, "expr": selector("a")}


def test_a_selector_with_all_it_may_have() -> None:
    matchers = [
        {"name": "b", "value": "1", "type": "="},
        {"name": "c", "value": "2", "type": "!="},
        {"name": "d", "value": "3.*", "type": "=~"},
        {"name": "e", "value": "4|5", "type": "!~"},
        {"name": "__name__", "value": "a", "type": "="},
    ]
    query = 'a{b="1",c!="2",d=~"3.*",e!~"4|5"} @ 1.5 offset 1h'
    assert tree(query) == selector("a", matchers=matchers, timestamp=1500, offset=3_600_000)
    assert tree("a @ start() offset -1m") == selector("a", startOrEnd="start", offset=-60_000)
    assert tree("a @ end()") == selector("a", startOrEnd="end")
    assert tree("a smoothed") == selector("a", smoothed=True)


def test_a_name_within_the_braces_is_a_matcher_and_no_name() -> None:
    told = tree('{"a.b"}')
    assert told["name"] == ""
    assert told["matchers"] == [{"name": "__name__", "value": "a.b", "type": "="}]


def test_a_range() -> None:
    plain = selector("a", type="matrixSelector")
    assert tree("a[5m]") == {**plain, "range": 300_000}
    assert tree("a[5m] anchored @ 2 offset 1s") == {
        **plain,
        "range": 300_000,
        "offset": 1000,
        "timestamp": 2000,
        "anchored": True,
    }
    assert tree("a[step() * 2]")["range"] == 0, "it is worked out when the query's times are known"


def test_a_subquery() -> None:
    told = {
        "type": "subquery",
        "expr": selector("a"),
        "range": 3_600_000,
        "offset": 0,
        "step": 0,
        "timestamp": None,
        "startOrEnd": None,
    }
    assert tree("a[1h:]") == told
    assert tree("a[1h:1m] @ end() offset 5m") == {**told, "step": 60_000, "offset": 300_000, "startOrEnd": "end"}
    assert tree("a[1h:] @ 3")["timestamp"] == 3000


def test_an_aggregation() -> None:
    told: dict[str, Any] = {
        "type": "aggregation",
        "op": "sum",
        "expr": selector("a"),
        "param": None,
        "grouping": [],
        "without": False,
    }
    assert tree("sum(a)") == told
    assert tree("sum by (b, c) (a)") == {**told, "grouping": ["b", "c"]}
    assert tree("topk without (b) (5, a)") == {
        **told,
        "op": "topk",
        "param": number("5"),
        "grouping": ["b"],
        "without": True,
    }


def test_a_call_tells_the_functions_signature() -> None:
    assert tree("rate(a[5m])") == {
        "type": "call",
        "func": {"name": "rate", "argTypes": ["matrix"], "variadic": 0, "returnType": "vector"},
        "args": [{**selector("a", type="matrixSelector"), "range": 300_000}],
    }
    assert tree("time()") == {
        "type": "call",
        "func": {"name": "time", "argTypes": [], "variadic": 0, "returnType": "scalar"},
        "args": [],
    }
    assert tree("label_join(a, 'b', ',')")["func"] == {
        "name": "label_join",
        "argTypes": ["vector", "string", "string", "string"],
        "variadic": -1,
        "returnType": "vector",
    }


def test_an_operator_between_two_vectors_tells_how_they_match() -> None:
    matching: dict[str, Any] = {
        "card": "one-to-one",
        "labels": [],
        "on": False,
        "include": [],
        "fillValues": {"lhs": None, "rhs": None},
    }
    told: dict[str, Any] = {
        "type": "binaryExpr",
        "op": "/",
        "lhs": selector("a"),
        "rhs": selector("b"),
        "matching": matching,
        "bool": False,
    }
    assert tree("a / b") == told
    assert tree("a >= bool b") == {**told, "op": ">=", "bool": True}
    assert tree("a and b") == {**told, "op": "and", "matching": {**matching, "card": "many-to-many"}}
    assert tree("a / on (c) group_left (d) b")["matching"] == {
        **matching,
        "card": "many-to-one",
        "labels": ["c"],
        "on": True,
        "include": ["d"],
    }
    assert tree("a / ignoring (c) group_right b")["matching"] == {**matching, "card": "one-to-many", "labels": ["c"]}
    assert tree("a / fill_left (1.5) fill_right (Inf) b")["matching"]["fillValues"] == {"lhs": 1.5, "rhs": "+Inf"}


def test_an_operator_beside_a_scalar_has_no_matching() -> None:
    assert tree("1 + a") == {
        "type": "binaryExpr",
        "op": "+",
        "lhs": number("1"),
        "rhs": selector("a"),
        "matching": None,
        "bool": False,
    }
    assert tree("1 + on () a")["matching"] is None


@given(trees)
@settings(max_examples=200, deadline=None)
def test_every_tree_can_be_told(expr: Expr) -> None:
    assert json_bytes(tree_document(expr))

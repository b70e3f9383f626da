"""Metrics, tags and their values for who builds a query, and what is said about the text of one."""

from typing import Any

import pytest

from tests.metrics.routes.asking import Asker
from tests.metrics.routes.samples import END_S, START_S

pytestmark = pytest.mark.xdist_group("metrics-routes")

METADATA = "/api/v1/metrics/metadata"
TAGS = "/api/v1/metrics/tags"
VALUES = "/api/v1/metrics/tagvalues"
VALIDATE = "/api/v1/promql/validate"


def test_metrics_are_told_with_what_is_known_about_their_family(asker: Asker) -> None:
    told = {metric["metric"]: metric for metric in asker.post_json(METADATA, {}).data}
    assert told["http_requests_total"] == {
        "metric": "http_requests_total",
        "type": "counter",
        "help": "Requests that were answered.",
        "unit": "",
    }
    assert (told["memory_bytes"]["type"], told["memory_bytes"]["unit"]) == ("gauge", "bytes")
    assert "secret" not in told
    (theirs,) = asker.get(METADATA, X_Scope_OrgID="acme").data
    assert theirs["metric"] == "secret"


def test_times_and_a_selector_narrow_what_is_told(asker: Asker) -> None:
    before = {"e": START_S * 1000 - 1}
    assert [one["metric"] for one in asker.post_json(METADATA, before).data] == ["load"]
    assert asker.post_json(TAGS, before).data == ["__name__", "host"]
    assert asker.post_json(TAGS, {"q": "memory_bytes"}).data == ["__name__", "job"]
    assert asker.post_json(TAGS, {"s": (END_S + 1) * 1000}).data == []
    assert asker.post_json(VALUES, {"tag": "job", "q": 'http_requests_total{job=~"w.+"}'}).data == ["web"]
    assert asker.post_json(VALUES, {"tag": "job", "s": "now-1h", "e": "now"}).data == []


def test_the_same_may_be_asked_in_the_address(asker: Asker) -> None:
    assert asker.get(VALUES, {"tag": "job"}).data == ["api", "web"]
    assert asker.get(TAGS, {"q": "memory_bytes", "s": "2023-11-14T22:13:20Z"}).data == ["__name__", "job"]
    cut = asker.get(VALUES, {"tag": "job", "limit": 1}).json
    assert (cut["data"], cut["warnings"]) == (["api"], ["results truncated due to limit"])
    assert len(asker.post_json(METADATA, {"limit": 2}).data) == 2


def test_curl_calls_a_body_a_form_and_is_understood(asker: Asker) -> None:
    called = {"content-type": "application/x-www-form-urlencoded"}
    assert asker.ask("POST", VALUES, b'{"tag": "job"}', called).data == ["api", "web"]
    assert asker.post(VALUES, {"tag": "job"}).data == ["api", "web"]


@pytest.mark.parametrize(
    "path, members, text",
    [
        (VALUES, {}, "no tag provided"),
        (VALUES, {"tag": 1}, 'invalid parameter "tag": it is not text'),
        (TAGS, {"q": "up["}, 'invalid parameter "q": 1:3: parse error: '),
        (TAGS, {"q": "{}"}, 'invalid parameter "q": it must contain at least one non-empty matcher'),
        (TAGS, {"s": "x"}, 'invalid parameter "s": cannot parse "x" to a valid timestamp'),
        (TAGS, {"s": 2, "e": 1}, 'invalid parameter "e": end timestamp must not be before start time'),
        (METADATA, {"limit": -1}, 'invalid parameter "limit": limit must be non-negative'),
        (METADATA, [], "the body is no JSON object"),
        (VALIDATE, {}, "no query provided"),
    ],
)
def test_what_makes_no_sense_is_bad_data(asker: Asker, path: str, members: object, text: str) -> None:
    status, kind, told = asker.post_json(path, members).error
    assert (status, kind, told[: len(text)]) == (400, "bad_data", text)


# The text of a query


def test_a_query_is_valid_and_has_leaves(asker: Asker) -> None:
    told = asker.post_json(VALIDATE, {"q": "sum by(job)(rate(a[5m]))/ b"}).data
    leaves: list[dict[str, Any]] = told.pop("leaves")
    assert told == {"valid": True, "type": "vector", "query": "sum by (job) (rate(a[5m])) / b"}
    assert [(leaf["text"], leaf["merge"]) for leaf in leaves] == [
        ("sum by (job) of rate of a[5m]", "combine"),
        ("b", "union"),
    ]
    assert len({leaf["id"] for leaf in leaves}) == 2
    again = asker.post_json(VALIDATE, {"q": "b"}).data["leaves"]
    assert again == leaves[1:], "equal leaves of different queries have one id"


@pytest.mark.parametrize("name", ["q", "query", "exp"])
def test_the_query_has_several_names(asker: Asker, name: str) -> None:
    assert asker.post_json(VALIDATE, {name: "1"}).data["type"] == "scalar"
    assert asker.get(VALIDATE, {name: "1"}).data["type"] == "scalar"


def test_what_is_no_query_is_told_with_its_place(asker: Asker) -> None:
    assert asker.post_json(VALIDATE, {"q": "1 +\n  rate(a)"}).data == {
        "valid": False,
        "error": '2:8: parse error: expected type range vector in call to function "rate", got instant vector',
        "line": 2,
        "column": 8,
    }
    assert asker.post_json(VALIDATE, {"q": ""}).data["valid"] is False


def test_a_query_is_formatted(asker: Asker) -> None:
    asked = {"query": "sum(rate(a{b='c'}[300]))by(job)"}
    assert asker.get("/api/v1/format_query", asked).data == 'sum by (job) (rate(a{b="c"}[5m]))'
    assert asker.post("/api/v1/format_query", asked).data == 'sum by (job) (rate(a{b="c"}[5m]))'


def test_a_long_query_is_formatted_over_several_lines(asker: Asker) -> None:
    name = "a_name_that_is_so_long_that_two_of_them_do_not_fit_into_a_line"
    shown = f"sum by (job) (\n    {name}\n  +\n    {name}\n)"
    assert asker.get("/api/v1/format_query", {"query": f"sum by(job)({name}+{name})"}).data == shown


def test_a_query_is_told_as_a_tree(asker: Asker) -> None:
    asked = {"query": "-(1)"}
    told = {"type": "parenExpr", "expr": {"type": "numberLiteral", "val": "1"}}
    for answer in (asker.get("/api/v1/parse_query", asked), asker.post("/api/v1/parse_query", asked)):
        assert answer.data == {"type": "unaryExpr", "op": "-", "expr": told}
    high = " + ".join(["a"] * 199)
    assert asker.post("/api/v1/parse_query", {"query": high}).data["type"] == "binaryExpr"


@pytest.mark.parametrize("path", ["format_query", "parse_query"])
def test_what_makes_no_sense_is_neither_formatted_nor_told_as_a_tree(asker: Asker, path: str) -> None:
    for query, place in (("", "unknown position"), ("sum(", "1:5"), ("rate(a)", "1:6"), ("a{}[1m] and 1", "1:1")):
        status, kind, text = asker.get(f"/api/v1/{path}", {"query": query}).error
        assert (status, kind) == (400, "bad_data")
        assert text.startswith(f'invalid parameter "query": {place}: parse error: ')

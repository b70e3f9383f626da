"""`/docs` tells what may be asked, although the handlers read the raw form."""

from typing import Any

import pytest

from tests.metrics.routes.asking import Asker

pytestmark = pytest.mark.xdist_group("metrics-routes")

NOTHING_TO_ASK = {
    "/api/v1/rules",
    "/api/v1/alerts",
    "/api/v1/alertmanagers",
    "/api/v1/scrape_pools",
    "/api/v1/status/buildinfo",
    "/api/v1/status/config",
    "/api/v1/status/flags",
    "/api/v1/status/runtimeinfo",
    "/api/v1/targets",
    "/api/v1/targets/metadata",
}
EITHER = {
    *("query", "query_range", "series", "labels", "format_query", "parse_query", "promql/validate"),
    *("metrics/ranges", "metrics/selected"),
}
TAGS = {"metrics/metadata", "metrics/tags", "metrics/tagvalues"}


@pytest.fixture
def paths(asker: Asker) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = asker.get("/openapi.json").json["paths"]
    return {path: methods for path, methods in found.items() if path.startswith("/api/v1/")}


def names(operation: dict[str, Any]) -> set[str]:
    return {parameter["name"] for parameter in operation["parameters"]} - {"X-Scope-OrgID"}


def fields(operation: dict[str, Any]) -> tuple[str, set[str]]:
    ((content_type, body),) = operation["requestBody"]["content"].items()
    return content_type, set(body["schema"]["properties"])


def test_every_path_of_metrics_says_what_it_takes_and_what_it_gives(paths: dict[str, dict[str, Any]]) -> None:
    assert len(paths) == 26
    for path, methods in paths.items():
        for method, operation in methods.items():
            assert operation["description"], path
            assert operation["responses"]["200"]["content"], path
            assert "application/json" in operation["responses"]["400"]["content"], path
            if path not in {*NOTHING_TO_ASK, "/api/v1/query_exemplars"}:
                assert names(operation) if method == "get" else fields(operation), path


def test_the_address_and_the_body_take_the_same(paths: dict[str, dict[str, Any]]) -> None:
    for path in EITHER | TAGS:
        methods = paths[f"/api/v1/{path}"]
        is_json = path in TAGS or path == "promql/validate"
        content_type = "application/json" if is_json else "application/x-www-form-urlencoded"
        assert fields(methods["post"]) == (content_type, names(methods["get"]))


def test_a_range_query_has_its_parameters(paths: dict[str, dict[str, Any]]) -> None:
    operation = paths["/api/v1/query_range"]["get"]
    conditions = {"limit", "timeout", "lookback_delta", "partial", "explain"}
    assert names(operation) == {"query", "start", "end", "step"} | conditions
    required = {one["name"] for one in operation["parameters"] if one["required"]}
    assert required == {"query", "start", "end", "step"}


def test_the_stream_tells_its_frames(paths: dict[str, dict[str, Any]]) -> None:
    operation = paths["/api/v1/metrics/query"]["post"]
    assert fields(operation) == ("application/json", {"q", "s", "e", "summary"})
    assert names(operation) == {"timeout", "lookback_delta", "partial", "explain"}
    assert list(operation["responses"]["200"]["content"]) == ["text/event-stream"]


def test_the_page_is_there(asker: Asker) -> None:
    assert asker.get("/docs").status == 200

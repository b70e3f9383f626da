"""`explain=analyze`: how an answer came about, in numbers that fit together."""

from typing import Any

import pytest

from tests.metrics.routes.asking import Asker
from tests.metrics.routes.samples import END_S, START_S, STEPS

pytestmark = pytest.mark.xdist_group("metrics-routes")

TOLD = [
    "query_id",
    "plan",
    "total_ms",
    "phases",
    "segments",
    "leaves",
    "samples",
    "series",
    "bytes_fetched",
    "peak_memory_bytes",
]
PHASES = ["queued_ms", "planning_ms", "executing_ms", "fetching_ms", "evaluating_ms"]
ASKED = {
    "query": "sum by (job) (http_requests_total) / on (job) memory_bytes",
    "start": START_S,
    "end": END_S,
    "step": 15,
}


@pytest.fixture
def told(asker: Asker) -> Any:
    answer = asker.get("/api/v1/query_range", ASKED | {"explain": "analyze"})
    data = answer.data
    explained = data.pop("explain")
    assert data == asker.get("/api/v1/query_range", ASKED).data
    assert explained["query_id"] == answer.headers["x-query-id"]
    return explained


def test_who_does_not_ask_is_not_told(asker: Asker) -> None:
    assert list(asker.get("/api/v1/query_range", ASKED).data) == ["resultType", "result"]


def test_all_that_is_documented_is_told(told: Any) -> None:
    assert list(told) == TOLD
    assert list(told["phases"]) == PHASES
    assert list(told["segments"]) == ["known", "pruned", "read", "unreadable"]
    assert [list(leaf) for leaf in told["leaves"]] == [["id", "text", "merge", "segments", "works"]] * 2
    assert [(leaf["text"], leaf["merge"]) for leaf in told["leaves"]] == [
        ("sum by (job) of http_requests_total", "combine"),
        ("memory_bytes", "union"),
    ]
    assert told["plan"].startswith("41 steps of 15s\n/ on (job)\n")


def test_the_phases_are_within_the_whole(told: Any) -> None:
    phases = told["phases"]
    in_turn = (phases[name] for name in ("queued_ms", "planning_ms", "executing_ms", "evaluating_ms"))
    assert sum(in_turn) <= told["total_ms"]
    for attempt in (attempt for leaf in told["leaves"] for work in leaf["works"] for attempt in work["attempts"]):
        assert 0 <= attempt["assigned_ms"] <= attempt["ready_ms"] <= attempt["fetched_ms"] <= told["total_ms"]
        assert (attempt["worker_id"], attempt["outcome"], attempt["error"]) == ("w1", "done", None)


def test_the_works_add_up_to_the_whole(told: Any) -> None:
    works = [work for leaf in told["leaves"] for work in leaf["works"]]
    reports = [work["report"] for work in works]
    assert told["samples"] == sum(report["samples"] for report in reports) == (4 + 2) * STEPS
    assert told["series"] == sum(report["series"] for report in reports) == 4 + 2
    assert told["bytes_fetched"] == sum(work["artifact_bytes"] for work in works) > 0
    assert told["segments"]["read"] == sum(leaf["segments"]["read"] for leaf in told["leaves"])
    assert told["segments"]["unreadable"] == 0
    for leaf in told["leaves"]:
        assert leaf["segments"]["read"] + leaf["segments"]["pruned"] == told["segments"]["known"]

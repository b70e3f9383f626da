"""`POST /api/v1/metrics/query`: results as server-sent events, an end that says how it went, and clients that go."""

import json
import time
from urllib.parse import urlencode

import pytest

from tests.e2e.crew import until
from tests.e2e.logs import at_s
from tests.metrics.routes.asking import Asker, frames_of
from tests.metrics.routes.conftest import Stage
from tests.metrics.routes.samples import END_S, HEAVY, START_S, STEPS, TORN_SERIES

pytestmark = pytest.mark.xdist_group("metrics-routes")

STREAM = "/api/v1/metrics/query"
SPAN = {"s": START_S * 1000, "e": END_S * 1000}
HEAVY_RANGE = {"q": HEAVY, "s": END_S * 1000, "e": (END_S + 3600) * 1000}
HEAVY_FORM = {"query": HEAVY, "start": END_S, "end": END_S + 3600, "step": 10}
LATE_S = 1.0
"""After which a query that was canceled has stopped: a twentieth of it on a machine with nothing else to do."""


def test_results_come_by_rising_time_and_then_the_end(asker: Asker) -> None:
    answer = asker.post_json(STREAM, {"q": "sum by (job) (http_requests_total)", **SPAN})
    assert {name: answer.headers[name] for name in ("content-type", "cache-control", "x-accel-buffering")} == {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
    }
    *results, end = answer.frames
    times = range(START_S * 1000, END_S * 1000 + 1, 10_000)
    factors = {"api": 3, "web": 7}
    assert results == [
        {
            "type": "result",
            "data": {
                "tags": {"job": job},
                "value": (time_ms - START_S * 1000) // 15_000 * factor,
                "timestamp": time_ms,
                "label": f'{{job="{job}"}}',
            },
        }
        for time_ms in times
        for job, factor in factors.items()
    ]
    assert end["type"] == "done"
    assert end["data"]["status"] == "ok"
    assert asker.door.get(f"/v1/queries/{end['data']['query_id']}")["state"] == "succeeded"


def test_a_summary_has_one_frame_for_each_series(asker: Asker) -> None:
    first, second, end = asker.post_json(STREAM, {"q": "memory_bytes", "summary": True, **SPAN}).frames
    assert first["type"] == second["type"] == "summary"
    assert first["data"]["label"] == 'memory_bytes{job="api"}'
    assert (first["data"]["count"], first["data"]["min"], first["data"]["max"]) == (61, 0, STEPS - 1)
    assert end["data"]["status"] == "ok"


def test_what_is_to_be_known_stands_in_the_last_frame(asker: Asker) -> None:
    *_, end = asker.post_json(STREAM, {"q": "rate(memory_bytes[1m])", **SPAN}).frames
    assert [text.rpartition(" ")[2] for text in end["data"]["infos"]] == ["(1:6)"]
    *_, end = asker.post_json(f"{STREAM}?explain=analyze", {"q": "memory_bytes", **SPAN}).frames
    assert end["data"]["explain"]["samples"] == 2 * STEPS


def test_a_tenant_streams_only_what_is_its_own(asker: Asker) -> None:
    (end,) = asker.post_json(STREAM, {"q": "memory_bytes", **SPAN}, X_Scope_OrgID="acme").frames
    assert end["data"]["status"] == "ok"


@pytest.mark.parametrize(
    "body, status, text",
    [
        (b"", 400, "the body is no JSON object"),
        (b"[]", 400, "the body is no JSON object"),
        (b"{}", 400, 'invalid parameter "query": unknown position: parse error: no expression found in input'),
        (b'{"q": "sum("}', 400, 'invalid parameter "query": 1:5: parse error: '),
        (b'{"q": "up[5m]"}', 400, 'invalid parameter "query": invalid expression type'),
        (b'{"q": "up", "s": "now+1h"}', 400, 'invalid parameter "e": end timestamp must not be before start time'),
        (b'{"q": "up", "s": 0, "e": 1e14}', 400, "exceeded maximum resolution of 11,000 points"),
    ],
)
def test_a_request_that_makes_no_sense_is_no_stream(asker: Asker, body: bytes, status: int, text: str) -> None:
    told = asker.ask("POST", STREAM, body, {}).error
    assert (told[0], told[1], told[2][: len(text)]) == (status, "bad_data", text)


def test_an_error_of_the_query_is_its_last_frame(asker: Asker) -> None:
    *_, end = asker.post_json(STREAM, {"q": "http_requests_total / on (job) http_requests_total", **SPAN}).frames
    assert (end["data"]["status"], end["data"]["errorType"]) == ("error", "execution")
    assert end["data"]["error"].startswith("found duplicate series for the match group")


def test_two_series_that_are_shown_alike_are_an_error_and_not_two_results(asker: Asker) -> None:
    (end,) = asker.post_json(STREAM, {"q": "rate({__name__=~'twin_.'}[1m])", **SPAN}).frames
    assert (end["data"]["status"], end["data"]["errorType"]) == ("error", "execution")
    assert end["data"]["error"] == "vector cannot contain metrics with the same labelset"


def test_a_lost_segment_ends_a_stream_unless_that_is_allowed(asker: Asker, stage: Stage) -> None:
    asked = {"q": "count(torn)", "s": START_S * 1000, "e": START_S * 1000}
    (end,) = asker.post_json(STREAM, asked).frames
    assert end["data"]["errorType"] == "execution"
    assert stage.lost.name in end["data"]["error"]
    result, end = asker.post_json(f"{STREAM}?partial=allow", asked).frames
    assert 0 < result["data"]["value"] < TORN_SERIES
    assert end["data"]["status"] == "ok"
    assert stage.lost.name in end["data"]["warnings"][0]


def test_a_stream_that_takes_too_long_ends_with_a_timeout(asker: Asker) -> None:
    (end,) = asker.post_json(f"{STREAM}?timeout=1ms", HEAVY_RANGE).frames
    assert (end["data"]["status"], end["data"]["errorType"]) == ("error", "timeout")


@pytest.mark.parametrize("path", [STREAM, "/api/v1/query_range"])
def test_a_client_that_goes_cancels_its_query_on_the_worker(asker: Asker, stage: Stage, path: str) -> None:
    coordinator, worker = stage.coordinator, stage.worker
    until(lambda: not coordinator.running() and not worker.busy, "all is quiet")
    body = json.dumps(HEAVY_RANGE).encode() if path == STREAM else urlencode(HEAVY_FORM).encode()
    headers = {} if path == STREAM else {"content-type": "application/x-www-form-urlencoded"}
    with asker.asked("POST", path, body, headers):
        until(lambda: worker.busy, "the worker works")
        (running,) = coordinator.running()
        gone_s = time.time()
    until(lambda: not worker.busy, "the worker has stopped")
    told = coordinator.query(running["query_id"])
    assert (told["state"], told["delivered"]) == ("canceled", 0)
    (ended,) = coordinator.log.find("query ended", query_id=running["query_id"])
    stopped = worker.log.find("work stopped", query_id=running["query_id"])
    assert stopped
    assert max(at_s(record) for record in (ended, *stopped)) - gone_s < LATE_S


def test_a_whole_stream_is_nothing_but_frames_and_ends_once(asker: Asker) -> None:
    answer = asker.post_json(STREAM, {"q": "http_requests_total", **SPAN})
    frames = frames_of(answer.body)
    assert [frame["type"] for frame in frames] == ["result"] * (4 * 61) + ["done"]

"""What is wrong is told in Prometheus' form, with its statuses."""

import pytest

from tests.metrics.routes.asking import Asker, Form
from tests.metrics.routes.conftest import Stage
from tests.metrics.routes.samples import END_S, HEAVY, START_S, TORN_SERIES

pytestmark = pytest.mark.xdist_group("metrics-routes")

TORN = {"query": "count(torn)", "time": START_S}
NO_QUERY = 'invalid parameter "query": unknown position: parse error: no expression found in input'


@pytest.mark.parametrize(
    "path, form, text",
    [
        ("query", {}, NO_QUERY),
        ("query", {"query": "sum("}, 'invalid parameter "query": 1:5: parse error: '),
        ("query", {"query": "1", "time": "yesterday"}, "invalid parameter \"time\": invalid time value for 'time': "),
        ("query", {"query": "1", "limit": "-1"}, 'invalid parameter "limit": limit must be non-negative'),
        ("query", {"query": "1", "timeout": "soon"}, 'invalid parameter "timeout": cannot parse "soon"'),
        ("query", {"query": "1", "partial": "maybe"}, 'invalid parameter "partial": it is "maybe", and may be'),
        ("query_range", {"query": "1"}, 'invalid parameter "start": cannot parse "" to a valid timestamp'),
        ("query_range", {"query": "1", "start": 1, "end": 0, "step": 1}, 'invalid parameter "end": end timestamp'),
        ("query_range", {"query": "1", "start": 0, "end": 1, "step": 0}, 'invalid parameter "step": zero or negative'),
        ("query_range", {"query": "1", "start": 0, "end": 11_001, "step": 1}, "exceeded maximum resolution of 11,000"),
        (
            "query_range",
            {"query": "a[1m]", "start": 0, "end": 1, "step": 1},
            'invalid parameter "query": invalid expression type',
        ),
        ("series", {}, "no match[] parameter provided"),
        ("series", {"match[]": "{}"}, 'invalid parameter "match[]": match[] must contain at least one non-empty'),
        ("labels", {"match[]": "up["}, "1:3: parse error: "),
        ("format_query", {"query": "sum("}, 'invalid parameter "query": 1:5: parse error: '),
    ],
)
def test_a_request_that_makes_no_sense_is_bad_data(asker: Asker, path: str, form: Form, text: str) -> None:
    status, kind, told = asker.get(f"/api/v1/{path}", form).error
    assert (status, kind, told[: len(text)]) == (400, "bad_data", text)


def test_a_query_that_cannot_be_answered_over_these_samples_is_an_error_of_execution(asker: Asker) -> None:
    asked = {"query": "http_requests_total / on (job) http_requests_total", "time": END_S}
    status, kind, text = asker.get("/api/v1/query", asked).error
    assert (status, kind) == (422, "execution")
    assert text.startswith("found duplicate series for the match group {job=")


def test_what_takes_longer_than_its_client_waits_is_a_timeout(asker: Asker) -> None:
    asked = {"query": HEAVY, "time": END_S, "timeout": "1ms"}
    status, kind, text = asker.post("/api/v1/query", asked).error
    assert (status, kind) == (503, "timeout")
    assert text.startswith("query timed out in expression evaluation")


def test_a_body_that_is_no_form_is_not_read(asker: Asker) -> None:
    assert asker.post_json("/api/v1/query", {"query": "1"}).error == (400, "bad_data", NO_QUERY)
    assert asker.post_json("/api/v1/query?query=1", {"query": "sum("}).status == 200


def test_a_path_that_is_not_there_and_a_method_that_does_not_work_say_so(asker: Asker) -> None:
    missing = asker.get("/api/v1/nothing")
    assert (missing.status, missing.json["error"]["what"]) == (404, "there is nothing at /api/v1/nothing")
    assert asker.get("/api/v1/label//values").status == 404
    assert asker.ask("DELETE", "/api/v1/query", b"", {}).status == 405
    assert asker.post("/api/v1/metadata", {}).status == 405


# A segment that is gone


def test_a_lost_segment_is_an_error_that_names_it(asker: Asker, stage: Stage) -> None:
    status, kind, text = asker.get("/api/v1/query", TORN).error
    assert (status, kind) == (422, "execution")
    assert stage.lost.name in text


def test_who_allows_it_gets_an_answer_without_the_lost_segment_that_says_so(asker: Asker, stage: Stage) -> None:
    told = asker.get("/api/v1/query", TORN | {"partial": "allow"}).json
    (counted,) = told["data"]["result"]
    assert 0 < int(counted["value"][1]) < TORN_SERIES
    (warning,) = told["warnings"]
    assert warning.startswith("the answer is partial: ")
    assert stage.lost.name in warning


def test_series_of_a_lost_segment_are_missing_only_if_that_is_allowed(asker: Asker, stage: Stage) -> None:
    asked = {"match[]": "torn"}
    assert stage.lost.name in asker.get("/api/v1/series", asked).error[2]
    told = asker.get("/api/v1/series", asked | {"partial": "allow"}).json
    assert 0 < len(told["data"]) < TORN_SERIES
    assert stage.lost.name in told["warnings"][0]

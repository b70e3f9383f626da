"""Which metrics there are and when they have samples, and why a query may find nothing."""

import pytest

from tests.metrics.routes.asking import Asker
from tests.metrics.routes.samples import DAY_S, END_S, START_S

pytestmark = pytest.mark.xdist_group("metrics-routes")

RANGES = "/api/v1/metrics/ranges"
SELECTED = "/api/v1/metrics/selected"


def test_metrics_are_listed_with_their_type_their_series_and_when_they_have_samples(asker: Asker) -> None:
    told = {one["metric"]: one for one in asker.get(RANGES).data}
    assert list(told) == sorted(told)
    assert told["http_requests_total"] == {
        "metric": "http_requests_total",
        "type": "counter",
        "help": "Requests that were answered.",
        "unit": "",
        "samples": 4 * 41,
        "series": 4,
        "series_are_all": True,
        "first_ms": START_S * 1000,
        "last_ms": END_S * 1000,
        "times_are_exact": True,
    }
    assert (told["odd"]["series"], told["odd"]["last_ms"]) == (1, (START_S + 45) * 1000), "not those of its segment"
    assert told["load"]["first_ms"] == (START_S - DAY_S) * 1000
    assert "secret" not in told
    assert [one["metric"] for one in asker.get(RANGES, X_Scope_OrgID="acme").data] == ["secret"]
    assert asker.get(RANGES, X_Scope_OrgID="nobody").data == []


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ({"match": "twin"}, ["twin_a", "twin_b"]),
        ({"match": "twin_?"}, ["twin_a", "twin_b"]),
        ({"match": "*_b*"}, ["memory_bytes", "twin_b"]),
        ({"match": "twin*", "limit": 1}, ["twin_a"]),
        ({"match": "[a-z]*"}, []),
        ({"metric": ["odd", "load", "nothing"]}, ["load", "odd"]),
    ],
)
def test_metrics_are_chosen_by_a_part_of_their_name_by_a_pattern_or_by_name(
    asker: Asker, form: dict[str, str], names: list[str]
) -> None:
    assert [one["metric"] for one in asker.get(RANGES, form).data] == names
    assert [one["metric"] for one in asker.post(RANGES, form).data] == names


def test_what_a_client_can_make_long_is_bounded(asker: Asker) -> None:
    assert asker.get(RANGES, {"match": "a" * 201}).error[:2] == (400, "bad_data")
    assert asker.get(RANGES, {"metric": ["up"] * 101}).error[:2] == (400, "bad_data")
    cut = asker.get(RANGES, {"limit": 1}).json
    assert (len(cut["data"]), cut["warnings"]) == (1, ["results truncated due to limit"])


def test_a_metric_that_has_samples_at_another_time_is_told_with_its_times(asker: Asker) -> None:
    told = asker.get(SELECTED, {"query": "sum(rate(memory_bytes[5m] offset 1h))", "time": END_S + DAY_S}).data
    (one,) = told["selectors"]
    assert (one["selector"], one["metric"], one["found"]) == ("memory_bytes", "memory_bytes", False)
    assert (one["first_ms"], one["last_ms"]) == (START_S * 1000, END_S * 1000)
    asked_ms = (END_S + DAY_S - 3600) * 1000
    assert (one["start_ms"], one["end_ms"]) == (asked_ms - 300_000 + 1, asked_ms)
    assert told["metrics"] > 5


def test_a_metric_of_the_same_segment_that_ended_earlier_is_not_there_later(asker: Asker) -> None:
    (one,) = asker.get(SELECTED, {"query": "odd[1m]", "time": END_S}).data["selectors"]
    assert (one["found"], one["last_ms"]) == (False, (START_S + 45) * 1000)


def test_a_name_that_is_not_there_comes_with_names_like_it(asker: Asker) -> None:
    (one,) = asker.get(SELECTED, {"query": "HTTP_request_total"}).data["selectors"]
    assert (one["first_ms"], one["near"][0], one["found"]) == (None, "http_requests_total", False)
    theirs = asker.get(SELECTED, {"query": "http_requests_total"}, X_Scope_OrgID="nobody").data
    assert (theirs["metrics"], theirs["selectors"][0]["near"]) == (0, [])


def test_labels_that_no_series_has_are_told_and_those_that_some_have_are_found(asker: Asker) -> None:
    query = 'memory_bytes{job="api"} / on() memory_bytes{job="nobody"} + vector(1)'
    span = {"start": START_S, "end": END_S, "step": 60}
    told = asker.post(SELECTED, {"query": query, **span}).data["selectors"]
    assert {one["selector"]: one["found"] for one in told} == {
        'memory_bytes{job="api"}': True,
        'memory_bytes{job="nobody"}': False,
    }


@pytest.mark.parametrize("form", [{}, {"query": "sum("}, {"query": "up", "start": 5}, {"query": "up", "time": "x"}])
def test_what_is_no_query_is_bad_data(asker: Asker, form: dict[str, str]) -> None:
    assert asker.get(SELECTED, form).error[:2] == (400, "bad_data")


def test_only_the_first_selectors_of_a_long_query_are_told(asker: Asker) -> None:
    query = " or ".join(f"m{number}" for number in range(50))
    assert len(asker.post(SELECTED, {"query": query}).data["selectors"]) == 20

"""The read API of Prometheus as its clients use it, Grafana first of all."""

import json
import subprocess
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest

from checks.peers import PROMETHEUS, PeerMissingError, fetch
from tests.metrics.routes.asking import Asker
from tests.metrics.routes.samples import END_S, HEAVY, START_S, STEPS

pytestmark = pytest.mark.xdist_group("metrics-routes")

SUM = "sum by (job) (http_requests_total)"
RANGE = {"query": SUM, "start": END_S - 60, "end": END_S, "step": 30}
SUMS = [
    {"metric": {"job": "api"}, "values": [[END_S - 60, "108"], [END_S - 30, "114"], [END_S, "120"]]},
    {"metric": {"job": "web"}, "values": [[END_S - 60, "252"], [END_S - 30, "266"], [END_S, "280"]]},
]


def test_grafana_can_save_and_test(asker: Asker) -> None:
    answer = asker.get("/api/v1/query?query=1%2B1&time=4")
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == b'{"status":"success","data":{"resultType":"scalar","result":[4,"2"]}}'
    build = asker.get("/api/v1/status/buildinfo").data
    assert build["version"].startswith("3.")
    assert "features" not in build, "Grafana would take it for Mimir"


@pytest.mark.parametrize("path, data", [("rules", {"groups": []}), ("alerts", {"alerts": []})])
def test_there_are_no_rules_and_no_alerts(asker: Asker, path: str, data: object) -> None:
    assert asker.get(f"/api/v1/{path}").data == data


@pytest.mark.parametrize(
    "path, data",
    [
        ("targets", {"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}}),
        ("targets?state=active&scrapePool=x", {"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}}),
        ("targets/metadata?match_target={job%3D%22a%22}&limit=-1", []),
        ("scrape_pools", {"scrapePools": []}),
        ("alertmanagers", {"activeAlertmanagers": [], "droppedAlertmanagers": []}),
        ("status/config", {"yaml": ""}),
    ],
)
def test_nothing_is_scraped_and_nobody_is_alerted_and_who_asks_is_told_so(
    asker: Asker, path: str, data: object
) -> None:
    assert asker.get(f"/api/v1/{path}").data == data


def test_a_limit_of_metadata_is_a_number(asker: Asker) -> None:
    told = 'invalid parameter "limit": limit must be a number'
    assert asker.get("/api/v1/targets/metadata?limit=x").error == (400, "bad_data", told)


def test_the_server_tells_since_when_it_runs_and_not_in_which_folder(asker: Asker) -> None:
    told = asker.get("/api/v1/status/runtimeinfo").data
    began, now = (datetime.fromisoformat(told[name]) for name in ("startTime", "serverTime"))
    assert began <= now
    assert told["CWD"] == ""
    assert told["GOMAXPROCS"] >= 1
    assert told["GOMEMLIMIT"] > 0


def test_there_are_no_exemplars_however_they_are_asked_for(asker: Asker) -> None:
    assert asker.get("/api/v1/query_exemplars", {"query": "up"}).data == []
    assert asker.post("/api/v1/query_exemplars", {"query": "up"}).data == []


def test_a_range_query_is_answered_by_get_and_by_post(asker: Asker) -> None:
    got = asker.get("/api/v1/query_range", RANGE)
    assert got.data == {"resultType": "matrix", "result": SUMS}
    assert list(got.data) == ["resultType", "result"], "clients in Go read the type first"
    assert asker.post("/api/v1/query_range", RANGE).body == got.body
    assert asker.post(f"/api/v1/query_range?query={quote('vector(1)')}", RANGE).body == got.body, "a body comes first"


@pytest.mark.parametrize(
    "start, step", [(f"{END_S - 60}.000", "30"), ("2023-11-14T22:22:20Z", "30s"), ("2023-11-14T23:22:20+01:00", "3e1")]
)
def test_times_are_numbers_or_rfc_3339_and_steps_numbers_or_durations(asker: Asker, start: str, step: str) -> None:
    assert asker.get("/api/v1/query_range", {**RANGE, "start": start, "step": step}).data["result"] == SUMS


def test_an_instant_query_is_answered_with_each_type(asker: Asker) -> None:
    def ask(query: str) -> object:
        return asker.post("/api/v1/query", {"query": query, "time": START_S + 15}).data

    at_s = START_S + 15
    series = {"__name__": "memory_bytes", "job": "api"}
    assert ask('"a"') == {"resultType": "string", "result": [at_s, "a"]}
    assert ask('memory_bytes{job="api"}') == {
        "resultType": "vector",
        "result": [{"metric": series, "value": [at_s, "1"]}],
    }
    assert ask('memory_bytes{job="api"}[1m]') == {
        "resultType": "matrix",
        "result": [{"metric": series, "values": [[START_S, "0"], [at_s, "1"]]}],
    }


def test_values_that_are_no_numbers_of_json_are_texts(asker: Asker) -> None:
    result = asker.get("/api/v1/query", {"query": "odd[5m]", "time": START_S + 60}).data["result"]
    assert [value for _, value in result[0]["values"]] == ["NaN", "+Inf", "-Inf", "0.1"]


def test_an_answer_names_its_query(asker: Asker) -> None:
    answer = asker.get("/api/v1/query", {"query": "memory_bytes", "time": END_S})
    told = json.loads(asker.door.ask("GET", f"/v1/queries/{answer.headers['x-query-id']}"))
    assert told["state"] == "succeeded"


def test_a_lookback_finds_what_the_servers_does_not(asker: Asker) -> None:
    asked = {"query": "memory_bytes", "time": END_S + 600}
    assert asker.get("/api/v1/query", asked).data["result"] == []
    assert len(asker.get("/api/v1/query", asked | {"lookback_delta": "11m"}).data["result"]) == 2


def test_a_limit_cuts_the_answer_and_says_so(asker: Asker) -> None:
    for path, asked in (
        ("query", {"query": "http_requests_total", "time": END_S}),
        ("query_range", {**RANGE, "query": "http_requests_total"}),
        ("series", {"match[]": "http_requests_total"}),
        ("labels", {}),
        ("label/job/values", {}),
    ):
        told = asker.get(f"/api/v1/{path}", asked | {"limit": 1}).json
        found = told["data"]["result"] if path.startswith("query") else told["data"]
        assert (len(found), told["warnings"]) == (1, ["results truncated due to limit"])
        assert "warnings" not in asker.get(f"/api/v1/{path}", asked | {"limit": 100}).json


@pytest.mark.parametrize("path", ["query_range", "labels"])
def test_who_asks_for_gzip_gets_it(asker: Asker, path: str) -> None:
    plain = asker.get(f"/api/v1/{path}", RANGE)
    packed = asker.get(f"/api/v1/{path}", RANGE, Accept_Encoding="gzip")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert packed.text == plain.body


def test_notes_about_a_query_stand_beside_the_answer(asker: Asker) -> None:
    told = asker.get("/api/v1/query", {"query": "rate(memory_bytes[1m])", "time": END_S}).json
    assert len(told["data"]["result"]) == 2
    assert [text.rpartition(" ")[2] for text in told["infos"]] == ["(1:6)"]


# What is there


def test_series_are_found_by_selectors_and_times(asker: Asker) -> None:
    asked = {"match[]": ['http_requests_total{code="500"}', "memory_bytes{job=~'w.*'}"]}
    found = asker.get("/api/v1/series", asked).data
    assert found == asker.post("/api/v1/series", asked).data
    assert found == [
        {"__name__": "http_requests_total", "code": "500", "job": "api"},
        {"__name__": "http_requests_total", "code": "500", "job": "web"},
        {"__name__": "memory_bytes", "job": "web"},
    ]
    assert asker.get("/api/v1/series", asked | {"start": END_S + 1}).data == []
    assert asker.get("/api/v1/series", asked | {"end": START_S - 1}).data == []


def test_labels_are_found_with_and_without_selectors(asker: Asker) -> None:
    assert asker.get("/api/v1/labels").data == ["__name__", "code", "host", "job", "place"]
    assert asker.post("/api/v1/labels", {"match[]": "memory_bytes"}).data == ["__name__", "job"]
    assert asker.get("/api/v1/labels", {"end": START_S - 1}).data == ["__name__", "host"]


def test_values_of_a_label_are_found_with_and_without_selectors(asker: Asker) -> None:
    assert asker.get("/api/v1/label/job/values").data == ["api", "web"]
    assert asker.get("/api/v1/label/job/values", {"match[]": 'memory_bytes{job!="api"}'}).data == ["web"]
    assert asker.get("/api/v1/label/job/values", {"match[]": "load"}).data == []
    assert asker.get("/api/v1/label/__name__/values", {"end": START_S - 1}).data == ["load"]
    assert asker.get("/api/v1/label/U__job/values").data == ["api", "web"]


def test_metadata_come_from_what_was_imported(asker: Asker) -> None:
    everything = asker.get("/api/v1/metadata").data
    assert everything["http_requests"] == [{"type": "counter", "help": "Requests that were answered.", "unit": ""}]
    assert asker.get("/api/v1/metadata", {"metric": "memory_bytes"}).data == {
        "memory_bytes": [{"type": "gauge", "help": "Memory\nin use.", "unit": "bytes"}]
    }
    assert list(asker.get("/api/v1/metadata", {"limit": 2}).data) == sorted(everything)[:2]


# Whose it is


def test_a_tenant_sees_only_what_is_its_own(asker: Asker) -> None:
    everyone = {"query": "count({__name__=~'secret|memory_bytes|http_requests_total'})", "time": START_S}
    (mine,) = asker.get("/api/v1/query", everyone).data["result"]
    assert mine["value"][1] == "6"
    assert asker.get("/api/v1/label/__name__/values", X_Scope_OrgID="acme").data == ["secret"]
    assert asker.get("/api/v1/labels", X_Scope_OrgID="acme").data == ["__name__", "hidden"]
    assert list(asker.get("/api/v1/metadata", X_Scope_OrgID="acme").data) == ["secret"]
    assert "hidden" not in asker.get("/api/v1/labels").data
    for tenant in ("acme", "nobody"):
        theirs = {"query": "http_requests_total", "time": END_S}
        assert asker.get("/api/v1/query", theirs, X_Scope_OrgID=tenant).data["result"] == []
        match = {"match[]": "http_requests_total"}
        assert asker.get("/api/v1/series", match, X_Scope_OrgID=tenant).data == []
    assert asker.get("/api/v1/labels", X_Scope_OrgID="nobody").data == []


# What asks about the server


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
def test_the_server_is_healthy_and_ready_as_promtool_checks_it(asker: Asker, path: str) -> None:
    assert asker.get(path).body.startswith(b"Quarterdeck is ")
    assert [asker.ask(method, path, b"", {}).status for method in ("GET", "HEAD")] == [200, 200]


def test_promtool_can_query_it(asker: Asker) -> None:
    try:
        promtool = fetch(PROMETHEUS).with_name("promtool")
    except PeerMissingError as error:
        pytest.skip(str(error))

    def run(*arguments: str) -> str:
        done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout + done.stderr

    times = (f"--start={START_S}", f"--end={END_S}")
    assert run("query", "labels", *times, asker.door.url, "job") == "api\nweb\n"
    assert '{job="web"} => 280 @' in run("query", "instant", f"--time={END_S}", asker.door.url, SUM)


def test_flags_are_those_that_mean_something_here(asker: Asker) -> None:
    assert asker.get("/api/v1/status/flags").data["query.lookback-delta"] == "5m"
    assert asker.get("/api/v1/status/flags").data["query.timeout"] == "2m"


def test_the_longest_range_that_prometheus_allows_is_answered(asker: Asker) -> None:
    asked = {"query": "memory_bytes{job='api'}", "start": START_S, "step": 1}
    (series,) = asker.get("/api/v1/query_range", asked | {"end": START_S + 11_000}).data["result"]
    assert len(series["values"]) == 15 * (STEPS - 1) + 300


def test_people_see_what_was_asked_for_whom_and_why_it_failed(asker: Asker) -> None:
    def told(text: str) -> dict[str, Any]:
        return next(one for one in asker.door.get("/v1/queries?limit=1000") if one["text"] == text)

    asker.get("/api/v1/query", {"query": "sum(nobody_has_it) + 1"}, x_scope_orgid="acme")
    seen = told("sum(nobody_has_it) + 1")
    assert (seen["kind"], seen["tenant"], seen["state"], seen["error"]) == ("metrics", "acme", "succeeded", None)
    answer = asker.post("/api/v1/query_range", RANGE)
    assert told(SUM)["query_id"] == answer.headers["x-query-id"]
    assert told(SUM)["works"] == told(SUM)["delivered"] > 0
    asker.get("/api/v1/query", {"query": "sum(nobody("})
    assert told("sum(nobody(")["state"] == "failed"
    assert "parse error" in told("sum(nobody(")["error"]["message"]
    query = "http_requests_total / on (job) http_requests_total"
    asker.get("/api/v1/query", {"query": query, "time": END_S})
    assert "found duplicate series" in told(query)["error"]["message"]
    asker.post("/api/v1/query", {"query": HEAVY, "time": END_S, "timeout": "1ms"})
    assert told(HEAVY)["error"]["code"] == "deadline_exceeded"
    asker.post_json(
        "/api/v1/metrics/query", {"q": "memory_bytes + memory_bytes", "s": END_S * 1000 - 60_000, "e": END_S * 1000}
    )
    assert told("memory_bytes + memory_bytes")["state"] == "succeeded"
    asker.post_json("/api/v1/metrics/query", {"q": "rate(memory_bytes)"})
    assert told("rate(memory_bytes)")["state"] == "failed"
    asker.get("/api/v1/series", {"match[]": 'memory_bytes{job="api"}'})
    assert told('series {job="api",__name__="memory_bytes"}')["works"] > 0


def test_a_site_on_no_list_sees_nothing_of_a_stream_or_an_error(asker: Asker) -> None:
    for path in ("/api/v1/query?query=1", "/api/v1/query?query=sum("):
        answer = asker.get(path, origin="https://evil.example")
        assert (answer.status, "access-control-allow-origin" in answer.headers) == (403, False)


@pytest.mark.parametrize("path", ["/", "/docs", "/api/v1/query?query=1", "/api/v1/labels", "/openapi.json"])
def test_what_can_be_got_has_a_head(asker: Asker, path: str) -> None:
    head = asker.ask("HEAD", path, b"", {})
    assert (head.status, head.body) == (200, b"")

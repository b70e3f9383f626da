"""Clients of Prometheus that know nothing of us are served by a coordinator with three workers as by a Prometheus that
has the same samples: promtool, and Grafana's requests."""

import gzip
import http.client
import json
import subprocess
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from checks.peers import PROMETHEUS, PeerMissingError, fetch
from tests.differential.selectors import FIRST_S, LAST_S
from tests.e2e.metrics_crew import MetricsCrew

pytestmark = pytest.mark.xdist_group("e2e-promql")

AT = f"--time={FIRST_S}"
RANGE = (f"--start={FIRST_S}", f"--end={FIRST_S + 1800}", "--step=60s")
SPAN = (f"--start={FIRST_S}", f"--end={LAST_S}")


# promtool


@dataclass(frozen=True, slots=True)
class Said:
    """What a program left behind."""

    code: int
    lines: list[str]
    errors: str


def promtool(url: str, form: str, kind: str, *arguments: str) -> Said:
    """With the server's URL after the options, and before the query."""
    options = [argument for argument in arguments if argument.startswith("--")]
    others = [argument for argument in arguments if not argument.startswith("--")]
    command = [_promtool(), "query", f"--format={form}", kind, *options, url, *others]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    return Said(done.returncode, _lines(done.stdout, form), done.stderr.replace(url, "URL"))


def _promtool() -> Path:
    try:
        program = fetch(PROMETHEUS).with_name("promtool")
    except PeerMissingError as error:
        pytest.skip(str(error))
    if not program.exists():
        pytest.skip(f"there is no promtool beside {program.with_name('prometheus')}")
    return program


def _lines(text: str, form: str) -> list[str]:
    """One for each series in JSON too."""
    if form == "json" and text.startswith("["):
        return [json.dumps(one) for one in json.loads(text)]
    return text.splitlines()


ORDERED = [
    ("instant", AT, "sort_desc(temperature)"),
    ("instant", AT, "topk(3, http_requests_total)"),
    ("instant", AT, "1 + 1"),
    ("instant", AT, "0 - 1e-7"),
    ("range", *RANGE, "temperature"),
    ("range", *RANGE, "max by (job) (increase(http_requests_total[5m]))"),
    ("range", *RANGE, "odd"),
    ("range", *RANGE, "extreme"),
    ("range", *RANGE, "nothing_at_all"),
    ("range", *RANGE, "3"),
    ("labels", *SPAN, "job"),
    ("labels", *SPAN, "__name__"),
    ("labels", *SPAN, "nothing_at_all"),
]
"""What comes in an order."""
UNORDERED = [
    ("instant", AT, "temperature"),
    ("instant", AT, "odd"),
    ("instant", AT, "http_requests_total[1m]"),
    ("instant", AT, 'count_values("v", queue_depth)'),
    ("series", *SPAN, "--match=limits"),
    ("series", *SPAN, "--match=limits", '--match={__name__=~"latency.*",job!=""}'),
    ("series", *SPAN, "--match=nothing_at_all"),
]
"""What comes as it lies in the store."""
REFUSED = [
    ("instant", AT, "temperature{"),
    ("instant", AT, "rate(temperature)"),
    ("instant", AT, 'label_replace(temperature, "", "a", "job", "(.*)")'),
    ("instant", AT, 'label_replace(temperature, "a", "b", "job", "(")'),
    ("instant", AT, 'label_replace(limits, "job", "same", "job", ".*")'),
    ("range", f"--start={FIRST_S}", f"--end={FIRST_S + 11_001}", "--step=1s", "temperature"),
    ("range", f"--start={FIRST_S}", f"--end={FIRST_S - 1}", "--step=1s", "temperature"),
]


def _id(arguments: tuple[str, ...]) -> str:
    return " ".join(argument for argument in arguments if not argument.startswith(("--start", "--end", "--time")))


@pytest.mark.parametrize("form", ["promql", "json"])
@pytest.mark.parametrize("arguments", ORDERED, ids=_id)
def test_promtool_prints_the_same(
    promql_crew: MetricsCrew, prometheus: str, arguments: tuple[str, ...], form: str
) -> None:
    our = promtool(promql_crew.coordinator.http, form, *arguments)
    assert our.code == 0
    assert our == promtool(prometheus, form, *arguments)


@pytest.mark.parametrize("form", ["promql", "json"])
@pytest.mark.parametrize("arguments", UNORDERED, ids=_id)
def test_promtool_prints_the_same_lines(
    promql_crew: MetricsCrew, prometheus: str, arguments: tuple[str, ...], form: str
) -> None:
    our, their = (promtool(url, form, *arguments) for url in (promql_crew.coordinator.http, prometheus))
    assert our.code == their.code == 0
    assert sorted(our.lines) == sorted(their.lines)


@pytest.mark.parametrize("arguments", REFUSED, ids=_id)
def test_promtool_is_told_the_same_mistakes(
    promql_crew: MetricsCrew, prometheus: str, arguments: tuple[str, ...]
) -> None:
    our, their = (promtool(url, "promql", *arguments) for url in (promql_crew.coordinator.http, prometheus))
    assert our.code == their.code == 1
    assert our.errors == their.errors


# Grafana


@dataclass(frozen=True, slots=True)
class Call:
    """A request as Grafana makes it."""

    method: str
    path: str
    parameters: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.parameters.get('query', '')}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came, gzip undone."""

    status: int
    content_type: str
    encoding: str
    body: bytes

    @property
    def members(self) -> Any:
        """The JSON, objects as pairs in their order; what comes as it lies in the store is sorted."""
        document = json.loads(self.body, object_pairs_hook=lambda pairs: [list(pair) for pair in pairs])
        plain = json.loads(self.body)
        if isinstance(plain.get("data"), dict) and plain["data"].get("resultType") == "vector":
            [result] = [value for name, value in document[1][1] if name == "result"]
            result.sort()
        return document


def ask(url: str, call: Call) -> Reply:
    encoded = urlencode(call.parameters)
    headers = {"Accept-Encoding": "gzip", "User-Agent": "Grafana/11.0.0"}
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection:
        if call.method == "POST":
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", f"/api/v1/{call.path}", encoded, headers | form)
        else:
            connection.request("GET", f"/api/v1/{call.path}?{encoded}", headers=headers)
        with connection.getresponse() as response:
            body, encoding = response.read(), response.headers.get("Content-Encoding", "")
            content = gzip.decompress(body) if encoding == "gzip" else body
            return Reply(response.status, response.headers["Content-Type"], encoding, content)


START, END = str(FIRST_S), str(FIRST_S + 3600)
WINDOW = {"start": START, "end": END}
CALLS = [
    Call("GET", "query", {"query": "1+1", "time": "4"}),
    Call("POST", "query", {"query": "1+1", "time": "4"}),
    Call("POST", "query", {"query": "temperature", "time": START}),
    Call("POST", "query", {"query": "temperature", "time": "2023-11-15T00:00:00.000Z"}),
    Call("POST", "query_range", {"query": "temperature", "step": "15", **WINDOW}),
    Call("POST", "query_range", {"query": "max by (job) (odd)", "step": "1m", **WINDOW}),
    Call("GET", "query_range", {"query": "nothing_at_all", "step": "60", **WINDOW}),
    Call("POST", "query_exemplars", {"query": "temperature", **WINDOW}),
    Call("POST", "series", {"match[]": '{__name__="limits"}', **WINDOW}),
    Call("GET", "series", {"match[]": "limits", **WINDOW}),
    Call("POST", "labels", WINDOW),
    Call("GET", "labels", {"match[]": "limits", **WINDOW}),
    Call("GET", "label/job/values", WINDOW),
    Call("GET", "label/__name__/values", WINDOW),
    Call("GET", "label/le/values", {"match[]": "latency_seconds_bucket", **WINDOW}),
    Call("GET", "label/nothing_at_all/values", WINDOW),
    Call("GET", "metadata", {"limit": "5000"}),
    Call("GET", "rules"),
    Call("GET", "alerts"),
    Call("POST", "query", {"query": "sum(", "time": START}),
    Call("POST", "query", {"query": 'label_replace(limits, "job", "same", "job", ".*")', "time": START}),
    Call("POST", "query_range", {"query": "temperature", "step": "0", **WINDOW}),
    Call("GET", "series", WINDOW),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_grafana_is_answered_as_by_prometheus(promql_crew: MetricsCrew, prometheus: str, call: Call) -> None:
    our, their = ask(promql_crew.coordinator.http, call), ask(prometheus, call)
    assert (our.status, our.content_type) == (their.status, their.content_type)
    assert our.members == their.members


def test_grafana_is_satisfied_by_the_answer_to_its_first_question(promql_crew: MetricsCrew) -> None:
    reply = ask(promql_crew.coordinator.http, CALLS[0])
    assert reply.body == b'{"status":"success","data":{"resultType":"scalar","result":[4,"2"]}}'
    assert (reply.status, reply.content_type, reply.encoding) == (200, "application/json", "gzip")


def test_grafana_takes_the_coordinator_for_a_prometheus(promql_crew: MetricsCrew, prometheus: str) -> None:
    """One whose version it knows; `features` would make it a Mimir."""
    call = Call("GET", "status/buildinfo")
    our, their = (json.loads(ask(url, call).body) for url in (promql_crew.coordinator.http, prometheus))
    assert our["status"] == "success"
    assert list(our["data"]) == list(their["data"])
    assert tuple(map(int, our["data"]["version"].split("."))) >= (3, 0, 0)

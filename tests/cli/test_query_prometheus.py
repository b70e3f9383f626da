"""`quarterdeck query` asks a real Prometheus."""

import csv
import json
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from checks.peers import PROMETHEUS, PeerMissingError, fetch
from quarterdeck.command import app
from quarterdeck.metrics.promql.memory import Series
from tests.differential.peer import PrometheusClient, running_prometheus

pytestmark = pytest.mark.xdist_group("prometheus")  # one of them is started, not one in each process

START_S = 1_700_000_000
STEP_S = 15
SAMPLES = 241


def series(name: str, job: str, slope: float) -> Series:
    times = (START_S + np.arange(SAMPLES) * STEP_S) * 1000
    return Series((("__name__", name), ("job", job)), times, np.arange(SAMPLES, dtype=np.float64) * (slope * STEP_S))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    try:
        program = fetch(PROMETHEUS)
    except PeerMissingError as error:
        pytest.skip(str(error))
    with running_prometheus(program) as port:
        with closing(PrometheusClient(port)) as client:
            client.write([series("requests_total", "api", 2.0), series("requests_total", "web", 0.5)])
        yield f"http://127.0.0.1:{port}"


def query(url: str, text: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["query", text, "--url", url, *arguments], env={"COLUMNS": "70"})


def test_an_instant_as_a_table(url: str) -> None:
    result = query(url, "rate(requests_total[5m])", "--at", str(START_S + 3600))
    assert [line.split() for line in result.stdout.splitlines()] == [["job", "value"], ["api", "2"], ["web", "0.5"]]


def test_a_range_as_a_chart(url: str) -> None:
    times = ("--end", str(START_S + 3600), "--last", "50m")
    result = query(url, "sum by (job) (rate(requests_total[5m]))", *times, "--format", "chart")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[1:] for line in lines[-2:]] == [["api", "2", "2", "2"], ["web", "0.5", "0.5", "0.5"]]
    assert "⠒" * 20 in result.stdout or "⠉" * 20 in result.stdout or "⠤" * 20 in result.stdout


def test_a_range_as_csv_and_as_json_say_the_same(url: str) -> None:
    times = ("--start", str(START_S + 600), "--end", str(START_S + 1200), "--step", "1m")
    rows = list(csv.DictReader(query(url, "requests_total", *times, "--format", "csv").stdout.splitlines()))
    document = json.loads(query(url, "requests_total", *times, "--format", "json").stdout)
    values = [value for one in document["data"]["result"] for _, value in one["values"]]
    assert [row["value"] for row in rows] == values
    assert len(rows) == 22
    assert rows[0]["timestamp"] == "2023-11-14T22:23:20.000Z"


def test_scalars_and_strings(url: str) -> None:
    assert query(url, "1 + 1").stdout == "2\n"
    assert query(url, '"text"').stdout == "text\n"


def test_a_parse_error_has_a_caret(url: str) -> None:
    result = query(url, "sum(rate(m[5m])")
    assert result.exit_code == 65
    assert result.stderr.splitlines()[1:] == ["  sum(rate(m[5m])", "                 ^"]


def test_a_query_that_cannot_be_executed(url: str) -> None:
    at = ("--at", str(START_S + 600))
    assert query(url, "requests_total + on() requests_total", *at).exit_code == 80
    assert query(url, "requests_total", "--last", "1d", "--step", "1s").exit_code == 65


def test_nothing_there(url: str) -> None:
    result = query(url, "nothing")
    assert (result.exit_code, result.stdout) == (0, "")
    listed = query(url, 'count by (__name__) ({__name__!=""})', "--at", str(START_S + 600))
    assert listed.stdout == "requests_total  2\n"


def test_who_does_not_explain_is_told(url: str) -> None:
    result = CliRunner().invoke(app, ["explain", "up", "--analyze", "--url", url])
    assert result.exit_code == 76
    assert "did not explain" in result.stderr

"""A real Prometheus gives the same statuses, texts and bytes. Skipped where there is none to be had.

The peer is of version 2.42 and we follow 3.x: where that has other words, the difference is taken out by name.
"""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from checks.peers import PROMETHEUS, PeerMissingError, fetch
from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics.api.errors import error_answer, render_error
from quarterdeck.metrics.api.parameters import (
    Form,
    label_values_parameters,
    labels_parameters,
    metadata_parameters,
    query_parameters,
    range_parameters,
    series_parameters,
)
from quarterdeck.metrics.api.rendering import render_result
from quarterdeck.metrics.promql.engine import Engine
from quarterdeck.metrics.promql.memory import MemorySource, Series
from tests.differential.peer import PrometheusClient, running_prometheus

pytestmark = pytest.mark.xdist_group("prometheus")

START_MS = 1_435_781_430_781
VALUES = (1.0, 0.1, -0.0, 1e21, 1e-7, 123456789.125, np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308, 2.0**60)
SERIES = tuple(
    Series(
        (("__name__", "m"), ("job", job)),
        START_MS + 15_000 * np.arange(len(VALUES), dtype=np.int64),
        np.array(VALUES) if job == "a" else np.array(VALUES)[::-1].copy(),
    )
    for job in ("a", 'b"\\\n\t<é日')
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    try:
        program = fetch(PROMETHEUS)
    except PeerMissingError as error:
        pytest.skip(str(error))
    with running_prometheus(program) as number:
        with closing(PrometheusClient(number)) as client:
            client.write(SERIES)
        yield number


def ask(port: int, path: str, form: Form) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", f"/api/v1/{path}?{urlencode(form, doseq=True)}")
        response = connection.getresponse()
        return response.status, response.read()


def answer(path: str, form: Form) -> tuple[int, bytes]:
    """What we would say: to a query all, else only whether the parameters are wrong."""
    with Engine(threads=1) as engine:
        try:
            sources = [MemorySource.of(SERIES)]
            match path:
                case "query":
                    query = query_parameters(form, 0)
                    result = engine.instant(sources, query.query, query.time_ms)
                    return 200, b"".join(render_result(result))
                case "query_range":
                    asked = range_parameters(form)
                    result = engine.range(sources, asked.query, asked.start_ms, asked.end_ms, asked.step_ms)
                    return 200, b"".join(render_result(result))
                case "series":
                    series_parameters(form)
                case "labels":
                    labels_parameters(form)
                case "metadata":
                    metadata_parameters(form)
                case _:
                    label_values_parameters(path.split("/")[1], form)
        except QuarterdeckError as error:
            told = error_answer(error)
            return told.status, render_error(told)
    return 200, b"{}"


def of_3(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the peer says, in the words of version 3."""
    text = body["error"].replace("Invalid time value", "invalid time value")
    if path == "query_range" and ("parse error" in text or "invalid expression type" in text):
        text = f'invalid parameter "query": {text}'
    for empty in ("no expression found in input", "unexpected end of input"):
        text = text.replace(f"1:1: parse error: {empty}", f"unknown position: parse error: {empty}")
    return body | {"error": text}


RANGE = {"query": ["m"], "start": ["0"], "end": ["10"], "step": ["1"]}


@pytest.mark.parametrize(
    "path, form",
    [
        ("query", {}),
        ("query", {"query": ["1+"]}),
        ("query", {"query": ["m{"]}),
        ("query", {"query": ["rate(m)"]}),
        ("query", {"query": ["m"], "time": ["soon"]}),
        ("query", {"query": ["m"], "time": ["2015-07-01T20:10:60Z"]}),
        ("query", {"query": ["m"], "time": ["0x10"]}),
        ("query", {"query": ["m"], "timeout": ["x"]}),
        *(
            ("query_range", RANGE | {name: [text]})
            for name, text in (
                ("start", ""),
                ("start", "x"),
                ("end", "x"),
                ("end", "-1"),
                ("step", ""),
                ("step", "x"),
                ("step", "0"),
                ("step", "-1"),
                ("step", "0s"),
                ("step", "-1s"),
                ("step", "1m1h"),
                ("step", "1e300"),
                ("step", "Inf"),
                ("end", "11001"),
                ("timeout", "x"),
                ("query", ""),
                ("query", "sum("),
                ("query", "m[5m]"),
                ("query", '"m"'),
            )
        ),
        ("series", {}),
        *(
            ("series", {"match[]": [text]})
            for text in ("m{", "{}", '{job=~".*"}', "sum(m)", "m offset 5m", "m[5m]", "1", "", "(m)", '{a="b"} x')
        ),
        ("series", {"match[]": ["m", "{}"]}),
        ("series", {"match[]": ["m"], "start": ["x"]}),
        ("labels", {"match[]": ["{}"]}),
        ("labels", {"match[]": ["m{"]}),
        ("labels", {"end": ["x"]}),
        ("label/job/values", {"match[]": ["{}"]}),
        ("label/job/values", {"start": ["x"]}),
        ("metadata", {"limit": ["x"]}),
    ],
)
def test_what_is_wrong_is_told_alike(port: int, path: str, form: Form) -> None:
    status, body = ask(port, path, form)
    assert status == 400
    our_status, ours = answer(path, form)
    assert (our_status, json.loads(ours)) == (status, of_3(path, json.loads(body)))


def test_an_error_of_execution_is_told_alike(port: int) -> None:
    form = {"query": ['label_replace(m, "job", "x", "", "")'], "time": ["1435781431"]}
    status, body = ask(port, "query", form)
    assert (status, json.loads(body)["errorType"]) == (422, "execution")
    assert answer("query", form) == (status, body)


@pytest.mark.parametrize(
    "time", ["1435781430.7815", "-0.05", "4", "2015-07-01T20:10:51,5Z", "2015-07-01T5:10:51.7819-01:30"]
)
@pytest.mark.parametrize("query", ["time() * 1e-8", "1/0", '"a\\nb"', "vector(-5e-7)"])
def test_times_and_numbers_are_written_alike(port: int, time: str, query: str) -> None:
    form = {"query": [query], "time": [time]}
    assert answer("query", form) == ask(port, "query", form)


def test_a_vector_is_written_alike(port: int) -> None:
    form = {"query": ["m"], "time": ["1435781431"]}
    status, body = ask(port, "query", form)
    our_status, ours = answer("query", form)
    assert our_status == status == 200
    assert sorted_series(json.loads(ours)) == sorted_series(json.loads(body))


def test_a_matrix_is_written_alike_to_the_last_byte(port: int) -> None:
    end = "1435781600.781"
    for form in (
        {"query": ['m{job="a"}'], "start": ["1435781430.781"], "end": [end], "step": ["15"]},
        {"query": ['m{job="a"} * 0.1'], "start": ["1435781430.9"], "end": [end], "step": ["7.5"]},
        {"query": ["m"], "start": ["2015-07-01T20:10:30.781Z"], "end": [end], "step": ["1m"]},
        {"query": ["absent(m)"], "start": ["1435781430.781"], "end": [end], "step": ["15"]},
    ):
        status, body = ask(port, "query_range", form)
        plain = body.replace(b"\\u003c", b"<")  # Go escapes what might be read as HTML
        assert answer("query_range", form) == (status, plain)


def test_samples_as_stored_are_written_alike(port: int) -> None:
    form = {"query": ['m{job="a"}[5m]'], "time": ["1435781610"]}
    assert answer("query", form) == ask(port, "query", form)


def test_grafana_finds_a_prometheus(port: int) -> None:
    form = {"query": ["1+1"], "time": ["4"]}
    assert answer("query", form) == ask(port, "query", form)


def sorted_series(body: dict[str, Any]) -> list[Any]:
    return sorted(body["data"]["result"], key=lambda one: sorted(one["metric"].items()))

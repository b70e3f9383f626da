"""`quarterdeck metrics`: the list, its formats, and servers that know nothing but names."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from tests.cli.answers import failure
from tests.cli.scripted import Script, scripted_coordinator
from tests.cli.terminal import at_terminal, plain

RANGES = "/api/v1/metrics/ranges"
NAMES = "/api/v1/label/__name__/values?limit=0"


def metric(name: str, **more: Any) -> dict[str, Any]:
    return {
        "metric": name,
        "type": "counter",
        "help": "Some [bold], help.",
        "unit": "",
        "samples": 1234,
        "series": 4,
        "series_are_all": True,
        "first_ms": 1_700_000_000_000,
        "last_ms": 1_700_000_060_500,
        "times_are_exact": True,
        **more,
    }


def listed(*metrics: dict[str, Any], **more: Any) -> tuple[int, Any]:
    return 200, {"status": "success", "data": list(metrics), **more}


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        script.answers[RANGES] = listed(
            metric("hits_total"), metric("up", type="gauge", series=1, series_are_all=False)
        )
        yield script


def run(script: Script, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["metrics", *arguments, "--url", script.url], env={"COLUMNS": "60"})


def test_a_table_has_the_times_as_they_can_be_pasted(script: Script) -> None:
    result = run(script)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["metric", "type", "series", "first", "last"],
        ["hits_total", "counter", "4", "2023-11-14T22:13:20Z", "2023-11-14T22:14:20.500Z"],
        ["up", "gauge", "≥", "1", "2023-11-14T22:13:20Z", "2023-11-14T22:14:20.500Z"],
    ]


@pytest.mark.parametrize("columns", [110, 80])
def test_in_a_narrow_window_the_names_are_whole(script: Script, columns: int) -> None:
    name = "http_request_duration_seconds_bucket"
    script.answers[RANGES] = listed(metric(name, type="histogram"), metric("up", type="gauge"))
    with at_terminal("metrics", "--url", script.url, columns=columns, rows=20) as terminal:
        told = plain(terminal.read_all()).replace("\r", "").rstrip("\n").split("\n")
    assert told[0].split() == (["metric", "type", "series", "first", "last"] if columns == 110 else [name])
    assert any(line.startswith(name) for line in told)
    if columns == 80:
        assert told[1:] == [
            "  histogram, 4 series, from 2023-11-14T22:13:20Z to 2023-11-14T22:14:20.500Z",
            "up",
            "  gauge, 4 series, from 2023-11-14T22:13:20Z to 2023-11-14T22:14:20.500Z",
        ]


def test_what_was_asked_for_is_in_the_request(script: Script) -> None:
    assert run(script, "hits*", "--limit", "7", "--tenant", "team-a").exit_code == 0
    [(method, path, headers, form)] = script.asked
    assert (method, path, form) == ("POST", RANGES, {"match": "hits*", "limit": "7"})
    assert headers["x-scope-orgid"] == "team-a"


def test_json_and_csv_have_everything(script: Script) -> None:
    (hits, _) = json.loads(run(script, "--format", "json").stdout)
    assert (hits["metric"], hits["samples"], hits["first_ms"]) == ("hits_total", 1234, 1_700_000_000_000)
    assert (hits["first"], hits["help"]) == ("2023-11-14T22:13:20Z", "Some [bold], help.")
    rows = list(csv.DictReader(io.StringIO(run(script, "--format", "csv").stdout)))
    assert [row["metric"] for row in rows] == ["hits_total", "up"]
    assert (rows[0]["samples"], rows[0]["last"], rows[0]["help"]) == (
        "1234",
        "2023-11-14T22:14:20.500Z",
        "Some [bold], help.",
    )


def test_what_an_earlier_release_has_imported_is_told_to_be_inexact(script: Script) -> None:
    script.answers[RANGES] = listed(metric("old", series=None, times_are_exact=False))
    result = run(script)
    assert result.stdout.splitlines()[1].split() == [
        "old",
        "counter",
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:14:20.500Z",
    ]
    assert "their samples are within the times" in result.stderr


def test_that_there_is_more_or_nothing_is_told(script: Script) -> None:
    script.answers[RANGES] = listed(metric("up"), warnings=["results truncated due to limit"])
    assert "there are more: narrow them with a PATTERN, or raise --limit 1" in run(script, "--limit", "1").stderr
    script.answers[RANGES] = listed()
    assert "no metric of the tenant default is like x; `quarterdeck metrics` lists all" in run(script, "x").stderr
    empty = run(script, "--tenant", "team-a")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "there are no metrics for the tenant team-a; `quarterdeck import`" in empty.stderr
    assert json.loads(run(script, "--format", "json").stdout) == []


def test_of_another_server_of_the_api_there_are_the_names(script: Script) -> None:
    script.answers[RANGES] = failure(404, "not_found", "404 page not found")
    script.answers[NAMES] = (200, {"status": "success", "data": ["a_hits", "b_hits", "up"]})
    assert run(script, "hits").stdout.split() == ["metric", "type", "series", "first", "last", "a_hits", "b_hits"]
    cut = run(script, "--limit", "1")
    assert "b_hits" not in cut.stdout
    assert "there are more" in cut.stderr


def test_names_cannot_command_the_terminal(script: Script) -> None:
    script.answers[RANGES] = listed(metric("\x1b[2J"))
    shown = run(script).stdout
    assert "\x1b" not in shown
    assert r"\x1b[2J" in shown


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (failure(400, "bad_data", "no"), 65),
        (failure(503, "unavailable", "no"), 69),
        ((200, {"data": [1]}), 76),
        ((200, "no"), 76),
    ],
)
def test_what_goes_wrong_is_told(script: Script, answer: tuple[int, Any], code: int) -> None:
    script.answers[RANGES] = answer
    result = run(script)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("quarterdeck: ")

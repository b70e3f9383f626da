"""`quarterdeck query`, as somebody types it: what is asked, what is shown in each format, what is said on stderr."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from tests.cli.answers import START_S, failure, histogram, matrix, success, vector
from tests.cli.scripted import Request, Script, error, scripted_coordinator
from tests.cli.terminal import COLOURS, MOVEMENTS, at_terminal, plain

INSTANT = "/api/v1/query"
RANGE = "/api/v1/query_range"
UP = ({"__name__": "up", "job": "api", "instance": "a:1"}, "1"), ({"__name__": "up", "job": "api", "pod": "x"}, "12.5")
OVER_5_MIN = ("--start", str(START_S), "--end", str(START_S + 300))


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        script.answers[INSTANT] = vector(*UP)
        script.answers[RANGE] = matrix(({"job": "api"}, [1, 2, 3, 4, 5, 6]), ({"job": "web"}, [0, 0, 0, 0, 0, 0]))
        yield script


def query(script: Script, *arguments: str, text: str = "up") -> Result:
    return CliRunner().invoke(
        app, ["query", text, "--url", script.url, *arguments], env={"COLUMNS": "60", "NO_COLOR": None}
    )


# What is asked


def test_an_instant_query_without_a_time_leaves_now_to_the_server(script: Script) -> None:
    assert query(script, text="sum(up) + 1").exit_code == 0
    [(method, path, headers, form)] = script.asked
    assert (method, path) == ("POST", INSTANT)
    assert form == {"query": "sum(up) + 1"}
    assert "x-scope-orgid" not in headers


def test_everything_that_was_asked_for_is_in_the_request(script: Script) -> None:
    terms = ("--timeout", "30s", "--tenant", "team-a", "--partial", "allow")
    assert query(script, *OVER_5_MIN, "--step", "90s", *terms).exit_code == 0
    [(_, path, headers, form)] = script.asked
    assert path == RANGE
    assert headers["x-scope-orgid"] == "team-a"
    assert form == {
        "query": "up",
        "start": str(START_S),
        "end": str(START_S + 300),
        "step": "90",
        "timeout": "30s",
        "partial": "allow",
    }


def test_a_time_of_an_instant_is_sent(script: Script) -> None:
    assert query(script, "--at", "2023-11-14T22:13:20.5Z").exit_code == 0
    assert script.asked[0][3]["time"] == f"{START_S}.5"


def test_the_token_is_shown_to_the_server(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_TOKEN", "0123456789abcdef0123456789abcdef")
    assert query(script).exit_code == 0
    assert script.asked[0][2]["authorization"] == "Bearer 0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--at", "now", "--last", "1h"),
        ("--at", "now", "--step", "1m"),
        ("--end", "now"),
        ("--step", "1m"),
        ("--start", "1", "--end", "2", "--last", "1s"),
        ("--format", "chart"),
        ("--format", "ndjson"),
    ],
)
def test_what_makes_no_sense_together_is_a_wrong_command_line(script: Script, arguments: tuple[str, ...]) -> None:
    assert query(script, *arguments).exit_code == 65
    assert script.asked == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--at", "yesterday"),
        ("--last", "soon"),
        ("--last", "0"),
        ("--last", "1h", "--step", "-1"),
        ("--timeout", "x"),
        ("--tenant", "a\nb"),
        ("--tenant", ""),
        ("--start", "now", "--end", "now-1h"),
    ],
)
def test_what_is_not_understood_is_told_before_anything_is_asked(script: Script, arguments: tuple[str, ...]) -> None:
    result = query(script, *arguments)
    assert result.exit_code == 65
    assert "was not understood" in result.stderr
    assert script.asked == []


# Tables


def test_a_vector_is_a_table_of_the_labels_that_differ(script: Script) -> None:
    result = query(script)
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        'up{job="api"}',
        "instance  pod  value",
        "a:1                1",
        "          x     12.5",
    ]
    assert result.stderr == ""


def test_one_series_is_one_line(script: Script) -> None:
    script.answers[INSTANT] = vector(UP[0])
    assert query(script).stdout == 'up{instance="a:1", job="api"}  1\n'


def test_the_order_of_the_server_is_kept(script: Script) -> None:
    script.answers[INSTANT] = vector(({"p": "b"}, "1"), ({"p": "a"}, "3"), ({"p": "c"}, "2"))
    assert [line.split() for line in query(script).stdout.splitlines()[1:]] == [["b", "1"], ["a", "3"], ["c", "2"]]


@pytest.mark.parametrize(("kind", "value"), [("scalar", "2"), ("string", "some [bold]text")])
def test_a_scalar_and_a_string_are_shown_plainly(script: Script, kind: str, value: str) -> None:
    script.answers[INSTANT] = success(kind, [START_S, value])
    assert query(script).stdout == f"{value}\n"


def test_a_value_is_shown_with_all_its_digits(script: Script) -> None:
    script.answers[INSTANT] = vector(({"a": "1"}, "0.016666666666666666"), ({"a": "2"}, "NaN"), ({"a": "3"}, "+Inf"))
    assert re.findall(r"(\S+)\n", query(script).stdout)[1:] == ["0.016666666666666666", "NaN", "+Inf"]


def test_labels_cannot_command_the_terminal(script: Script) -> None:
    script.answers[INSTANT] = vector(({"a": "\x1b[2J[red]"}, "1"), ({"a": "new\nline"}, "2"))
    shown = query(script).stdout
    assert "\x1b" not in shown
    assert r"\x1b[2J[red]" in shown
    assert r"new\nline" in shown


def test_nothing_is_cut_where_there_is_no_terminal(script: Script) -> None:
    script.answers[INSTANT] = vector(({"a": "x" * 150}, "1"), ({"a": "y" * 150}, "2"))
    assert "x" * 150 in query(script).stdout


def test_a_range_as_a_table_has_the_figures_of_each_series(script: Script) -> None:
    script.answers[RANGE] = matrix(({"job": "api"}, [1, 2, "NaN", 6]), ({"job": "web"}, ["-Inf", 1500]))
    assert [line.split() for line in query(script, *OVER_5_MIN, "--format", "table").stdout.splitlines()] == [
        ["job", "points", "last", "min", "mean", "max"],
        ["api", "4", "6", "1", "3", "6"],
        ["web", "2", "1.5k", "-Inf", "-Inf", "1.5k"],
    ]


def test_samples_of_an_instant_query_are_a_table_too(script: Script) -> None:
    script.answers[INSTANT] = matrix(({"job": "api"}, [1, 2]))
    assert query(script, text="up[5m]").stdout.splitlines()[0] == '{job="api"}'


def test_a_long_table_on_a_terminal_is_cut_and_says_so(script: Script) -> None:
    script.answers[INSTANT] = vector(*(({"n": str(number)}, "1") for number in range(450)))
    with at_terminal("query", "up", "--url", script.url) as terminal:
        assert "… and 250 more series; --format csv shows all" in plain(terminal.read_all())
    assert len(query(script).stdout.splitlines()) == 1 + 450


# JSON and CSV


def test_json_is_the_answer_as_it_came(script: Script) -> None:
    body = b'{"status":"success",\n "data":{"resultType":"vector","result":[]}, "warnings": ["careful"]}'
    script.answers[INSTANT] = lambda request: request.whole(200, body)
    result = query(script, "--format", "json")
    assert result.stdout_bytes == body + b"\n"
    assert result.stderr == "warning: careful\n"


def test_csv_is_a_line_for_each_sample(script: Script) -> None:
    script.answers[RANGE] = matrix(({"job": 'a,"b"'}, [1, "NaN"]), ({"job": "web", "zone": "z"}, [0.5]))
    assert query(script, *OVER_5_MIN, "--format", "csv").stdout.splitlines() == [
        "timestamp,job,zone,value",
        '2023-11-14T22:13:20.000Z,"a,""b""",,1',
        '2023-11-14T22:14:20.000Z,"a,""b""",,NaN',
        "2023-11-14T22:13:20.000Z,web,z,0.5",
    ]


def test_a_range_in_a_pipe_is_csv(script: Script) -> None:
    assert query(script, *OVER_5_MIN).stdout.startswith("timestamp,job,value\n")


def test_a_label_named_as_one_of_the_columns_is_told_from_it(script: Script) -> None:
    script.answers[INSTANT] = vector(({"value": "v", "count": "c"}, "1"))
    assert query(script, "--format", "csv").stdout.splitlines()[0] == "timestamp,count,label_value,value"


def test_a_scalar_as_csv(script: Script) -> None:
    script.answers[INSTANT] = success("scalar", [START_S + 0.125, "2"])
    assert query(script, "--format", "csv").stdout == "timestamp,value\n2023-11-14T22:13:20.125Z,2\n"


# Charts


def test_a_chart_without_a_terminal_has_no_colours_and_no_movements(script: Script) -> None:
    shown = query(script, *OVER_5_MIN, "--format", "chart").stdout
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 60
    assert ["a", "api", "6", "1", "6"] in [line.split() for line in shown.splitlines()]


def test_a_range_on_a_terminal_is_a_chart_in_colours(script: Script) -> None:
    with at_terminal("query", "up", "--url", script.url, *OVER_5_MIN, columns=50, rows=20) as terminal:
        written = terminal.read_all()
    lines = plain(written).splitlines()
    assert COLOURS.search(written)
    assert not MOVEMENTS.search(written)
    assert max(map(len, lines)) <= 50
    assert len(lines) <= 20
    assert ["━━", "web", "0", "0", "0"] in [line.split() for line in lines]
    assert terminal.process.returncode == 0


def test_no_colour_is_shown_to_who_wants_none(script: Script) -> None:
    with at_terminal("query", "up", "--url", script.url, *OVER_5_MIN, NO_COLOR="1") as terminal:
        written = terminal.read_all()
    assert not COLOURS.search(written)
    assert ["b", "web", "0", "0", "0"] in [line.split() for line in plain(written).splitlines()]


def test_the_step_suits_the_width_of_the_chart(script: Script) -> None:
    steps: list[str] = []
    for columns in (48, 168):
        with at_terminal("query", "up", "--url", script.url, "--last", "6h", columns=columns) as terminal:
            terminal.read_all()
        steps.append(script.asked[-1][3]["step"])
    assert steps == ["300", "120"]


def test_a_chart_needs_signs_that_the_terminal_has(script: Script) -> None:
    with at_terminal("query", "up", "--url", script.url, "--last", "6h", PYTHONIOENCODING="ascii") as terminal:
        assert "take --format table" in terminal.read_all()
    assert terminal.process.returncode == 65


# Native histograms


def test_native_histograms_are_shown_by_count_and_sum(script: Script) -> None:
    result = [
        {"metric": {"h": "1"}, "histogram": [START_S, histogram()]},
        {"metric": {"h": "2"}, "value": [START_S, "7"]},
    ]
    script.answers[INSTANT] = success("vector", result)
    shown = query(script)
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["h", "value", "count", "sum"],
        ["1", "12", "3.5"],
        ["2", "7"],
    ]
    assert "histogram_quantile" in shown.stderr
    assert query(script, "--format", "csv").stdout.splitlines() == [
        "timestamp,h,value,count,sum",
        "2023-11-14T22:13:20.000Z,1,,12,3.5",
        "2023-11-14T22:13:20.000Z,2,7,,",
    ]


@pytest.mark.parametrize("form", ["chart", "table"])
def test_a_range_of_native_histograms_is_not_dropped(script: Script, form: str) -> None:
    samples = [[START_S, histogram("1", "2")], [START_S + 60, histogram()]]
    script.answers[RANGE] = success("matrix", [{"metric": {"h": "1"}, "histograms": samples}])
    result = query(script, *OVER_5_MIN, "--format", form)
    assert result.exit_code == 0
    assert result.stdout.split()[-2:] == ["12", "3.5"]
    assert "histogram_quantile" in result.stderr


# What is said about an answer


def test_warnings_and_infos_are_on_stderr(script: Script) -> None:
    script.answers[INSTANT] = vector(*UP, warnings=["slow [bold]", "PARTIAL result: 2 segments"], infos=["no counter"])
    result = query(script)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "warning: slow [bold]",
        "WARNING: THE ANSWER IS NOT WHOLE: PARTIAL result: 2 segments",
        "info: no counter",
    ]


@pytest.mark.parametrize("form", ["chart", "table", "csv"])
def test_an_empty_answer_says_so_and_helps(script: Script, form: str) -> None:
    script.answers[RANGE] = matrix()
    result = query(script, *OVER_5_MIN, "--format", form)
    assert result.exit_code == 0
    assert result.stdout == ("timestamp,value\n" if form == "csv" else "")
    assert "the answer is empty" in result.stderr
    assert f"`quarterdeck metrics --url {script.url}` lists the metrics" in result.stderr, "a stranger tells no more"


# Errors


def test_a_parse_error_is_shown_with_its_place(script: Script) -> None:
    text = 'invalid parameter "query": 2:5: parse error: unexpected "foo"'
    script.answers[INSTANT] = failure(400, "bad_data", text)
    result = query(script, text="sum(\n up foo)")
    assert result.exit_code == 65
    assert result.stderr.splitlines() == [
        'quarterdeck: the query was not understood: 2:5: parse error: unexpected "foo"; correct it here:',
        "   up foo)",
        "      ^",
    ]
    assert result.stdout == ""


def test_a_place_that_is_not_in_the_query_is_not_marked(script: Script) -> None:
    script.answers[INSTANT] = failure(400, "bad_data", "7:9: parse error: strange")
    result = query(script)
    assert result.exit_code == 65
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("status", "kind", "exit_code"),
    [
        (400, "bad_data", 65),
        (422, "execution", 80),
        (503, "timeout", 124),
        (499, "canceled", 130),
        (503, "unavailable", 69),
        (500, "internal", 70),
        (404, "not_found", 66),
        (429, "too many", 82),
        (401, "who are you", 77),
        (418, "news", 80),
    ],
)
def test_an_error_of_the_server_has_its_exit_code(script: Script, status: int, kind: str, exit_code: int) -> None:
    script.answers[INSTANT] = failure(status, kind, "it went wrong")
    result = query(script, "--format", "json")
    assert result.exit_code == exit_code
    assert f"({kind}): it went wrong; " in result.stderr
    assert result.stdout == ""


def test_an_error_in_our_own_form_is_told_as_it_is(script: Script) -> None:
    script.answers[INSTANT] = (401, error("unauthenticated", "no token", "none came", "send one"))
    result = query(script)
    assert result.exit_code == 77
    assert result.stderr.startswith(
        "quarterdeck: no token: none came; name a file with the crew's token with --token-file"
    )


def test_a_server_that_is_not_there_is_told_with_the_remedy() -> None:
    result = CliRunner().invoke(app, ["query", "up", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 69
    assert "quarterdeck up" in result.stderr


@pytest.mark.parametrize(
    "document",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"data": {"resultType": "tensor", "result": []}}',
        b'{"data": {"resultType": "vector", "result": [{"metric": {}}]}}',
        b'{"data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1]]}]}}',
        b'{"data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "x"]]}]}}',
        b'{"data": {"resultType": "vector", "result": [{"metric": [], "value": [1, "1"]}]}}',
    ],
)
def test_an_answer_that_is_none_is_of_no_coordinator(script: Script, document: bytes) -> None:
    for path, arguments in ((INSTANT, ()), (RANGE, (*OVER_5_MIN, "--format", "chart"))):
        script.answers[path] = lambda request: request.whole(200, document)
        result = query(script, *arguments)
        assert result.exit_code == 76, arguments


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_an_answer_that_was_cut_off_is_an_error(script: Script, form: str) -> None:
    def answer(request: Request) -> None:
        request.head(200, content_length="1000")
        request.wfile.write(b'{"status":"success"')

    script.answers[INSTANT] = answer
    result = query(script, "--format", form)
    assert result.exit_code == 69
    assert "the answer was cut off" in result.stderr
    assert result.stdout == ""


def start(script: Script, *arguments: str, **streams: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "quarterdeck", "query", "up", "--url", script.url, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)


def test_an_interrupt_ends_it_and_the_query(script: Script) -> None:
    asked, gone = threading.Event(), threading.Event()

    def answer(request: Request) -> None:
        asked.set()
        if request.connection.recv(1) == b"":
            gone.set()

    script.answers[INSTANT] = answer
    with start(script) as process:
        assert asked.wait(30)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == "quarterdeck: interrupted\n"
        assert process.wait(30) == 130
    assert gone.wait(30)


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_a_reader_that_goes_away_ends_it_quietly(script: Script, form: str) -> None:
    script.answers[INSTANT] = vector(*(({"n": "x" * 1000 + str(number)}, "1") for number in range(1000)))
    reading, writing = os.pipe()
    with start(script, "--format", form, stdout=writing) as process:
        os.close(writing)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) == 141


def test_who_waits_at_a_terminal_sees_a_sign_of_life(script: Script) -> None:
    seen = threading.Event()

    def answer(request: Request) -> None:
        assert seen.wait(30)
        request.whole(200, json.dumps(vector(UP[0])[1]).encode())

    script.answers[INSTANT] = answer
    with at_terminal("query", "up", "--url", script.url) as terminal:
        terminal.read_until(lambda written: "waiting for the answer" in written)
        seen.set()
        assert plain(terminal.read_all()).splitlines()[-1].endswith('up{instance="a:1", job="api"}  1')


def test_a_fast_answer_has_no_sign_of_life(script: Script) -> None:
    with at_terminal("query", "up", "--url", script.url) as terminal:
        written = terminal.read_all()
    assert "waiting" not in written
    assert not MOVEMENTS.search(written)

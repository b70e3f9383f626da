"""`quarterdeck search`, as somebody types it: what is asked, what goes to stdout, what is said, and exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from tests.cli.scripted import Request, Script, error, scripted_coordinator
from tests.cli.search_answers import SEARCH, begin, done, event, failed, gives, problem, progress, rows, send

FIRST = {"ts": "2026-01-31T12:00:00Z", "level": "error", "msg": "timed out", "n": 1}
SECOND = {"ts": "2026-01-31T12:00:01Z", "host": "a,b", "n": 2.5, "x": {"y": [1, None]}}
SUMMARY = "12,345 matches in 3.2 GB, 48 chunks on 2 workers (1 retried), 2.31 s (1.39 GB/s)\n"


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        gives(script, progress(), rows(FIRST), progress(bytes_done=5), rows(SECOND), done())
        yield script


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def search(script: Script, *arguments: str, query: str = "*") -> Result:
    return CliRunner().invoke(app, ["search", query, "logs", "--url", script.url, *arguments], env={"COLUMNS": "200"})


# What is asked


def test_the_request_has_the_query_and_paths_that_all_see(script: Script, elsewhere: Path) -> None:
    sources = ("logs/*.ndjson", "s3://lake/x", "/abs")
    result = CliRunner().invoke(app, ["search", "level=error | count()", *sources, "--url", script.url])
    assert result.exit_code == 0
    [(method, path, headers, document)] = script.asked
    assert (method, path) == ("POST", SEARCH)
    assert headers["accept"] == "text/event-stream"
    assert document == {
        "query": "level=error | count()",
        "sources": [f"{elsewhere}/logs/*.ndjson", "s3://lake/x", "/abs"],
    }


def test_everything_that_was_asked_for_is_in_the_request(script: Script) -> None:
    times = ("--start", "2023-11-14T22:13:20.000123Z", "--end", "1700000300")
    terms = ("--order", "input", "--time-field", "when", "--max-workers", "7", "--timeout-s", "2.5")
    assert search(script, *times, *terms).exit_code == 0
    document = script.asked[0][3]
    assert {name: value for name, value in document.items() if name not in ("query", "sources")} == {
        "start": "1700000000.000123",
        "end": "1700000300",
        "order": "input",
        "time_field": "when",
        "max_workers": 7,
        "timeout_s": 2.5,
    }


def test_a_tenant_is_named_in_the_header(script: Script) -> None:
    assert search(script, "--tenant", "acme").exit_code == 0
    assert search(script).exit_code == 0
    assert [headers.get("x-scope-orgid") for _, _, headers, _ in script.asked] == ["acme", None]


@pytest.mark.parametrize(
    ("arguments", "start", "end"),
    [
        (("--end", "1700000300", "--last", "5m"), "1700000000", "1700000300"),
        (("--start", "1700000000", "--last", "5m"), "1700000000", "1700000300"),
        (("--start", "1700000000"), "1700000000", None),
        (("--end", "1700000000.5"), None, "1700000000.5"),
    ],
)
def test_times_are_as_somebody_means_them(
    script: Script, arguments: tuple[str, ...], start: str | None, end: str | None
) -> None:
    assert search(script, *arguments).exit_code == 0
    assert (script.asked[0][3].get("start"), script.asked[0][3].get("end")) == (start, end)


def test_the_last_hour_has_no_end(script: Script) -> None:
    """A record whose clock is a little ahead is of the last hour, too."""
    assert search(script, "--last", "1h").exit_code == 0
    assert "end" not in script.asked[0][3]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--start", "1", "--end", "2", "--last", "1s"),
        ("--max-workers", "0"),
        ("--max-workers", "101"),
        ("--format", "xml"),
        ("--order", "size"),
        ("--output", "rows.csv", "--format", "csv"),
        ("--local", "--tenant", "acme"),
        ("--tenant", ""),
    ],
)
def test_what_makes_no_sense_is_a_wrong_command_line(script: Script, arguments: tuple[str, ...]) -> None:
    assert search(script, *arguments).exit_code == 65
    assert script.asked == []


@pytest.mark.parametrize("arguments", [("--start", "soon"), ("--last", "0"), ("--start", "now", "--end", "now-1h")])
def test_times_that_are_not_understood_are_told_before_anything_is_asked(
    script: Script, arguments: tuple[str, ...]
) -> None:
    result = search(script, *arguments)
    assert result.exit_code == 65
    assert "was not understood" in result.stderr
    assert script.asked == []


# Rows in a pipe


def test_rows_in_a_pipe_are_ndjson_and_what_it_took_is_on_stderr(script: Script) -> None:
    result = search(script)
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()] == [FIRST, SECOND]
    assert result.stderr == SUMMARY


def test_rows_in_a_pipe_are_what_came_to_the_byte(script: Script) -> None:
    gives(script, 'event: rows\ndata: {"a" : 1.50,"b":"\\u001b é\x7f"}\r\n\n'.encode(), done())
    assert search(script).stdout_bytes == '{"a" : 1.50,"b":"\\u001b é\x7f"}\r\n'.encode()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 10_000])
def test_events_may_be_split_at_any_byte(script: Script, size: int) -> None:
    stream = (
        progress() + b": still here\n\n" + rows(FIRST, SECOND) + event("later", "release") + rows({"é": "ü"}) + done()
    )
    gives(script, *(stream[start : start + size] for start in range(0, len(stream), size)))
    result = search(script)
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()] == [FIRST, SECOND, {"é": "ü"}]


def test_rows_come_as_they_are_found(script: Script) -> None:
    """The second is sent when the first was read from the other end."""
    first_was_read = threading.Event()

    def answer(request: Request) -> None:
        begin(request)
        send(request, rows(FIRST))
        assert first_was_read.wait(30)
        send(request, rows(SECOND) + done())

    script.answers[SEARCH] = answer
    with start(script, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == FIRST
        first_was_read.set()
        assert [json.loads(line) for line in process.stdout] == [SECOND]
    assert process.returncode == 0


def test_csv_has_the_fields_of_all_rows(script: Script) -> None:
    assert search(script, "--format", "csv").stdout.splitlines() == [
        "ts,level,msg,n,host,x",
        "2026-01-31T12:00:00Z,error,timed out,1,,",
        '2026-01-31T12:00:01Z,,,2.5,"a,b","{""y"":[1,null]}"',
    ]


def test_lines_for_people_can_be_had_in_a_pipe_whole_and_without_colours(script: Script) -> None:
    gives(script, rows({**FIRST, "long": "x" * 5000, "é": "a b"}), done())
    result = search(script, "--format", "lines")
    assert result.stdout == f'2026-01-31T12:00:00Z error timed out  n=1 long={"x" * 5000} é="a b"\n'


def test_rows_in_a_file(script: Script, elsewhere: Path) -> None:
    result = search(script, "--output", "rows.ndjson")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert [json.loads(line) for line in (elsewhere / "rows.ndjson").read_text().splitlines()] == [FIRST, SECOND]
    assert [path.name for path in elsewhere.iterdir()] == ["rows.ndjson"]


def test_a_device_is_written_to_and_stays(script: Script) -> None:
    assert search(script, "--output", "/dev/null").exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_a_file_that_cannot_be_written_is_told(script: Script) -> None:
    result = search(script, "--output", "missing/rows.ndjson")
    assert result.exit_code == 65
    assert "missing/rows.ndjson was not written" in result.stderr


# Tables


def table(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_a_table_has_columns_as_the_rows_have_fields_and_numbers_that_can_be_read(script: Script) -> None:
    gives(
        script,
        rows({"host": "a", "count": 1_234_567, "avg": 0.333333333333}, {"host": None, "count": 5, "avg": 1234.5}),
        done(),
    )
    result = search(script, "--format", "table")
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "host      count       avg",
        "a     1,234,567  0.333333",
        "null          5   1,234.5",
    ]


def test_a_long_table_is_shown_in_part_and_says_so(script: Script) -> None:
    gives(script, *(rows(*({"n": number} for number in range(start, start + 30))) for start in (0, 30, 60)), done())
    result = search(script, "--format", "table")
    assert table(result)[:2] == [["n"], ["0"]]
    assert table(result)[50] == ["49"]
    assert result.stdout.splitlines()[51:] == ["… and 40 more rows; --format csv has all"]


def test_what_looks_like_markup_is_shown_as_it_is(script: Script) -> None:
    gives(script, rows({"[bold]x": "[red]y[/]"}), done())
    assert table(search(script, "--format", "table")) == [["[bold]x"], ["[red]y[/]"]]


def test_no_rows_are_an_answer(script: Script) -> None:
    gives(script, progress(), done(matches=0, workers=[], retried=0))
    result = search(script)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "0 matches in 3.2 GB, 48 chunks in one process, 2.31 s (1.39 GB/s)\n"
    assert search(script, "--format", "table").stdout == "no rows\n"
    assert search(script, "--format", "csv").stdout == ""


# Files with problems


def test_files_with_problems_are_named_and_the_exit_code_says_so(script: Script, elsewhere: Path) -> None:
    problems = [problem("/logs/a\x1b.ndjson", lines=3), problem("s3://b/c.gz", "it ends too early", 0)]
    gives(script, rows(FIRST), done(status="partial", problems=problems))
    for arguments in ((), ("--format", "csv"), ("--format", "table"), ("--output", "rows.ndjson")):
        result = search(script, *arguments)
        assert result.exit_code == 85
        assert result.stderr.splitlines() == [
            "the answer is partial: 2 files could not be searched in full",
            "  /logs/a\\x1b.ndjson: it is no JSON (3 lines)",
            "  s3://b/c.gz: it ends too early",
            SUMMARY.rstrip(),
        ]
        assert result.stdout or (elsewhere / "rows.ndjson").stat().st_size


def test_of_many_files_with_problems_the_first_are_named(script: Script) -> None:
    gives(script, done(status="partial", problems=[problem(f"/{number}") for number in range(1_012)]))
    lines = search(script).stderr.splitlines()
    assert lines[0] == "the answer is partial: 1,012 files could not be searched in full"
    assert lines[10:] == ["  /9: it is no JSON (1 line)", "  and 1,002 more", SUMMARY.rstrip()]


def test_a_file_is_counted_once_and_those_that_are_left_out_are_told(script: Script) -> None:
    problems = [problem("/a"), problem("/a", "cut off", 0), problem("/b"), problem("", "7 more problems", 0)]
    gives(script, done(status="partial", problems=problems))
    lines = search(script).stderr.splitlines()
    assert lines[0] == "the answer is partial: more than 2 files could not be searched in full"
    assert lines[4] == "  7 more problems"


# Errors


def test_an_error_at_the_end_is_told_with_its_exit_code(script: Script, elsewhere: Path) -> None:
    gives(script, rows(FIRST), failed("resource_exhausted", "the search failed", "no room", "ask for less"))
    told = "quarterdeck: the search failed: no room; ask for less\n"
    shown = search(script)
    assert (shown.exit_code, json.loads(shown.stdout)) == (82, FIRST)
    assert shown.stderr == f"what was shown is not the whole answer\n{told}"
    for arguments in (("--format", "csv"), ("--format", "table"), ("--output", "rows.ndjson")):
        result = search(script, *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (82, "", told)
    assert list(elsewhere.iterdir()) == []


def test_a_search_that_is_wrong_is_shown_with_a_caret_under_the_place(script: Script) -> None:
    step = "write one:\n  level= | count() by\t\x1bhost\n         ^"
    wrong = error("invalid_argument", "the search was not understood", "line 1, column 8: expected a value", step)
    script.answers[SEARCH] = (400, wrong)
    result = search(script)
    assert result.exit_code == 65
    assert result.stderr.splitlines() == [
        "quarterdeck: the search was not understood: line 1, column 8: expected a value; write one:",
        "  level= | count() by \\x1bhost",
        "         ^",
    ]


def test_without_a_coordinator_there_is_one_more_thing_to_do() -> None:
    result = CliRunner().invoke(app, ["search", "*", "logs", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 69
    assert len(result.stderr.splitlines()) == 1
    assert "`quarterdeck up`" in result.stderr
    assert "--local searches without one" in result.stderr


def cuts() -> dict[str, tuple[bytes, bool]]:
    """Ways in which an answer ends before its end: what came, and whether HTTP says that it was all."""
    end = done()
    return {
        "before anything": (b"", True),
        "after some rows": (rows(FIRST), True),
        "within a row": (rows(FIRST) + rows(SECOND)[:-10], True),
        "within the end": (rows(FIRST) + end[:-1], True),
        "before anything, connection lost": (b"", False),
        "after some rows, connection lost": (rows(FIRST), False),
        "within the end, connection lost": (rows(FIRST) + end[:-20], False),
    }


@pytest.mark.parametrize(("sent", "finish"), cuts().values(), ids=cuts())
@pytest.mark.parametrize("arguments", [(), ("--format", "csv"), ("--format", "table"), ("--output", "o.ndjson")])
def test_an_answer_that_was_cut_off_is_an_error(
    script: Script, elsewhere: Path, sent: bytes, finish: bool, arguments: tuple[str, ...]
) -> None:
    gives(script, *([sent] if sent else []), finish=finish)
    result = search(script, *arguments)
    assert result.exit_code == 69
    assert "the answer was cut off" in result.stderr
    assert ("not the whole answer" in result.stderr) == (result.stdout != "")
    assert not arguments or result.stdout == ""
    assert list(elsewhere.iterdir()) == []


def test_an_answer_is_whole_with_its_last_event_however_the_connection_ends(script: Script) -> None:
    gives(script, rows(FIRST), done(), finish=False)
    assert search(script).exit_code == 0


@pytest.mark.parametrize(
    "answer",
    [
        event("done", "{}"),
        event("done", "[]"),
        event("done", "{"),
        done(status="great"),
        done(status="error"),
        done(workers=3),
        progress(bytes=None) + done(),  # pyright: ignore[reportArgumentType] - as a stranger would
    ],
)
def test_events_that_are_not_understood_are_of_a_stranger(script: Script, answer: bytes) -> None:
    gives(script, answer)
    assert search(script).exit_code == 76


def test_an_answer_without_events_is_of_a_stranger(script: Script) -> None:
    script.answers[SEARCH] = (200, [])
    result = search(script)
    assert result.exit_code == 76
    assert "its answer is not a stream of events" in result.stderr


# Leaving early


def start(script: Script, *arguments: str, **streams: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "quarterdeck", "search", "*", "x", "--url", script.url, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b": nothing yet\n\n", "quarterdeck: interrupted: nothing was searched yet\n"),
        (
            progress(bytes_done=1_200_000_000, matches=17),
            "quarterdeck: interrupted: 1.2 of 3.2 GB were searched, with 17 matches so far\n",
        ),
    ],
)
def test_an_interrupt_hangs_up_and_says_how_far_it_came(
    script: Script, elsewhere: Path, sent: bytes, said: str
) -> None:
    gone = threading.Event()

    def answer(request: Request) -> None:
        begin(request)
        send(request, sent + rows(FIRST))
        if request.connection.recv(1) == b"":
            gone.set()

    script.answers[SEARCH] = answer
    with start(script, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()  # it reads events now
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == said
        assert process.wait(30) == 130
    assert gone.wait(30)


def test_a_reader_that_goes_away_ends_it_quietly(script: Script) -> None:
    gone = threading.Event()

    def answer(request: Request) -> None:
        begin(request)
        try:
            while True:
                send(request, rows(*([{"x": "y" * 1000}] * 100)))
        except OSError:
            gone.set()

    script.answers[SEARCH] = answer
    reading, writing = os.pipe()
    with start(script, stdout=writing) as process:
        os.close(writing)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) == 141
    assert gone.wait(30)


# Startup


def test_nothing_heavy_is_loaded_before_the_request_is_sent() -> None:
    script = (
        "import json, sys\nfrom quarterdeck.terminal import client\nfrom quarterdeck.command import app\n"
        "client.Client.post = lambda *_, **__: sys.exit(json.dumps(list(sys.modules)))\n"
        "app(['search', 'level=error', 'a', 'b', '--url', 'http://x', '--order', 'none'])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    heavy = {"asyncio", "duckdb", "numpy", "pyarrow", "pydantic", "re2", "rich"} | {
        "quarterdeck.search.engine",
        "quarterdeck.search.root",
    }
    assert set(json.loads(told.stderr)) & heavy == set()


# Help


def test_the_help_teaches_the_language() -> None:
    text = CliRunner().invoke(app, ["search", "--help"]).stdout
    assert """quarterdeck search 'level=error "timed out" | count() by host' logs/""" in text
    assert text.count("  quarterdeck search ") == 5
    assert "docs/search.md" in re.sub(r"\s+", " ", text)

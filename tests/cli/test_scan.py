"""`quarterdeck scan`: rows as a table, as text and in a file, and never a part of an answer for the whole."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs] - it has none
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from quarterdeck.terminal.sources import absolute
from tests.cli.scripted import QUERY_ID, Request, Script, arrow_stream, error, query, scripted_coordinator

files: Any = parquet
FIRST = {"host": ["a", "b", None], "n": [1, 20, 3]}
SECOND = {"host": ["a"], "n": [4]}


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        script.scan_gives(arrow_stream(FIRST, SECOND))
        yield script


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scan(script: Script, *arguments: str, sql: str = "select 1") -> Result:
    return CliRunner().invoke(app, ["scan", sql, "data", "--url", script.url, *arguments], env={"COLUMNS": "200"})


# What is asked


def test_the_request_has_what_was_asked_for(script: Script, elsewhere: Path) -> None:
    sources = ("logs/*.parquet", "s3://lake/x", "/abs")
    arguments = ["scan", "select 2", *sources, "--files-per-work", "7", "--timeout-s", "2.5", "--url", script.url]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    _, path, headers, document = script.asked[0]
    assert path == "/v1/scan"
    assert headers["accept"] == "application/vnd.apache.arrow.stream"
    assert document == {
        "sql": "select 2",
        "sources": [f"{elsewhere}/logs/*.parquet", "s3://lake/x", "/abs"],
        "files_per_work": 7,
        "timeout_s": 2.5,
        "format": "arrow",
    }


def test_a_path_is_seen_from_the_current_folder(elsewhere: Path) -> None:
    assert absolute("../x/*.parquet") == f"{elsewhere.parent}/x/*.parquet"
    assert absolute("file:///x") == "/x"


# What is shown


def test_rows_are_shown_as_a_table_and_how_they_came_on_stderr(script: Script) -> None:
    result = scan(script)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["┃", "host", "┃", "n", "┃"] in lines
    assert ["│", "a", "│", "1", "│"] in lines
    assert ["│", "null", "│", "3", "│"] in lines
    assert ["│", "a", "│", "4", "│"] in lines
    assert result.stderr.startswith("4 works on 2 workers, 2 attempts repeated, 4 rows in ")


def test_a_long_answer_is_shown_in_part_and_says_so(script: Script) -> None:
    script.scan_gives(arrow_stream({"n": list(range(40))}, {"n": list(range(40, 1080))}))
    result = scan(script)
    assert result.exit_code == 0
    assert "│   49 │" in result.stdout.replace("│ 49 │", "│   49 │")
    assert "│ 50 │" not in result.stdout
    assert "… and 1,030 more rows; --format csv or --output shows all" in result.stdout


def test_what_looks_like_markup_is_shown_as_it_is(script: Script) -> None:
    script.scan_gives(arrow_stream({"[bold]x": ["[red]y[/]"]}))
    result = scan(script)
    assert "[bold]x" in result.stdout
    assert "[red]y[/]" in result.stdout


def test_rows_as_csv(script: Script) -> None:
    result = scan(script, "--format", "csv")
    assert result.stdout == '"host","n"\n"a",1\n"b",20\n,3\n"a",4\n'


def test_rows_as_lines_of_json(script: Script) -> None:
    result = scan(script, "--format", "ndjson")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"host": "a", "n": 1},
        {"host": "b", "n": 20},
        {"host": None, "n": 3},
        {"host": "a", "n": 4},
    ]


def test_text_comes_as_the_rows_come(script: Script) -> None:
    """The second part is sent when the first was read from the other end."""
    stream = arrow_stream(FIRST, SECOND)
    first_was_read = threading.Event()

    def answer(request: Request) -> None:
        request.head(200, x_query_id=QUERY_ID, transfer_encoding="chunked")
        half = len(arrow_stream(FIRST, end=False))
        for part in (stream[:half], stream[half:]):
            request.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            assert first_was_read.wait(30)
        request.wfile.write(b"0\r\n\r\n")

    script.answers["/v1/scan"] = answer
    command = [sys.executable, "-m", "quarterdeck", "scan", "select 1", "x", "--url", script.url, "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == '"host","n"\n'
        first_was_read.set()
        assert process.stdout.read().splitlines()[-1] == '"a",4'
    assert process.returncode == 0


def test_rows_in_a_file(script: Script, elsewhere: Path) -> None:
    result = scan(script, "--output", "rows.parquet")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert files.read_table("rows.parquet").to_pydict() == {"host": ["a", "b", None, "a"], "n": [1, 20, 3, 4]}
    assert [path.name for path in elsewhere.iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("arguments", [("--output", "rows.txt"), ("--output", "r.parquet", "--format", "csv")])
def test_a_file_is_parquet_and_nothing_else(script: Script, arguments: tuple[str, ...]) -> None:
    assert scan(script, *arguments).exit_code == 65
    assert script.asked == []


def test_a_file_that_cannot_be_written_is_told(script: Script) -> None:
    result = scan(script, "--output", "missing/rows.parquet")
    assert result.exit_code == 65
    assert "missing/rows.parquet was not written" in result.stderr


def test_an_answer_without_rows_is_an_answer(script: Script) -> None:
    script.scan_gives()
    script.answers[f"/v1/queries/{QUERY_ID}"] = (200, query(rows=0))
    result = scan(script)
    assert result.exit_code == 0
    assert result.stdout == "no rows\n"
    assert scan(script, "--format", "csv").stdout == ""
    assert scan(script, "--output", "rows.parquet").exit_code == 80
    assert scan(script, "--merge", "select count(*) from parts").exit_code == 65


# Merging


def test_rows_of_all_groups_are_merged_into_one_answer(script: Script) -> None:
    merge = "select host, sum(n)::int n from parts where host is not null group by host order by host"
    result = scan(script, "--merge", merge, "--format", "csv")
    assert result.exit_code == 0
    assert result.stdout == '"host","n"\n"a",5\n"b",20\n'
    assert " 4 rows in " in result.stderr


def test_parts_may_be_read_more_than_once(script: Script) -> None:
    merge = "select (select count(*) from parts) + (select sum(n) from parts)::int as n"
    assert scan(script, "--merge", merge, "--format", "csv").stdout == '"n"\n32\n'


def test_a_day_begins_in_a_merge_when_it_begins_on_the_workers(script: Script) -> None:
    merge = "select date_trunc('day', timestamptz '2026-11-02 02:00:00+00')::varchar d from parts limit 1"
    command = [sys.executable, "-m", "quarterdeck", "scan", "select 1", "data", "--url", script.url]
    done = subprocess.run(
        [*command, "--merge", merge, "--format", "csv"],
        env={**os.environ, "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == '"d"\n"2026-11-02 00:00:00+00"\n'


@pytest.mark.parametrize("merge", ["selec 1", "select 1; select 2", "drop table parts", "copy parts to 'x.csv'"])
def test_a_merge_that_is_no_select_is_told_before_anything_is_asked(
    script: Script, merge: str, elsewhere: Path
) -> None:
    result = scan(script, "--merge", merge)
    assert result.exit_code == 65
    assert "correct --merge" in result.stderr
    assert script.asked == []
    assert list(elsewhere.iterdir()) == []


def test_a_merge_of_columns_that_are_not_there_is_told_with_the_first_rows(script: Script) -> None:
    """The rest of the answer never comes, and nobody waits for it."""
    script.scan_gives(arrow_stream(FIRST, end=False), finish=False)
    result = scan(script, "--merge", "select nothing from parts")
    assert result.exit_code == 65
    assert 'Referenced column "nothing" not found' in result.stderr


def test_a_merge_that_fails_while_it_runs_is_told(script: Script) -> None:
    result = scan(script, "--merge", "select host::int from parts")
    assert result.exit_code == 65
    assert "cannot be merged" in result.stderr


# Errors


def test_an_error_of_the_coordinator_is_told_in_one_line_with_its_exit_code(script: Script) -> None:
    script.answers["/v1/scan"] = (422, error("work_failed", "query 1 failed", "the SQL is wrong", "correct it"))
    result = scan(script)
    assert result.exit_code == 80
    assert result.stderr == "quarterdeck: query 1 failed: the SQL is wrong; correct it\n"
    assert result.stdout == ""


def test_no_coordinator_is_told_in_one_line() -> None:
    result = CliRunner().invoke(app, ["scan", "select 1", "x", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 69
    assert len(result.stderr.splitlines()) == 1


def cuts() -> dict[str, tuple[bytes, bool]]:
    """Ways in which an answer ends before its end: what came, and whether HTTP says that it was all."""
    whole = arrow_stream(FIRST, SECOND)
    without_marker = arrow_stream(FIRST, SECOND, end=False)
    after_first = arrow_stream(FIRST, end=False)
    return {
        "within the end marker": (whole[:-1], True),
        "before the end marker": (without_marker, True),
        "after the first batch": (after_first, True),
        "within the second batch": (whole[: len(after_first) + 11], True),
        "within the schema": (whole[:5], True),
        "before anything": (b"", True),
        "before the end marker, connection lost": (without_marker, False),
        "after the end marker, connection lost": (whole, False),
        "within the schema, connection lost": (whole[:5], False),
        "before anything, connection lost": (b"", False),
        "something else": (b"not Arrow at all, and long enough", True),
        "more than the end": (whole + b"more", True),
    }


@pytest.mark.parametrize(("sent", "finish"), cuts().values(), ids=cuts())
@pytest.mark.parametrize("arguments", [(), ("--format", "csv"), ("--output", "o.parquet"), ("--merge", "from parts")])
def test_an_answer_that_was_cut_off_is_an_error(
    script: Script, elsewhere: Path, sent: bytes, finish: bool, arguments: tuple[str, ...]
) -> None:
    script.scan_gives(*([sent] if sent else []), finish=finish)
    result = scan(script, *arguments)
    assert result.exit_code == 69
    assert "the answer was cut off" in result.stderr
    assert "┃" not in result.stdout
    assert list(elsewhere.iterdir()) == []


def test_why_an_answer_was_cut_off_is_what_became_of_the_query(script: Script) -> None:
    script.scan_gives(arrow_stream(FIRST, end=False), finish=False)
    failed = query(state="failed", error={"code": "attempts_exhausted", "message": "worker-1 was lost three times"})
    script.answers[f"/v1/queries/{QUERY_ID}"] = (200, failed)
    result = scan(script, "--format", "csv")
    assert result.exit_code == 81
    assert "worker-1 was lost three times" in result.stderr
    assert result.stdout.startswith('"host","n"\n')


def test_what_became_of_the_query_is_waited_for(script: Script) -> None:
    script.scan_gives(arrow_stream(FIRST, end=False), finish=False)
    states = [query(state="running"), query(state="failed", error={"code": "work_failed", "message": "too bad"})]
    script.answers[f"/v1/queries/{QUERY_ID}"] = lambda request: request.whole(200, json.dumps(states.pop(0)).encode())
    assert scan(script).exit_code == 80


def test_an_answer_that_was_cut_off_when_its_time_was_over_says_so(script: Script) -> None:
    script.scan_gives(arrow_stream(FIRST, end=False), finish=False)
    script.answers[f"/v1/queries/{QUERY_ID}"] = (200, query(state="canceled"))
    result = scan(script, "--timeout-s", "0.001")
    assert result.exit_code == 124
    assert "it had 0.001 s" in result.stderr


def test_an_answer_of_a_coordinator_that_died_is_an_error(script: Script) -> None:
    script.scan_gives(arrow_stream(FIRST, end=False), finish=False)
    script.answers[f"/v1/queries/{QUERY_ID}"] = lambda request: request.connection.close()
    result = scan(script)
    assert result.exit_code == 69
    assert "the coordinator is gone" in result.stderr


def test_an_answer_is_whole_even_if_nobody_can_tell_how_it_came_about(script: Script) -> None:
    script.answers[f"/v1/queries/{QUERY_ID}"] = (404, error("not_found", "query 1 is not known"))
    result = scan(script)
    assert result.exit_code == 0
    assert result.stderr.startswith("4 rows in ")
    assert result.stderr.endswith("; query 1 is not known\n")


def test_an_answer_of_no_query_is_of_no_coordinator(script: Script) -> None:
    script.answers["/v1/scan"] = lambda request: request.whole(200, arrow_stream(FIRST))
    assert scan(script).exit_code == 76


def start(script: Script, *arguments: str, **streams: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "quarterdeck", "scan", "select 1", "x", "--url", script.url, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)


def test_an_interrupt_ends_it_and_the_query(script: Script) -> None:
    asked, gone = threading.Event(), threading.Event()

    def answer(request: Request) -> None:
        asked.set()
        if request.connection.recv(1) == b"":
            gone.set()

    script.answers["/v1/scan"] = answer
    with start(script) as process:
        assert asked.wait(30)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == "quarterdeck: interrupted\n"
        assert process.wait(30) == 130
    assert gone.wait(30)


def test_a_reader_that_goes_away_ends_it_quietly(script: Script) -> None:
    script.scan_gives(arrow_stream({"text": ["x" * 1000] * 1000}, {"text": ["x" * 1000] * 1000}))
    reading, writing = os.pipe()
    with start(script, "--format", "csv", stdout=writing) as process:
        os.close(writing)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) == 141

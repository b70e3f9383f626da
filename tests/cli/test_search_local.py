"""`quarterdeck search --local`: the same answers, lines and exit codes, with nobody to ask."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
from typer.testing import CliRunner, Result

from quarterdeck.command import app

arrow: Any = pyarrow
arrow_files: Any = parquet
NOWHERE = ("--url", "http://127.0.0.1:1")


def record(number: int) -> dict[str, Any]:
    level = "error" if number % 10 == 0 else "info"
    return {"ts": f"2026-01-31T12:00:{number % 60:02}Z", "level": level, "host": f"web-{number % 3}", "n": number}


def lines(numbers: range) -> bytes:
    return b"".join(json.dumps(record(number)).encode() + b"\n" for number in numbers)


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three hundred records in three files, one of each kind."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.ndjson").write_bytes(lines(range(100)))
    (folder / "b.ndjson.gz").write_bytes(gzip.compress(lines(range(100, 200))))
    arrow_files.write_table(
        arrow.Table.from_pylist([record(number) for number in range(200, 300)]), folder / "c.parquet"
    )
    return folder


def search(query: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["search", query, "logs", "--local", *NOWHERE, *arguments])


def found(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_records_of_all_kinds_of_files_are_found() -> None:
    result = search("level=error", "--order", "input")
    assert result.exit_code == 0
    assert [row["n"] for row in found(result)] == list(range(0, 300, 10))
    assert result.stderr.startswith("30 matches in ")
    assert " in one process, " in result.stderr


def test_results_are_whole() -> None:
    assert found(search("| count() by host")) == [{"host": f"web-{number}", "count": 100} for number in range(3)]


def test_what_was_asked_for_counts(logs: Path) -> None:
    times = ("--start", "2026-01-31T12:00:10Z", "--end", "2026-01-31T12:00:11Z", "--time-field", "ts")
    result = search(
        "*", *times, "--max-workers", "1", "--timeout-s", "60", "--order", "input", "--output", "rows.ndjson"
    )
    assert (result.exit_code, result.stdout) == (0, "")
    rows = [json.loads(line) for line in (logs.parent / "rows.ndjson").read_text().splitlines()]
    assert [row["n"] for row in rows] == [10, 70, 130, 190, 250]


def test_lines_that_are_no_records_are_told(logs: Path) -> None:
    with (logs / "a.ndjson").open("ab") as file:
        file.write(b"no record\n")
    result = search("level=error | count()")
    assert (result.exit_code, found(result)) == (85, [{"count": 30}])
    assert f"  {logs}/a.ndjson: " in result.stderr
    assert "(1 line)" in result.stderr


def test_a_search_that_is_wrong_is_shown_with_a_caret_under_the_place() -> None:
    result = search("level= | count()")
    assert result.exit_code == 65
    [first, text, caret] = result.stderr.splitlines()
    assert first.startswith("quarterdeck: the search was not understood: line 1, column 8: ")
    assert text[caret.index("^")] == "|"


def test_a_source_without_files_is_told() -> None:
    result = CliRunner().invoke(app, ["search", "*", "nothing", "--local"])
    assert result.exit_code == 66
    assert "nothing" in result.stderr


def test_a_field_that_no_record_has_is_told() -> None:
    assert search("hots=web-1").exit_code == 65


def test_time_that_is_over_is_told() -> None:
    assert search("*", "--timeout-s", "0.001").exit_code == 124


def test_a_reader_that_goes_away_ends_it_quietly(logs: Path) -> None:
    (logs / "big.ndjson").write_bytes(lines(range(50_000)))
    command = [sys.executable, "-m", "quarterdeck", "search", "*", "logs", "--local", *NOWHERE]
    reading, writing = os.pipe()
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, text=True) as process:
        os.close(writing)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) == 141


def test_wrong_settings_of_a_bucket_are_no_coordinator_that_was_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_COORDINATOR_S3__ENDPOINT", "http://127.0.0.1:1")
    result = CliRunner().invoke(app, ["search", "*", "s3://bucket/logs", "--local"])
    assert result.exit_code == 65
    assert result.stderr.startswith("quarterdeck: the bucket was not asked, because its settings are wrong:\n")

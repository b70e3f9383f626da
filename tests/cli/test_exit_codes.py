"""Bad input has one exit code, whatever was wrong with it and whoever noticed; docs/exit-codes.md lists all codes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quarterdeck.command import app
from quarterdeck.core.errors import ERROR_TABLE, PARTIAL_EXIT_CODE, ErrorCode

PAGE = Path(__file__).parents[2] / "docs/exit-codes.md"
BAD_INPUT = ERROR_TABLE[ErrorCode.INVALID_ARGUMENT].exit_code


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing-like-it",),
        ("--nothing-like-it",),
        ("query",),
        ("query", "up", "--nothing-like-it"),
        ("query", "up", "--format", "x"),
        ("query", "up", "--at", "now", "--step", "1m"),
        ("query", "up", "--at", "yesterday"),
        ("query", "up", "--last", "x"),
        ("query", "up", "--url", "x"),
        ("explain", "sum("),
        ("explain", 'sum("a")'),
        ("explain", "up", "--last", "x"),
        ("scan", "select 1", "a.parquet", "--timeout-s", "x"),
        ("scan", "select 1", "a.parquet", "--merge", "selec 1"),
        ("scan", "select 1", "a.parquet", "--output", "a.csv"),
        ("search", "level=", "pyproject.toml", "--local"),
        ("search", "[yesterday, ]", "pyproject.toml", "--local"),
        ("search", "*", "pyproject.toml", "--local", "--start", "yesterday"),
        ("search", "*", "pyproject.toml", "--local", "--max-workers", "0"),
        ("import", "a.om", "--shards", "3"),
        ("import", "a.om", "--set", "x"),
        ("worker", "--slots", "x"),
        ("worker", "--set", "slots=x"),
        ("up", "--workers", "0"),
        ("simulate", "--seed", "x"),
        ("completion", "x"),
    ],
)
def test_bad_input_has_one_exit_code(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == BAD_INPUT, result.output
    assert result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("metrics", "--limit", "abc"), "Invalid value for '--limit': 'abc' is not a valid integer\n"),
        (("metrics", "--limit", "0"), "Invalid value for '--limit': '0' is not greater than or equal to 1\n"),
        (("scan", "x", "y", "--timeout-s", "x"), "Invalid value for '--timeout-s': 'x' is not a valid number\n"),
        (("query", "up", "--format", "x"), "'--format': 'x' is not one of 'chart', 'table', 'json', 'csv'."),
        (("query", "up", "--at", "x"), "--at was not understood: 'x': it is not a time; write it as in "),
        (("query", "up", "--at", "9999999999999"), "'9999999999999': so many seconds since 1970 are too"),
        (("query", "up", "--last", "x"), "--last was not understood: 'x': it is not a length of time; write it as in "),
    ],
)
def test_bad_input_is_told_in_plain_words_with_what_was_typed(arguments: tuple[str, ...], told: str) -> None:
    assert told in CliRunner().invoke(app, list(arguments)).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "up{job='\udcff'}"),
        ("metrics", "\udcff"),
        ("status", "--url", "http://\udcff"),
        ("import", "a.om", "--tenant", "\udcff"),
        ("scan", "select 1", "a.parquet", "--merge", "\udcff"),
        ("up", "--data-dir", "\udcff"),
        ("\udcff",),
    ],
)
def test_what_is_no_text_is_bad_input_at_every_door(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == BAD_INPUT, result.exception
    assert "is not text in the encoding utf-8" in result.stderr


def test_a_terminal_without_utf_8_is_told_and_gets_no_traceback() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "quarterdeck", "explain", "sum(up)"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == BAD_INPUT, told.stderr
    assert "cannot be written in the encoding ascii; set LANG" in told.stderr
    assert "Traceback" not in told.stderr


def test_the_page_lists_the_exit_code_of_every_failure() -> None:
    listed = {int(code): name for code, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)}
    assert listed == {row.exit_code: code.value for code, row in ERROR_TABLE.items()}


def test_a_partial_answer_has_an_exit_code_that_no_failure_has() -> None:
    taken = {row.exit_code for row in ERROR_TABLE.values()} | {0, 1, 2, 141}
    assert PARTIAL_EXIT_CODE not in taken
    assert f"**{PARTIAL_EXIT_CODE}**: a search whose answer is **partial**" in PAGE.read_text()
    assert f"exit code {PARTIAL_EXIT_CODE}" in " ".join(CliRunner().invoke(app, ["search", "--help"]).stdout.split())


def test_the_help_leads_to_the_page() -> None:
    assert "docs/exit-codes.md" in CliRunner().invoke(app, ["--help"]).stdout

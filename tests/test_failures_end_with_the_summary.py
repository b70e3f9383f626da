"""A test that fails ends the output with its failure and the summary: nothing of what the libraries say at the end."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAILING = """
import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.engines.sql_bounds import check_sql

def test_that_fails_with_a_database_open():
    database = duckdb.connect()
    rows = database.sql("select 42 as answer")
    assert rows.fetchall() == [(41,)]

texts = st.lists(st.sampled_from(["a", "'"]), max_size=60).map("".join)

@given(st.one_of(texts, st.text(max_size=20)))
def test_that_fails_for_some_text(text):
    database = duckdb.connect()
    rows = database.sql("select 42 as answer")
    check_sql("select 1")
    assert len(text) < 5

def test_that_fails_in_another_thread():
    from concurrent.futures import ThreadPoolExecutor

    database = duckdb.connect()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: database.sql("select nothing")).result()
"""


@pytest.mark.parametrize("processes", [(), ("-n1",)])
def test_the_last_line_is_the_summary(tmp_path: Path, processes: tuple[str, ...]) -> None:
    path = tmp_path / "test_failing.py"
    path.write_text(FAILING)
    beside = str(ROOT / "tests/engines/test_sql_bounds.py")  # of which Hypothesis keeps something to the end
    command = [
        "-q",
        "-k",
        "fails or any_text",
        "--rootdir",
        str(ROOT),
        "-c",
        str(ROOT / "pyproject.toml"),
        *processes,
    ]
    told = subprocess.run(
        [sys.executable, "-m", "pytest", *command, "-p", "no:cacheprovider", str(path), beside],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert told.returncode == pytest.ExitCode.TESTS_FAILED, told.stdout
    assert "leaked" not in told.stdout
    assert told.stdout.splitlines()[-1].startswith("3 failed, 1 passed")

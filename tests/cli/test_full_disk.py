"""A full disk is called a full disk at every door: with the folder, how much is free there, and what to do."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from obstore.exceptions import GenericError
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError
from quarterdeck.engines.duckdb_errors import translated
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.object_errors import told_with
from tests.small_disk import a_disk, fill

FULL = ERROR_TABLE[ErrorCode.RESOURCE_EXHAUSTED].exit_code


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with a_disk("size=256k", tmp_path, in_sight=True) as folder:
        yield folder


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    chance = random.Random(1)
    samples = (f'm{{s="{s}"}} {chance.random()} {1_700_000_000 + t * 15}\n' for s in range(100) for t in range(500))
    path = tmp_path / "m.om"
    path.write_text("# TYPE m gauge\n" + "".join(samples) + "# EOF\n")
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    chance = random.Random(1)
    path = tmp_path / "big.ndjson"
    path.write_text("".join(json.dumps({"n": n, "msg": chance.randbytes(40).hex()}) + "\n" for n in range(8_000)))
    return path


def check(result: Result, *folders: str) -> None:
    assert result.exit_code == FULL, result.output
    assert "the disk is full" in result.stderr
    assert "256.0 KiB are free in" in result.stderr
    assert "free space there" in result.stderr
    assert "endpoint" not in result.stderr


def test_an_import_into_a_lake_on_a_full_disk(small_disk: Path, metrics: Path, tmp_path: Path) -> None:
    words = ("--data-dir", str(tmp_path / "data"), "--set", f"metrics.lake_url={small_disk}/lake")
    result = CliRunner().invoke(app, ["import", str(metrics), *words])
    check(result)
    assert f"{small_disk}/lake" in result.stderr


def test_an_import_with_its_catalog_on_a_full_disk(small_disk: Path, metrics: Path, tmp_path: Path) -> None:
    fill(small_disk)
    words = ("--data-dir", str(tmp_path / "data"), "--set", f"database_url=sqlite:///{small_disk}/catalog.db")
    result = CliRunner().invoke(app, ["import", str(metrics), *words])
    check(result)
    assert f"the database {small_disk}/catalog.db has no room" in result.stderr


@pytest.mark.parametrize("lines", [400, 100_000], ids=["at its end", "in the middle"])
def test_a_copy_of_standard_input_on_a_full_disk(small_disk: Path, tmp_path: Path, lines: int) -> None:
    fill(small_disk, leaving=4096)
    words = (sys.executable, "-m", "quarterdeck", "import", "-", "--data-dir", str(tmp_path / "data"))
    told = subprocess.run(
        words,
        input="".join(f"a_metric {n} {n}\n" for n in range(lines)),
        env={**os.environ, "TMPDIR": str(small_disk)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == FULL, told.stderr
    why = f"it could not be copied into {small_disk}, the folder for temporary files: No space left on device"
    assert f"standard input was not imported: {why}" in told.stderr
    assert "TMPDIR" in told.stderr
    assert [path.name for path in small_disk.iterdir()] == ["filling"]


def test_the_rows_of_a_search_into_a_file_on_a_full_disk(small_disk: Path, logs: Path) -> None:
    words = ("--local", "--order", "none", "--output", str(small_disk / "out.ndjson"))
    check(CliRunner().invoke(app, ["search", "*", str(logs), *words]))


@pytest.mark.parametrize(
    "words", [("explain", "up"), ("completion", "bash"), ("--help",), ("import", "--list", "--data-dir", ".")]
)
@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
def test_output_that_a_shell_leads_to_a_full_disk(words: tuple[str, ...], buffered: bool, tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        told = subprocess.run(
            [sys.executable, "-m", "quarterdeck", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"},
            check=False,
        )
    assert "Traceback" not in told.stderr
    assert "the disk is full" in told.stderr
    assert told.returncode == FULL


def test_a_data_folder_on_a_full_disk(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(
        QuarterdeckError, match=r"the data folder .* cannot be used: there is no room: the disk is full"
    ):
        DataFolder(small_disk / "data").__enter__()
    assert not (small_disk / "data").exists() or not list((small_disk / "data").glob("*.json"))


def test_what_a_store_tells_as_a_text_is_a_full_disk_too(tmp_path: Path) -> None:
    text = f"Generic LocalFileSystem error: Unable to write {tmp_path}/a: No space left on device (os error 28)"
    for url in (f"{tmp_path}/a", f"file://{tmp_path}/a", "s3://lake/a"):
        for error in (GenericError(text), OSError(text)):
            with pytest.raises(QuarterdeckError) as raised, told_with(url):
                raise error
            assert raised.value.code is ErrorCode.RESOURCE_EXHAUSTED
            assert "no room" in raised.value.why
            assert "free space" in raised.value.next_step


def test_what_duckdb_puts_aside_on_a_full_disk() -> None:
    told = translated(duckdb.IOException('IO Error: Could not write file "x": No space left on device'), ())
    assert told.code is ErrorCode.RESOURCE_EXHAUSTED
    assert told.retryable, "another worker may have room"
    assert "the disk is full" in told.why

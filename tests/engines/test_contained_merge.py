"""Merges in a process of their own: bounded in memory and disk, stopped when told to, and nothing left of them."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.cancel import CancelToken, WorkCanceledError
from quarterdeck.engines.contained_merge import ContainedMerger
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.scan_file import PathColumn
from quarterdeck.engines.sql_plan import Plan
from quarterdeck.engines.sql_way import Way
from tests.engines.divided import LIMITS, write
from tests.engines.idle_processes import one_host_of, only_its_host
from tests.engines.lake import ScanFile

MIB = 1024 * 1024
_pa: Any = pyarrow
_pq: Any = pyarrow.parquet


@pytest.fixture(scope="module")
def one_host() -> Iterator[ContainedMerger]:
    merger = ContainedMerger(
        limits_named="memory and disk of it", at_once=1, memory_limit_bytes=48 * MIB, spill_bytes=512 * MIB
    )
    with one_host_of(merger):
        yield merger


@pytest.fixture
def merger(one_host: ContainedMerger) -> Iterator[ContainedMerger]:
    with only_its_host(one_host):
        yield one_host


@pytest.fixture(scope="module")
def scanner() -> Iterator[DuckDbScanner]:
    scanner = DuckDbScanner(LIMITS)
    scanner.warm_up()
    yield scanner
    scanner.close()


def parts_of(plan: Plan, scanner: DuckDbScanner, folder: Path, files: Sequence[str]) -> list[Path]:
    paths: list[Path] = []
    for number, sql in enumerate(files):
        source, path = folder / f"{number}.parquet", folder / f"part{number}.parquet"
        write(sql, source)
        with (
            scanner.scan(plan.part_sql, [ScanFile(source, "file")], CancelToken(), part=plan.checks) as rows,
            _pq.ParquetWriter(path, rows.schema) as writer,
        ):
            for batch in rows:
                writer.write_batch(batch)
        paths.append(path)
    (folder / "spill").mkdir()
    return paths


def test_what_does_not_fit_into_memory_goes_to_disk_and_is_gone_afterwards(
    merger: ContainedMerger, scanner: DuckDbScanner, tmp_path: Path
) -> None:
    plan = merger.plan("SELECT id, min(text) t FROM files GROUP BY id ORDER BY t", CancelToken())
    assert plan.merge is not None
    source = "SELECT range AS id, md5(range::VARCHAR) || md5((range + 1)::VARCHAR) AS text FROM range(800000)"
    paths = parts_of(plan, scanner, tmp_path, [source, source])
    with merger.merge(plan.merge, paths, tmp_path / "spill", CancelToken()) as rows:
        assert rows.schema.names == ["id", "t"]
        texts = [text for batch in rows for text in batch.column(1).to_pylist()]
    assert len(texts) == 800_000
    assert texts == sorted(texts)
    assert list((tmp_path / "spill").iterdir()) == []


def test_more_than_memory_and_disk_is_an_error_that_says_so(scanner: DuckDbScanner, tmp_path: Path) -> None:
    merger = ContainedMerger(
        limits_named="memory and disk of it", at_once=1, memory_limit_bytes=24 * MIB, spill_bytes=4 * MIB
    )
    try:
        plan = merger.plan("SELECT id, min(text) t FROM files GROUP BY id ORDER BY t", CancelToken())
        assert plan.merge is not None
        source = "SELECT range AS id, md5(range::VARCHAR) || md5((range + 1)::VARCHAR) AS text FROM range(800000)"
        paths = parts_of(plan, scanner, tmp_path, [source])
        with (
            pytest.raises(QuarterdeckError) as caught,
            merger.merge(plan.merge, paths, tmp_path / "spill", CancelToken()) as rows,
        ):
            list(rows)
        assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
        assert "raise memory and disk of it" in caught.value.next_step
        assert "duckdb_memory_bytes" not in str(caught.value)
    finally:
        merger.close()


def test_a_merge_stops_when_it_is_told_to(merger: ContainedMerger, scanner: DuckDbScanner, tmp_path: Path) -> None:
    slow = "levenshtein(repeat(a::VARCHAR, 30), repeat('b', 2000)) > 0"  # a second for 2,048 rows
    plan = merger.plan(f"SELECT a, count(*) FROM files GROUP BY a HAVING {slow}", CancelToken())
    assert plan.merge is not None
    paths = parts_of(plan, scanner, tmp_path, ["SELECT 10000000 + range AS a FROM range(100000)"])
    token, began = CancelToken(), threading.Event()

    def stop() -> None:
        began.wait()
        token.cancel()

    def merge() -> None:
        assert plan.merge is not None
        with merger.merge(plan.merge, paths, tmp_path / "spill", token) as rows:
            began.set()
            list(rows)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(WorkCanceledError):
        merge()
    thread.join()
    assert merger.plan("SELECT 1", CancelToken()).way is Way.CONSTANT


def test_sql_that_does_more_than_read_is_refused(merger: ContainedMerger) -> None:
    for sql in ("DELETE FROM files", "SELECT 1; SELECT 2", "SELECT * FROM read_csv('/etc/passwd')", "SELEC 1"):
        with pytest.raises(QuarterdeckError) as caught:
            merger.plan(sql, CancelToken())
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT


COLUMNS = (PathColumn("day", "DATE"), PathColumn("n", "BIGINT"))
VALUES: list[tuple[str | None, ...]] = [("2026-11-01", "1"), ("2026-11-02", "2"), (None, "3")]


HAVE_ROWS: list[tuple[str, list[int] | None]] = [
    ("day >= '2026-11-02'", [1]),
    ("files.day >= '2026-11-02' AND v = 3", [1]),
    ("day IS NULL OR n = 1", [0, 2]),
    ("n IN (1, 3) AND NOT n = 3", [0]),
    ("day BETWEEN '2026-10-01' AND DATE '2026-11-01' + 1", [0, 1]),
    ("day > '2027-01-01'", []),
    ("day > '2026-11-01' OR v = 1", None),
    ("v = 1", None),
    ("n = 1 + random()", None),
    ("n = (SELECT 1)", None),
    ("day > 'no day'", None),
    ("list_extract([1], n) = 1", None),
]
"""Conditions, and the places of the files that may have rows for them; None is all of them."""


def test_only_files_that_certainly_have_no_rows_are_left_out(merger: ContainedMerger) -> None:
    for where, kept in HAVE_ROWS:
        got = merger.kept_files(f"SELECT * FROM files WHERE {where}", COLUMNS, VALUES, CancelToken())
        assert (where, got) == (where, kept)


def test_a_name_that_may_mean_a_result_leaves_no_file_out(merger: ContainedMerger) -> None:
    for sql in ("SELECT 1 AS n FROM files WHERE n = 1", "SELECT * FROM files JOIN range(3) r(n) ON true WHERE n = 1"):
        assert merger.kept_files(sql, COLUMNS, VALUES, CancelToken()) is None

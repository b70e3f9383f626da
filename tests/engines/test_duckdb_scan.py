"""SQL over Parquet files: what comes out, what is said when nothing can, and how soon it stops."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.cancel import CancelToken, WorkCanceledError
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.scan_file import ScanFile
from tests.engines.lake import Scanner, data_page_offset, overwrite, rows_of, write_parquet

MIB = 1024 * 1024
BILLIONS = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3"
ENDLESS_ROWS = "SELECT a.range + b.range AS n FROM range(10000000) a, range(10000000) b"


def failure_of(run: Callable[[], object]) -> QuarterdeckError:
    with pytest.raises(QuarterdeckError) as caught:
        run()
    assert "\n" not in caught.value.message
    return caught.value


def test_the_files_are_one_table(scanner: Scanner, tmp_path: Path) -> None:
    first = write_parquet(tmp_path / "a.parquet", {"ts": [1, 2], "v": [0.5, 1.5]})
    second = write_parquet(tmp_path / "b.parquet", {"ts": [3], "v": [2.5]})
    assert rows_of(scanner, "SELECT count(*), max(ts), sum(v) FROM files", first, second) == [(3, 3, 4.5)]


def test_columns_are_united_by_name(scanner: Scanner, tmp_path: Path) -> None:
    first = write_parquet(tmp_path / "a.parquet", {"ts": [1], "level": ["warn"]})
    second = write_parquet(tmp_path / "b.parquet", {"node": ["n1"], "ts": [2]})
    rows = rows_of(scanner, "SELECT ts, level, node FROM files ORDER BY ts", first, second)
    assert rows == [(1, "warn", None), (2, None, "n1")]


def test_sql_without_files_is_computed_too(scanner: Scanner) -> None:
    assert rows_of(scanner, "SELECT 1 AS one") == [(1,)]


def test_the_schema_is_known_when_there_are_no_rows(scanner: Scanner, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a.parquet", {"ts": [1], "v": [0.5]})
    with scanner.scan("SELECT v, ts FROM files WHERE ts > 5", [file], CancelToken()) as rows:
        assert rows.schema.names == ["v", "ts"]
        assert sum(batch.num_rows for batch in rows) == 0


def test_the_column_filename_has_the_names_and_a_star_has_it_only_when_asked_for(
    scanner: Scanner, tmp_path: Path
) -> None:
    files = [write_parquet(tmp_path / f"{name}.parquet", {"v": [1]}) for name in ("a", "b")]
    rows = rows_of(scanner, "SELECT filename FROM files ORDER BY 1", *files, with_filename=True)
    assert rows == [("s3://lake/a.parquet",), ("s3://lake/b.parquet",)]
    assert rows_of(scanner, "SELECT filename FROM files ORDER BY 1", *files) == rows
    assert rows_of(scanner, "SELECT * FROM files WHERE filename LIKE '%a.%'", *files) == [(1,)]
    assert rows_of(scanner, "SELECT *, filename FROM files f LIMIT 1", *files) == [(1, "s3://lake/a.parquet")]
    by_all = "SELECT filename, count(*) AS n FROM files GROUP BY ALL ORDER BY ALL"
    assert rows_of(scanner, by_all, *files) == [("s3://lake/a.parquet", 1), ("s3://lake/b.parquet", 1)]
    both = "SELECT f.*, r.* FROM files f, range(1) r(filename)"
    assert rows_of(scanner, both, files[0]) == [(1, 0)]
    of_another = "WITH files AS (SELECT v + 1 AS v, filename FROM files) SELECT * FROM files"
    assert rows_of(scanner, of_another, files[0]) == [(2, "s3://lake/a.parquet")]
    assert rows_of(scanner, "SELECT * FROM files LIMIT 1", *files, with_filename=True) == [(1, "s3://lake/a.parquet")]


@pytest.mark.parametrize("name", ["a*.parquet", "a[1].parquet", "a?.parquet", "it's.parquet", "a b#%20é.parquet"])
def test_a_file_is_read_whatever_it_is_called(scanner: Scanner, tmp_path: Path, name: str) -> None:
    for other in ("a1.parquet", "ab.parquet"):
        write_parquet(tmp_path / other, {"v": [-1]})
    file = write_parquet(tmp_path / name, {"v": [7]})
    rows = rows_of(scanner, "SELECT v, filename FROM files", file, with_filename=True)
    assert rows == [(7, f"s3://lake/{name}")]


def test_a_day_begins_at_midnight_utc_on_every_machine(scanner: Scanner) -> None:
    assert rows_of(scanner, "SELECT (TIMESTAMPTZ '2026-01-01 23:30:00+00')::DATE::VARCHAR AS d") == [("2026-01-01",)]


def test_a_result_larger_than_the_memory_limit_is_streamed() -> None:
    scanner = DuckDbScanner(EngineLimits(2, 64 * MIB, 4))
    try:
        with scanner.scan("SELECT range AS a, repeat('x', 100) AS s FROM range(2000000)", (), CancelToken()) as rows:
            sizes = [(batch.num_rows, batch.nbytes) for batch in rows]
    finally:
        scanner.close()
    assert sum(count for count, _ in sizes) == 2_000_000
    assert sum(size for _, size in sizes) > 3 * 64 * MIB
    assert max(size for _, size in sizes) < 16 * MIB


def test_progress_is_told_while_rows_are_pulled(scanner: Scanner, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a.parquet", {"v": range(500_000)})
    with scanner.scan("SELECT v FROM files", [file], CancelToken()) as rows:
        fractions = [rows.fraction for _ in rows]
        fractions.append(rows.fraction)  # when it is over DuckDB does not know any more
    assert fractions == sorted(fractions)
    assert fractions[0] >= 0
    assert 0 < fractions[-1] <= 1


def test_queries_run_side_by_side(scanner: Scanner, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a.parquet", {"v": range(1000)})
    meeting = threading.Barrier(2)

    def scan_slowly(number: int) -> int:
        with scanner.scan(f"SELECT sum(v) + {number} AS s FROM files", [file], CancelToken()) as rows:
            meeting.wait(20)  # both are in the middle of a scan of the same file
            (batch,) = rows
            return batch.to_pylist()[0]["s"]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(scan_slowly, (1, 2))) == [499_501, 499_502]


# What is said when it fails


@pytest.mark.parametrize(
    "sql, why",
    [
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT nothing FROM files", '"nothing" not found'),
        ("SELECT * FROM elsewhere", "elsewhere does not exist"),
        ("SELECT nonsense(v) FROM files", "nonsense does not exist"),
        ("SELECT CAST(name AS DATE) FROM files", "Conversion Error"),
        ("SELECT error('oh no') FROM files", "oh no"),
        ("SELECT x'\N{LATIN SMALL LETTER E WITH ACUTE}'", "contains a non-hexadecimal character"),
        ("SELECT b'\N{EURO SIGN}'", "contains a non-binary character"),
    ],
)
def test_what_is_wrong_with_the_sql_is_said_in_one_line(scanner: Scanner, tmp_path: Path, sql: str, why: str) -> None:
    file = write_parquet(tmp_path / "a.parquet", {"v": [1], "name": ["x"]})
    error = failure_of(lambda: rows_of(scanner, sql, file))
    is_wrong = any(word in sql for word in ("SELEC ", "nothing", "elsewhere", "nonsense", " x'", " b'"))
    assert error.code is (ErrorCode.INVALID_ARGUMENT if is_wrong else ErrorCode.WORK_FAILED)
    assert not error.retryable
    # Python 3.11.2 loses a text that ends with half a character.
    assert why in error.message or (not sql.isascii() and "half a character" in error.message)


def test_an_error_after_the_first_rows_is_told_like_any_other(scanner: Scanner) -> None:
    sql = "SELECT CASE WHEN range = 3000000 THEN error('late') ELSE range END AS n FROM range(4000000)"
    rows_before = 0

    def read() -> None:
        nonlocal rows_before
        with scanner.scan(sql, (), CancelToken()) as rows:
            for batch in rows:
                rows_before += batch.num_rows

    error = failure_of(read)
    assert rows_before > 0
    assert error.code is ErrorCode.WORK_FAILED
    assert "late" in error.message


def _no_magic(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _broken_footer(path: Path) -> None:
    overwrite(path, -60, 20)


def _broken_page(path: Path) -> None:
    overwrite(path, data_page_offset(path, 0) + 60, 20_000)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _no_parquet(path: Path) -> None:
    path.write_text("name,level\nx,warn\n")


@pytest.mark.parametrize("damage", [_no_magic, _broken_footer, _broken_page, _empty, _no_parquet])
def test_a_damaged_file_is_named_as_the_user_knows_it(
    scanner: Scanner, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    files = [
        write_parquet(tmp_path / f"{name}.parquet", {"s": [f"{name}{number * 7919}" for number in range(20_000)]})
        for name in ("good", "bad", "fine")
    ]
    damage(files[1].path)
    error = failure_of(lambda: rows_of(scanner, "SELECT max(s) FROM files", *files))
    assert error.code is ErrorCode.WORK_FAILED
    assert not error.retryable
    assert "s3://lake/bad.parquet" in error.message
    assert str(tmp_path) not in error.message


def test_a_file_that_is_not_there_is_named_and_may_be_elsewhere(scanner: Scanner, tmp_path: Path) -> None:
    missing = ScanFile(tmp_path / "missing.parquet", "s3://lake/missing.parquet")
    error = failure_of(lambda: rows_of(scanner, "SELECT * FROM files", missing))
    assert error.code is ErrorCode.UNAVAILABLE
    assert error.retryable
    assert "s3://lake/missing.parquet" in error.message


def test_a_query_that_needs_too_much_memory_says_so() -> None:
    scanner = DuckDbScanner(EngineLimits(1, 32 * MIB, 4))
    try:
        error = failure_of(lambda: rows_of(scanner, "SELECT list(range ORDER BY hash(range)) AS l FROM range(5000000)"))
    finally:
        scanner.close()
    assert error.code is ErrorCode.RESOURCE_EXHAUSTED
    assert not error.retryable
    assert "memory" in error.message


# Stopping


def _seconds_to_stop(scanner: Scanner, sql: str, when: Callable[[threading.Event], None]) -> tuple[float, int]:
    """From the first cancel to the end, and the rows that were there by then."""
    token, pulling, ended = CancelToken(), threading.Event(), threading.Event()
    canceled_s = 0.0

    def cancel() -> None:
        nonlocal canceled_s
        when(pulling)
        canceled_s = time.monotonic()
        while not ended.is_set():  # as whoever waits for a thread does
            token.cancel()
            ended.wait(0.01)

    def pull() -> None:
        nonlocal row_count
        with scanner.scan(sql, (), token) as rows:
            for batch in rows:
                row_count += batch.num_rows
                pulling.set()

    canceler = threading.Thread(target=cancel)
    canceler.start()
    row_count = 0
    try:
        with pytest.raises(WorkCanceledError):
            pull()
        return time.monotonic() - canceled_s, row_count
    finally:
        ended.set()
        canceler.join()


def _at_once(pulling: threading.Event) -> None:
    pass


def _soon(pulling: threading.Event) -> None:
    pulling.wait(0.05)


def _while_pulling(pulling: threading.Event) -> None:
    assert pulling.wait(20)


@pytest.mark.parametrize(
    "sql, when",
    [(BILLIONS, _at_once), (BILLIONS, _soon), (ENDLESS_ROWS, _soon), (ENDLESS_ROWS, _while_pulling)],
)
def test_a_query_over_billions_of_rows_stops_within_50_ms(
    scanner: Scanner, sql: str, when: Callable[[threading.Event], None]
) -> None:
    def stops_in_time() -> bool:
        seconds, row_count = _seconds_to_stop(scanner, sql, when)
        assert row_count > 0 or when is not _while_pulling
        return seconds < 0.05

    # Once is enough: a machine that is busy with other things may be late, a query that does not listen always is.
    assert any(stops_in_time() for _ in range(20))


def test_a_query_that_was_canceled_before_it_began_does_not_begin(scanner: Scanner, tmp_path: Path) -> None:
    token = CancelToken()
    token.cancel()
    nowhere = ScanFile(tmp_path / "missing.parquet", "missing")
    with pytest.raises(WorkCanceledError), scanner.scan("no SQL either", [nowhere], token):
        pass


def test_leaving_a_scan_early_stops_it(scanner: Scanner) -> None:
    with scanner.scan(ENDLESS_ROWS, (), CancelToken()) as rows:
        next(iter(rows))
    assert rows_of(scanner, "SELECT 1 AS one") == [(1,)]


def test_what_the_reader_of_the_rows_raises_is_not_taken_for_the_engines(scanner: Scanner) -> None:
    def read() -> None:
        with scanner.scan(ENDLESS_ROWS, (), CancelToken()) as rows:
            next(iter(rows))
            raise OSError("the reader's own")

    with pytest.raises(OSError, match="the reader's own"):
        read()

"""The fence: what no SQL can do, though it is taken for a SELECT and though it is not; and whose database is whose."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.cancel import WorkCanceledError
from quarterdeck.engines.duckdb_sandbox import FileSet, Sandbox, Sandboxes
from quarterdeck.engines.duckdb_select import one_select
from quarterdeck.engines.limits import EngineLimits
from tests.engines.lake import Scanner, overwrite, read_parquet, rows_of, write_parquet
from tests.leaks import Snapshot

LIMITS = EngineLimits(threads=1, memory_limit_bytes=64 * 1024 * 1024, idle_databases=2)


@pytest.fixture
def sandboxes() -> Iterator[Sandboxes]:
    sandboxes = Sandboxes(LIMITS)
    yield sandboxes
    sandboxes.close()


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A database with one file, without the guard that lets only a SELECT pass."""
    folder = tmp_path_factory.mktemp("box")
    file = write_parquet(folder / "mine.parquet", {"v": [1]})
    write_parquet(folder / "other.parquet", {"v": [2]})
    (folder / "outside.parquet").symlink_to(folder / "other.parquet")
    sandboxes = Sandboxes(LIMITS)
    with sandboxes.lent(FileSet.of((file,), with_filename=False)) as sandbox:
        sandbox.show_files()
        sandboxes.warm_up()
        yield sandbox
    sandboxes.close()


def folder_of(box: Sandbox) -> Path:
    ((path,),) = box.connection.execute("SELECT current_setting('allowed_paths')[1]").fetchall()
    return Path(path).parent


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '{folder}/other.parquet'",
        "SELECT * FROM '{folder}/outside.parquet'",
        "SELECT * FROM '{folder}/*.parquet'",
        "SELECT * FROM read_parquet('{folder}/mine.parquet/../other.parquet')",
        "SELECT * FROM parquet_metadata('{folder}/other.parquet')",
        "SELECT * FROM read_parquet('https://example.org/a.parquet')",
        "COPY (SELECT 1) TO '{folder}/new.csv'",
        "COPY (SELECT 1) TO '/tmp/new.parquet' (FORMAT parquet)",
        "EXPORT DATABASE '{folder}/all'",
        "ATTACH '{folder}/new.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/etc/passwd']",
        "SET memory_limit = '1TB'",
        "SET threads = 64",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "CALL enable_logging()",
        "CREATE PERSISTENT SECRET s (TYPE http)",
    ],
)
def test_the_database_itself_refuses_everything_outside(box: Sandbox, sql: str) -> None:
    folder = folder_of(box)
    before = sorted(folder.iterdir())
    with pytest.raises((duckdb.PermissionException, duckdb.InvalidInputException, duckdb.IOException)):
        box.connection.execute(sql.format(folder=folder)).fetchall()
    assert sorted(folder.iterdir()) == before


def test_sql_does_not_see_variables_of_the_program(box: Sandbox) -> None:
    secret = read_parquet(folder_of(box) / "other.parquet")
    with pytest.raises(duckdb.CatalogException, match="secret does not exist"):
        box.connection.sql("SELECT * FROM secret")
    del secret


OVERWRITE = "WITH x AS (COPY (SELECT 1) TO '{path}' (FORMAT csv, USE_TMP_FILE false)) SELECT * FROM x"


def test_a_select_that_writes_would_pass_the_fence_and_is_refused_before(
    scanner: Scanner, box: Sandbox, tmp_path: Path
) -> None:
    theirs = folder_of(box) / "mine.parquet"
    box.connection.execute(OVERWRITE.format(path=theirs)).fetchall()
    assert theirs.read_bytes() != b"", "it is only the guard that keeps a file from being overwritten"
    assert theirs.stat().st_size < 10
    file = write_parquet(tmp_path / "a.parquet", {"v": [1]})
    before = file.path.read_bytes()
    with pytest.raises(QuarterdeckError, match="COPY_QUERY_NODE, which does more than read"):
        rows_of(scanner, OVERWRITE.format(path=file.path), file)
    assert file.path.read_bytes() == before


@pytest.mark.parametrize(
    "sql, why",
    [
        ("", "it holds 0 statements"),
        ("-- nothing", "it holds 0 statements"),
        ("SELECT 1; SELECT 2", "it holds 2 statements"),
        ("SELECT 1; DROP VIEW files", "it holds 2 statements"),
        ("INSERT INTO t VALUES (1)", "the kind INSERT"),
        ("COPY (SELECT 1) TO 'a.csv'", "the kind COPY"),
        ("ATTACH 'a.duckdb'", "the kind ATTACH"),
        ("INSTALL httpfs", "the kind LOAD"),
        ("SET threads = 64", "the kind SET"),
        ("CREATE TABLE t (a INT)", "the kind CREATE"),
        ("EXPLAIN ANALYZE SELECT 1", "the kind EXPLAIN"),
        ("CALL range(3)", "the kind CALL"),
        ("PRAGMA version", "the kind PRAGMA"),
        ("SELECT ?", "it has parameters (1)"),
        ("SELECT $name", "it has parameters (name)"),
        ("WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x", "which does more than read"),
        ("SELECT * FROM (WITH x AS (COPY (SELECT 1) TO 'a.csv') SELECT 1)", "which does more than read"),
        ("SELECT * FROM read_csv('/etc/passwd')", "the table function read_csv"),
        ("SELECT 1 WHERE 1 IN (SELECT a FROM Query('SELECT 1 AS a'))", "the table function query"),
        ("SELECT 1 LIMIT (SELECT a FROM json_execute_serialized_sql('{}'))", "the table function json_execute"),
        ("SELECT * FROM main.duckdb_settings()", "the table function duckdb_settings"),
        ("WITH x AS MATERIALIZED (FROM glob('*')) FROM x UNION ALL FROM x", "the table function glob"),
        pytest.param("SELECT " + "abs(" * 900 + "1" + ")" * 900, "nested too deep", id="deep"),
    ],
)
def test_only_one_select_that_reads_is_run(scanner: Scanner, sql: str, why: str) -> None:
    with pytest.raises(QuarterdeckError) as caught:
        rows_of(scanner, sql)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert not caught.value.retryable
    assert why in caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v FROM files",
        "FROM files",
        "TABLE files;",
        "VALUES (1), (2)",
        "DESCRIBE files",
        "SUMMARIZE files",
        "WITH x AS (SELECT v FROM files) SELECT a.v FROM x a JOIN x b USING (v)",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t",
        "SELECT * FROM range(3) UNION SELECT * FROM generate_series(1, 2)",
        "SELECT unnest([1, 2]) AS u, row_number() OVER (ORDER BY v) AS n FROM files",
        "SELECT * FROM files, unnest([1, 2]) AS t(x) QUALIFY row_number() OVER () = 1",
        "SELECT * FROM (PIVOT files ON v IN (1, 2) USING count(*))",
        "SELECT e.value FROM json_each('[1, 2]') e",
        "SELECT 'COPY_QUERY_NODE' AS \"TABLE_FUNCTION\"",
    ],
)
def test_a_select_may_take_any_form(scanner: Scanner, tmp_path: Path, sql: str) -> None:
    assert rows_of(scanner, sql, write_parquet(tmp_path / "a.parquet", {"v": [1, 2]}))


def test_the_guard_gives_back_what_duckdb_parsed(box: Sandbox) -> None:
    assert one_select(box.connection, "SELECT 1 AS one").statement.query == "SELECT 1 AS one"


# Whose database is whose


def test_a_database_is_lent_again_for_the_same_files_and_for_no_others(sandboxes: Sandboxes, tmp_path: Path) -> None:
    mine = FileSet.of((write_parquet(tmp_path / "a.parquet", {"v": [1]}),), with_filename=False)
    other = FileSet.of((write_parquet(tmp_path / "b.parquet", {"v": [1]}),), with_filename=False)
    with sandboxes.lent(mine) as first:
        pass
    with sandboxes.lent(other) as second, sandboxes.lent(mine) as third:
        assert second is not first
        assert third is first


def test_two_queries_never_share_a_database(sandboxes: Sandboxes) -> None:
    nothing = FileSet.of((), with_filename=False)
    with sandboxes.lent(nothing) as first, sandboxes.lent(nothing) as second:
        assert first is not second
    with sandboxes.lent(nothing) as third:  # of two that came back, one is kept
        assert third is first


def _end_with(sandboxes: Sandboxes, error: Exception) -> Sandbox:
    def fail() -> None:
        with sandboxes.lent(FileSet.of((), with_filename=False)) as sandbox:
            lent.append(sandbox)
            raise error

    lent = list[Sandbox]()
    with pytest.raises(type(error)):
        fail()
    error.__traceback__ = None  # the parameter of a test lives to the end, and this holds the database
    return lent[0]


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError(),
        duckdb.InternalException(),
        QuarterdeckError(ErrorCode.INTERNAL, "it broke", "so", "report it"),
    ],
)
def test_a_database_whose_query_broke_is_not_lent_again(sandboxes: Sandboxes, error: Exception) -> None:
    broken = _end_with(sandboxes, error)
    with pytest.raises(duckdb.ConnectionException):
        broken.connection.execute("SELECT 1")
    with sandboxes.lent(FileSet.of((), with_filename=False)) as sandbox:
        assert sandbox is not broken


@pytest.mark.parametrize(
    "error", [WorkCanceledError(), QuarterdeckError(ErrorCode.WORK_FAILED, "it failed", "no column x", "name another")]
)
def test_a_cancel_and_wrong_sql_cost_no_database(sandboxes: Sandboxes, error: Exception) -> None:
    used = _end_with(sandboxes, error)
    with sandboxes.lent(FileSet.of((), with_filename=False)) as sandbox:
        assert sandbox is used


def test_the_longest_unused_is_closed_when_there_are_too_many(sandboxes: Sandboxes, tmp_path: Path) -> None:
    sets = [
        FileSet.of((write_parquet(tmp_path / f"{n}.parquet", {"v": [n]}),), with_filename=False)
        for n in range(LIMITS.idle_databases + 1)
    ]
    lent = list[Sandbox]()
    for file_set in sets:
        with sandboxes.lent(file_set) as sandbox:
            lent.append(sandbox)
    with pytest.raises(duckdb.ConnectionException):
        lent[0].connection.execute("SELECT 1")
    for sandbox in lent[1:]:
        assert sandbox.connection.execute("SELECT 1").fetchall()


def test_a_file_that_was_written_anew_is_looked_at_anew(scanner: Scanner, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a.parquet", {"v": [1]})
    assert rows_of(scanner, "SELECT * FROM files", file) == [(1,)]
    write_parquet(file.path, {"w": ["one", "two"]})
    assert rows_of(scanner, "SELECT * FROM files", file) == [("one",), ("two",)]
    overwrite(file.path, -60, 20)
    with pytest.raises(QuarterdeckError, match=r"s3://lake/a\.parquet"):
        rows_of(scanner, "SELECT * FROM files", file)


def test_a_database_that_waits_holds_no_file_open(scanner: Scanner, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a.parquet", {"v": [1]})
    assert rows_of(scanner, "SELECT * FROM files", file) == [(1,)]
    assert str(file.path) not in [target for _, target in Snapshot.take().files]


def test_what_is_lent_while_the_engine_closes_is_closed_when_it_comes_back() -> None:
    sandboxes = Sandboxes(LIMITS)
    nothing = FileSet.of((), with_filename=False)
    with sandboxes.lent(nothing) as sandbox:
        sandboxes.close()
        assert sandbox.connection.execute("SELECT 1").fetchall()
    with pytest.raises(duckdb.ConnectionException):
        sandbox.connection.execute("SELECT 1")
    with pytest.raises(RuntimeError, match="closed"), sandboxes.lent(nothing):
        pass

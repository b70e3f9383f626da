"""Rows of Parquet files as records."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from quarterdeck.search.engine.conditions import condition_sql
from quarterdeck.search.engine.parquet_records import ParquetRecords, columns_of
from quarterdeck.search.engine.sql import Parameters
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.model import FileProblem, Order
from tests.search.engine.searched import Bench, whole

pytestmark = pytest.mark.usefixtures("gathered_in_one_database")

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def write() -> Iterator[Write]:
    """Writes a file of the rows of a SELECT."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")

        def write(path: Path, select: str, options: str = "") -> Path:
            database.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet{options})")
            return path

        yield write


ROWS = """
    SELECT * FROM (VALUES
        (1, 'error', 500::SMALLINT, 1.5::DOUBLE, true, 9007199254740993::BIGINT, 1.50::DECIMAL(10, 2),
         TIMESTAMP '2026-11-01 12:00:00', {'b': 'x', 'c': [1, 2]}, MAP {'k': 'v'}, DATE '2026-11-01'),
        (2, 'info', 404::SMALLINT, 'nan'::DOUBLE, false, 5, 2.00,
         TIMESTAMP '2026-11-01 13:00:00.5', {'b': 'y', 'c': []}, MAP {}, NULL),
        (3, NULL, NULL, 'inf'::DOUBLE, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (4, '500', -1::SMALLINT, -0.5, true, -9007199254740993, -3.25,
         TIMESTAMP '2026-11-02', {'b': NULL, 'c': NULL}, MAP {'k': 'w'}, DATE '2026-11-02'))
    t(id, level, status, ratio, ok, big, price, ts, a, labels, day)"""


@pytest.fixture(scope="module")
def table(write: Write, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only to be read."""
    return write(tmp_path_factory.mktemp("table") / "rows.parquet", ROWS)


@pytest.fixture(scope="module")
def large(write: Write, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten groups of rows; only to be read."""
    select = """SELECT i AS id, printf('n%06d', i) AS name, (i / 100)::DECIMAL(10, 2) AS price, i / 100 AS ratio,
        TIMESTAMP '2026-11-01' + to_seconds(i) AS ts FROM range(100000) t(i)"""
    return write(tmp_path_factory.mktemp("large") / "large.parquet", select, ", ROW_GROUP_SIZE 10000")


def ids(bench: Bench, path: Path, query: str) -> list[int]:
    return [row["id"] for row in bench.search(query, [[whole(path)]]).rows]


@pytest.mark.parametrize(
    "query, expected",
    [
        ("", [1, 2, 3, 4]),
        ("level=error", [1]),
        ("level!=error", [2, 4]),
        ("not level=error", [2, 3, 4]),
        ("level=500", [4]),
        ("level>=500", [4]),
        ("level=e*", [1]),
        ('level=~"rr"', [1]),
        ("level=*", [1, 2, 4]),
        ("status=500", [1]),
        ("status=500.0", [1]),
        ('status="500"', [1]),
        ('status="500.0"', []),
        ("status!=500", [2, 4]),
        ("status<404.5", [2, 4]),
        ("status<=403.5", [4]),
        ("status>403.5", [1, 2]),
        ("status>=404.5", [1]),
        ("status=404.5", []),
        ("status!=404.5", [1, 2, 4]),
        ("status<100000", [1, 2, 4]),
        ("status>100000", []),
        ("status>-100000", [1, 2, 4]),
        ("status!=100000", [1, 2, 4]),
        ("status=100000", []),
        ("status=5*", [1]),
        ("not status>1", [3, 4]),
        ("ratio>0", [1]),
        ("ratio<0", [4]),
        ("ratio=1.5", [1]),
        ("ratio=NaN", [2]),
        ("ratio!=1.5", [2, 3, 4]),
        ("ratio=*", [1, 2, 3, 4]),
        ("ok=true", [1, 4]),
        ("ok!=true", [2]),
        ("not ok=true", [2, 3]),
        ("ok=1", []),
        ("big=9007199254740993", [1]),
        ("big=9007199254740992", []),
        ("big<-9007199254740992", [4]),
        ("big<1e300", [1, 2, 4]),
        ("price=1.5", [1]),
        ("price=1.50", [1]),
        ("price>1.501", [2]),
        ("price=1.501", []),
        ("price<99999999999", [1, 2, 4]),
        ('price="1.5"', [1]),
        ('ts="2026-11-01 12:00:00"', [1]),
        ('ts>"2026-11-01 12"', [1, 2, 4]),
        ("day=2026-11-01", [1]),
        ("a.b=x", [1]),
        ("a.b=*", [1, 2]),
        ("a.c.1=2", [1]),
        ("a.nothere=1", []),
        ("""a='{"b":"x","c":[1,2]}'""", [1]),
        ("labels.k=w", [4]),
        ("nothere=1", []),
        ("not nothere=1", [1, 2, 3, 4]),
        ("LEVEL=error", []),
        ("ERROR", [1]),
        ("""'"level":"info"'""", [2]),
        ('=~"info|error"', [1, 2]),
        ("in?o", [2]),
        ("[2026-11-01T12:00:00Z, 2026-11-01T13:00:00.5Z]", [1]),
        ("[2026-11-01T13:00:00.5Z,]", [2, 4]),
        ("not [2026-11-01T13:00:00.5Z,]", [1, 3]),
        ("[,]", [1, 2, 4]),
    ],
)
def test_a_condition_finds(bench: Bench, table: Path, query: str, expected: list[int]) -> None:
    assert ids(bench, table, query) == expected


@pytest.mark.parametrize(
    "type_", ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "VARCHAR"]
)
def test_the_time_of_a_row(bench: Bench, type_: str, write: Write) -> None:
    select = f"SELECT i AS id, (TIMESTAMP '2026-11-01' + to_seconds(i))::{type_} AS ts FROM range(10) t(i)"
    path = write(bench.folder / "times.parquet", select)
    assert ids(bench, path, "[2026-11-01T00:00:03Z, 2026-11-01T00:00:05Z]") == [3, 4]
    answer = bench.search("| tail 2", [[whole(path)]], order=Order.TIME)
    assert [row["id"] for row in answer.rows] == [8, 9]


@pytest.mark.parametrize("scale", [1, 1000, 10**6, 10**9])
def test_a_column_of_numbers_is_a_time_by_magnitude(bench: Bench, scale: int, write: Write) -> None:
    path = write(
        bench.folder / "times.parquet", f"SELECT i AS id, (1793534400 + i) * {scale}::BIGINT AS ts FROM range(5) t(i)"
    )
    assert ids(bench, path, "[1793534402, 1793534404]") == [2, 3]


def test_rows_come_out_as_json(bench: Bench, table: Path) -> None:
    rows = bench.search("", [[whole(table)]]).rows
    assert rows[0] == {
        "id": 1,
        "level": "error",
        "status": 500,
        "ratio": 1.5,
        "ok": True,
        "big": 9007199254740993,
        "price": 1.5,
        "ts": "2026-11-01 12:00:00",
        "a": {"b": "x", "c": [1, 2]},
        "labels": {"k": "v"},
        "day": "2026-11-01",
    }
    assert rows[1]["ratio"] == "NaN"
    assert rows[2]["ratio"] == "Infinity"
    assert rows[2]["level"] is None


def test_numbers_that_json_has_not_are_texts_wherever_they_are(bench: Bench, write: Write) -> None:
    struct = "{'a': 'inf'::DOUBLE, 'b': ['-inf'::DOUBLE]}"
    select = f"SELECT ['nan'::FLOAT, 1.5] AS l, {struct} AS s, MAP {{'k': 'nan'::DOUBLE}} AS m"
    path = write(bench.folder / "odd.parquet", select)
    (line,) = bench.search("", [[whole(path)]]).lines
    assert json.loads(line) == {"l": ["NaN", 1.5], "s": {"a": "Infinity", "b": ["-Infinity"]}, "m": {"k": "NaN"}}
    assert bench.search("s.a=Infinity | cut l", [[whole(path)]]).rows == [{"l": ["NaN", 1.5]}]


def test_stages_over_rows(bench: Bench, table: Path) -> None:
    def rows(query: str) -> list[Any]:
        return bench.search(query, [[whole(table)], [whole(table)]]).rows

    assert rows("| count() by level") == [
        {"level": "500", "count": 2},
        {"level": "error", "count": 2},
        {"level": "info", "count": 2},
        {"level": None, "count": 2},
    ]
    assert rows("| sum(status), sum(big), sum(price), avg(ratio), min(ratio), max(level)") == [
        {"sum_status": 1806, "sum_big": 10, "sum_price": 0.5, "avg_ratio": 0.5, "min_ratio": -0.5, "max_level": "info"}
    ]
    assert rows("| count(ratio), max(ratio) by ok | cut ok, max_ratio") == [
        {"ok": False, "max_ratio": "NaN"},
        {"ok": True, "max_ratio": 1.5},
        {"max_ratio": "Infinity"},
    ]
    assert rows("| sort -r status | head 3 | cut id") == [{"id": 1}, {"id": 1}, {"id": 2}]
    assert rows("| cut ok | uniq -c") == [{"ok": True, "count": 4}, {"ok": False, "count": 2}]
    assert {"field": "level", "count": 6} in rows("| fields")
    assert {"field": "ratio", "count": 8} in rows("| fields")


def test_files_with_other_columns_are_searched_each_by_its_own(bench: Bench, write: Write) -> None:
    paths = [
        write(bench.folder / "1.parquet", "SELECT 1 AS id, 'x' AS v"),
        write(bench.folder / "2.parquet", "SELECT 2 AS id, 7 AS v"),
        write(bench.folder / "3.parquet", "SELECT 3 AS id"),
        write(bench.folder / "4.parquet", "SELECT 4 AS id, 8 AS v"),
    ]
    chunk = [*map(whole, paths), whole(bench.write("5.ndjson", {"id": 5, "v": "7"}))]
    assert [row["id"] for row in bench.search("", [chunk]).rows] == [1, 2, 3, 4, 5]
    assert [row["id"] for row in bench.search("v=7", [chunk]).rows] == [2, 5]
    assert bench.search("| count() by v", [chunk]).rows == [
        {"v": 7, "count": 1},
        {"v": "7", "count": 1},
        {"v": 8, "count": 1},
        {"v": "x", "count": 1},
        {"v": None, "count": 1},
    ]
    assert bench.search("", [chunk], ask_about=["v", "id", "w"]).seen == {"v", "id"}


@pytest.mark.parametrize("damage", ["cut off", "no file of this kind", "empty", "footer", "pages"])
def test_a_damaged_file_is_named_and_hides_no_other(bench: Bench, damage: str, write: Write) -> None:
    path = write(
        bench.folder / "damaged.parquet", "SELECT i AS id, hash(i) AS h, 'text ' || hash(i) AS t FROM range(20000) t(i)"
    )
    data = bytearray(path.read_bytes())
    match damage:
        case "cut off":
            data = data[: len(data) // 2]
        case "no file of this kind":
            data = bytearray(b"garbage" * 100)
        case "empty":
            data = bytearray()
        case "footer":
            data[-100:-50] = bytes(50)
        case _:
            data[2000:9000] = random.Random(3).randbytes(7000)
    path.write_bytes(data)
    others = [
        write(bench.folder / f"{i}.parquet", f"SELECT {i}::BIGINT AS id, {i}::UBIGINT AS h, '' AS t") for i in (1, 2)
    ]
    answer = bench.search("t!=zzz | cut id, h", [[whole(others[0]), whole(path), whole(others[1])]])
    assert [row["id"] for row in answer.rows] == [1, 2]
    assert [(problem.url, problem.lines) for problem in answer.problems] == [(str(path), 0)]
    assert answer.problems[0].why


def test_names_that_are_no_text_are_damage(bench: Bench, write: Write) -> None:
    path = write(bench.folder / "names.parquet", "SELECT 1 AS a_long_name_of_a_column")
    path.write_bytes(path.read_bytes().replace(b"a_long", b"\xff_long", 1))
    other = bench.write("other.ndjson", {"id": 9})
    answer = bench.search("", [[whole(path), whole(other)]])
    assert answer.rows == [{"id": 9}]
    assert [(problem.url, problem.lines) for problem in answer.problems] == [(str(path), 0)]


def test_random_damage_never_ends_a_search(bench: Bench, write: Write) -> None:
    path = write(bench.folder / "damaged.parquet", "SELECT i AS id, 'text ' || i AS t, i / 3 AS d FROM range(500) t(i)")
    sound = path.read_bytes()
    generator = random.Random(7)
    problems: list[FileProblem] = []
    for _ in range(60):
        data = bytearray(sound)
        for _ in range(generator.randint(1, 8)):
            place = generator.randrange(len(data)) if generator.random() < 0.5 else -1 - generator.randrange(400)
            data[place] = generator.randrange(256)
        path.write_bytes(data)
        problems += bench.search("id>=0 | count(t), sum(d)", [[whole(path)]]).problems
    assert problems
    path.write_bytes(sound)
    assert bench.search("| count()", [[whole(path)]]).rows == [{"count": 500}]


@pytest.mark.parametrize(
    "query, groups",
    [
        ("id=5", 1),
        ("id<5", 1),
        ("name=n000005", 1),
        ("price=0.05", 1),
        ("ratio>999", 1),
        ("[2026-11-01T00:00:00Z, 2026-11-01T00:00:05Z]", 1),
        ("id=5 name=n000005", 1),
        ("id=5 or id=6", 10),
        ("not id=5", 10),
    ],
)
def test_row_groups_are_passed_over_by_their_statistics(large: Path, query: str, groups: int) -> None:
    with duckdb.connect(config={"threads": 1}) as database:
        parameters = Parameters()
        records = ParquetRecords([str(large)], columns_of(database, str(large)), "ts", parameters)
        condition = condition_sql(parse_search(query).condition, records, 0)
        sql, _ = records.matched(condition, [], line=True, time=True)
        (_, plan), *_ = database.execute(f"EXPLAIN ANALYZE {sql}", parameters.values).fetchall()
    scanned = next(line for line in plan.splitlines() if "Row Groups Scanned" in line)
    assert int(scanned.split(":")[1].split("/")[0]) <= groups


@pytest.mark.parametrize("name", ["a'b", 'q"q', "a;b", "$1", "a b", "é", "select", "A.B", "line", "f0"])
def test_the_name_of_a_column_is_itself(bench: Bench, name: str, write: Write) -> None:
    path = bench.folder / "names.parquet"
    quoted = '"' + name.replace('"', '""') + '"'
    write(path, f"SELECT 5 AS {quoted}, 'x' AS other")
    assert bench.search(f"`{name}`=5 | cut `{name}`", [[whole(path)]]).rows == [{name: 5}]
    assert bench.search("", [[whole(path)]]).rows == [{name: 5, "other": "x"}]
    assert bench.search(f"| sum(`{name}`) as s by `{name}`", [[whole(path)]]).rows == [{name: 5, "s": 5}]

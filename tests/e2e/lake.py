"""Small Parquet files to ask about, questions that take as long as a test needs, and the truth from DuckDB alone."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

Table: TypeAlias = Any

ALL = "SELECT id, ts, host, value FROM files"
"""Every row."""
ENDLESS = "SELECT count(*) AS n FROM range(10000000) a(i), range(10000000) b(i), files WHERE hash(a.i + b.i + id) = 0"
"""Years of work that can be interrupted at any time."""


def burning(millions: float) -> str:
    """Every row, after some work for the processor: a million takes some 10 ms."""
    burnt = f"(SELECT sum(hash(i) % 1000)::BIGINT FROM range({int(millions * 1_000_000)}) t(i))"
    return f"SELECT id, host, value, {burnt} AS burnt FROM files"


@dataclass(frozen=True, slots=True)
class Lake:
    folder: Path

    @property
    def files(self) -> list[str]:
        """In the order in which a scan reads them."""
        return sorted(str(path) for path in self.folder.iterdir())

    @property
    def source(self) -> str:
        return str(self.folder)

    def truth(self, sql: str) -> Table:
        """What DuckDB says, in the order of the files. For SQL that treats every row by itself."""
        return truth(sql, self.files)


def truth(sql: str, files: Sequence[str]) -> Table:
    with duckdb.connect(":memory:", config={"threads": "2"}) as database:
        if files:
            database.read_parquet(list(files)).create_view("files")
        return database.sql(sql).to_arrow_table()


def fill(folder: Path, files: int, rows: int) -> Lake:
    """Files of their own contents, that can be told apart by every row."""
    folder.mkdir(parents=True)
    with duckdb.connect(":memory:") as database:
        for number in range(files):
            first = number * rows
            database.execute(
                f"COPY (SELECT i AS id, 1700000000000 + i * 1000 AS ts, 'host-' || i % 7 AS host, "
                f"(hash(i) % 1000000) / 1000.0 AS value FROM range({first}, {first + rows}) t(i)) "
                f"TO '{folder / f'part-{number:05}.parquet'}' (FORMAT parquet)"
            )
    return Lake(folder)


def multiplied(lake: Lake, folder: Path, files: int) -> Lake:
    """Many files of one content: they cost no disk."""
    folder.mkdir(parents=True)
    first = Path(lake.files[0])
    copy = folder / "part-00000.parquet"
    shutil.copyfile(first, copy)
    for number in range(1, files):
        (folder / f"part-{number:05}.parquet").hardlink_to(copy)
    return Lake(folder)


def same(answer: Table, expected: Table) -> bool:
    """Whether two tables have the same rows in the same order."""
    return answer.cast(expected.schema).combine_chunks().equals(expected.combine_chunks())

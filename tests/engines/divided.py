"""SQL that is divided among parts and merged, without a crew: the same steps in one process, beside DuckDB alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.duckdb_merge import merged
from quarterdeck.engines.duckdb_plan import plan_of
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.part_words import Alike
from quarterdeck.engines.scan_file import PathColumn, ScanFile
from quarterdeck.engines.sql_plan import Plan
from quarterdeck.engines.sql_way import Way
from tests.engines.kept_database import connected

MIB = 1024 * 1024
LIMITS = EngineLimits(threads=1, memory_limit_bytes=256 * MIB, idle_databases=64)
_pa: Any = pyarrow
_pq: Any = pyarrow.parquet


def write(sql: str, path: Path) -> None:
    """The rows of a query, as a Parquet file."""
    with connected() as database:
        database.sql(sql).write_parquet(str(path))


class Crew:
    """Plans, runs the parts one after the other, and merges them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._scanner = DuckDbScanner(LIMITS)
        self._scanner.warm_up()
        self._parser = duckdb.connect(":memory:")
        self._merges = 0

    def close(self) -> None:
        self._scanner.close()
        self._parser.close()

    def plan(self, sql: str) -> Plan:
        return Plan.decode(plan_of(self._parser, sql).encode())

    def answer(
        self, sql: str, groups: Sequence[Sequence[ScanFile]], path_columns: Sequence[PathColumn] = ()
    ) -> tuple[Plan, Any]:
        """The answer as a `pyarrow.Table`; None when it needs all files together."""
        plan = self.plan(sql)
        if plan.way is Way.TOGETHER:
            return plan, None
        if plan.way is Way.CONSTANT:
            groups = groups[:1]
        tables = [self._part(plan, group, path_columns) for group in groups]
        match plan.way:
            case Way.MERGED:
                return plan, self._merged(plan, tables)
            case _:
                if plan.checks is not None:
                    alike = Alike()
                    for table in tables:
                        list(alike.checked(iter(table.to_batches() or [_pa.RecordBatch.from_pylist([], table.schema)])))
                whole = _pa.concat_tables(tables)
                return plan, whole.slice(plan.offset, plan.limit) if plan.way is Way.FIRST else whole

    def part(self, sql: str, files: Sequence[ScanFile]) -> Any:
        """The rows of some files, as a worker gives them of SQL that is not divided."""
        with self._scanner.scan(sql, files, CancelToken()) as rows:
            return _pa.Table.from_batches(list(rows), rows.schema)

    def _part(self, plan: Plan, files: Sequence[ScanFile], path_columns: Sequence[PathColumn]) -> Any:
        with self._scanner.scan(
            plan.part_sql, files, CancelToken(), path_columns=path_columns, part=plan.checks
        ) as rows:
            return _pa.Table.from_batches(list(rows), rows.schema)

    def _merged(self, plan: Plan, tables: Sequence[Any]) -> Any:
        assert plan.merge is not None
        self._merges += 1
        folder = self._folder / f"merge{self._merges}"
        folder.mkdir()
        paths = [folder / f"{number}.parquet" for number in range(len(tables))]
        for path, table in zip(paths, tables, strict=True):
            _pq.write_table(table, path)
        with merged(plan.merge, paths, folder, LIMITS, CancelToken()) as rows:
            return _pa.Table.from_batches(list(rows), rows.schema)


def alone(sql: str, files: Sequence[ScanFile]) -> Any:
    """What DuckDB alone says of all files, with the columns that it makes of their paths."""
    with connected() as database:
        paths = ", ".join("'" + str(file.path).replace("'", "''") + "'" for file in files)
        database.execute(f"CREATE TEMP VIEW files AS SELECT * FROM read_parquet([{paths}], union_by_name = true)")
        return database.sql(sql).to_arrow_table()

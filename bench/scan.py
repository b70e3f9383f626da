"""What dividing SQL costs: planning a scan, and merging groups of many parts beside DuckDB alone over the same rows.

Run it with `python -m bench.scan`. It prints times and ratios, and asserts nothing.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.contained_merge import ContainedMerger
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.scan_file import ScanFile
from quarterdeck.engines.sql_plan import Plan

_pq: Any = pyarrow.parquet

MIB: Final = 1024**2
PLANNED: Final = {
    "rows": "SELECT id, host FROM files WHERE ms > 3",
    "groups": "SELECT host, count(*) n, avg(ms) FROM files GROUP BY host HAVING n > 3 ORDER BY n DESC LIMIT 10",
    "20 aggregates": f"SELECT host, {', '.join(f'sum(ms + {n}) s{n}' for n in range(20))} FROM files GROUP BY host",
}
GROUPED: Final = "SELECT id % {groups} AS g, count(*) n, sum(id) s, avg(ms) a FROM files GROUP BY g"
_LIMITS: Final = EngineLimits(threads=1, memory_limit_bytes=1024 * MIB, idle_databases=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", type=int, default=16)
    parser.add_argument("--rows", type=int, default=500_000, help="of each work")
    options = parser.parse_args()
    merger = ContainedMerger(limits_named="nothing", at_once=1, memory_limit_bytes=1024 * MIB, spill_bytes=1024 * MIB)
    try:
        print(
            f"first plan, with its process      {1000 * timed(lambda: merger.plan('SELECT 1', CancelToken())):8.1f} ms"
        )
        for name, sql in PLANNED.items():
            seconds = min(timed(lambda sql=sql: merger.plan(sql, CancelToken())) for _ in range(50))
            print(f"plan of {name:25} {1000 * seconds:8.1f} ms")
        with tempfile.TemporaryDirectory() as folder:
            for groups in (10, 10_000, 500_000):
                _merge(merger, Path(folder), options.works, options.rows, groups)
    finally:
        merger.close()


def _merge(merger: ContainedMerger, folder: Path, works: int, rows: int, groups: int) -> None:
    files: list[ScanFile] = []
    for number in range(works):
        path = folder / f"{number}.parquet"
        if not path.exists():
            source = f"SELECT range + {number * rows} AS id, (range * 37 % 1000) / 4 AS ms FROM range({rows})"
            duckdb.sql(f"COPY ({source}) TO '{path}'")
        files.append(ScanFile(path, path.name))
    sql = GROUPED.format(groups=groups)
    plan = merger.plan(sql, CancelToken())
    scanner = DuckDbScanner(_LIMITS)
    parts: list[Path] = []
    part_s = [timed(lambda file=file: parts.append(_part(scanner, plan, file))) for file in files]
    scanner.close()
    merge_s = min(timed(lambda: _merged(merger, plan, parts, folder)) for _ in range(3))
    alone_s = min(timed(lambda: _alone(sql, folder)) for _ in range(3))
    print(
        f"{groups:8,} groups of {works} parts: merged in {1000 * merge_s:8.1f} ms, the parts took {sum(part_s):6.2f} s "
        f"of one core together; DuckDB alone with one thread {alone_s:6.2f} s "
        f"({(sum(part_s) + merge_s) / alone_s:4.2f} x)"
    )


def _part(scanner: DuckDbScanner, plan: Plan, file: ScanFile) -> Path:
    path = file.path.with_suffix(".part")
    with (
        scanner.scan(plan.part_sql, [file], CancelToken(), part=plan.checks) as rows,
        _pq.ParquetWriter(path, rows.schema) as writer,
    ):
        for batch in rows:
            writer.write_batch(batch)
    return path


def _merged(merger: ContainedMerger, plan: Plan, parts: list[Path], folder: Path) -> None:
    assert plan.merge is not None
    with merger.merge(plan.merge, parts, folder, CancelToken()) as rows:
        for _ in rows:
            pass


def _alone(sql: str, folder: Path) -> None:
    with duckdb.connect(":memory:", config={"threads": 1}) as database:
        database.execute(f"CREATE VIEW files AS SELECT * FROM read_parquet('{folder}/*.parquet')")
        for _ in database.sql(sql).to_arrow_reader(65_536):
            pass


def timed(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()

"""What it costs to run DuckDB in a process of its own: the same scans in this process and contained, in one run.

Run it with `python -m bench.engine`. It prints times, rates and ratios, and asserts nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.contained_scan import ContainedScanner
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.scan_file import ScanFile

_pa: Any = pyarrow
_pq: Any = pyarrow.parquet

Scanner: TypeAlias = DuckDbScanner | ContainedScanner

MIB: Final = 1024**2
LIMITS: Final = EngineLimits(threads=2, memory_limit_bytes=1024 * MIB, idle_databases=2)
LIGHT: Final = "SELECT count(*) AS n FROM files"
HEAVY: Final = "SELECT k, count(*) AS n, sum(v) AS s FROM files GROUP BY k ORDER BY s DESC LIMIT 10"
ROWS: Final = "SELECT ts, v, s FROM files, range({times})"
_SLOTS: Final = 2

_IDLE: Final = """
import json, os, sys, time
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.limits import EngineLimits
if sys.argv[1] == "contained":
    from quarterdeck.engines.contained_scan import ContainedScanner
    scanner = ContainedScanner(EngineLimits(2, 2**30, 2), at_once=2)
else:
    from quarterdeck.engines.duckdb_scan import DuckDbScanner
    scanner = DuckDbScanner(EngineLimits(2, 2**30, 2))
with scanner.scan("SELECT 1 AS one", (), CancelToken()) as rows:
    list(rows)
scanner.warm_up()
time.sleep(0.5)
others = [scanner.host_pid, *scanner.processes] if sys.argv[1] == "contained" else []
def pss_kb(pid):
    lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
print(json.dumps([pss_kb(os.getpid()), *map(pss_kb, others)]))
scanner.close()
"""


def write(path: Path, rows: int) -> ScanFile:
    chance = np.random.default_rng(1)
    columns = {
        "ts": np.arange(rows),
        "v": chance.random(rows),
        "k": chance.integers(0, max(1, rows // 20), rows),
        "s": [f"host-{number % 1000}.example" for number in range(rows)],
    }
    _pq.write_table(_pa.table(columns), path, compression="zstd")
    return ScanFile(path, path.name)


def seconds_of(scanner: Scanner, sql: str, file: ScanFile) -> tuple[float, int]:
    """How long it took, and how many bytes came."""
    size_bytes = 0
    began_s = time.perf_counter()
    with scanner.scan(sql, [file], CancelToken()) as rows:
        for batch in rows:
            size_bytes += batch.nbytes
    return time.perf_counter() - began_s, size_bytes


def in_turns(scanners: Sequence[Scanner], measure: Callable[[Scanner], float], count: int) -> list[list[float]]:
    """Both by turns, so that whatever else the machine does hits both."""
    taken: list[list[float]] = [[] for _ in scanners]
    for _ in range(count):
        for place, scanner in enumerate(scanners):
            taken[place].append(measure(scanner))
    return [sorted(times) for times in taken]


def told(what: str, times: Sequence[Sequence[float]], share: float, unit: str = "ms", factor: float = 1000) -> None:
    here, contained = (each[min(len(each) - 1, int(len(each) * share))] * factor for each in times)
    print(f"{what:42} {here:9.2f} {unit}  {contained:9.2f} {unit}  {contained / here:6.2f}x")


def idle_memory() -> None:
    totals: list[int] = []
    for way in ("here", "contained"):
        done = subprocess.run([sys.executable, "-c", _IDLE, way], check=True, stdout=subprocess.PIPE)
        parts = json.loads(done.stdout)
        totals.append(sum(parts))
        print(f"memory when idle, {way:10} {sum(parts) / 1024:7.1f} MB = {[round(part / 1024, 1) for part in parts]}")
    print(f"memory when idle: {totals[1] / totals[0]:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--light", type=int, default=500, help="how many light scans")
    parser.add_argument("--heavy", type=int, default=5, help="how many heavy ones")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the large file")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores\n{'':42} {'here':>12}  {'contained':>12}   ratio")
    scanners: list[Scanner] = [DuckDbScanner(LIMITS), ContainedScanner(LIMITS, at_once=_SLOTS)]
    with tempfile.TemporaryDirectory() as folder:
        small, large = write(Path(folder, "small.parquet"), 1000), write(Path(folder, "large.parquet"), options.rows)
        for scanner in scanners:
            scanner.warm_up()
            for sql in (LIGHT, HEAVY):
                seconds_of(scanner, sql, small)
        light = in_turns(scanners, lambda scanner: seconds_of(scanner, LIGHT, small)[0], options.light)
        told("light scan, p50", light, 0.5)
        told("light scan, p99", light, 0.99)
        told(
            "aggregation", in_turns(scanners, lambda scanner: seconds_of(scanner, HEAVY, large)[0], options.heavy), 0.5
        )
        times = max(1, 1024 * MIB // (options.rows * 40))
        sql = ROWS.format(times=times)
        size_bytes = seconds_of(scanners[0], sql, large)[1]
        rows = in_turns(scanners, lambda scanner: seconds_of(scanner, sql, large)[0], max(1, options.heavy // 2))
        told(f"{size_bytes / 1e9:.2f} GB of rows", rows, 0.5)
        for scanner in scanners:
            scanner.close()
    starting = in_turns([scanners[1]], lambda _: _start_s(), 3)[0]
    print(f"first process and a scan in it, when nothing runs: {starting[0] * 1000:.0f} ms")
    idle_memory()


def _start_s() -> float:
    began_s = time.perf_counter()
    scanner = ContainedScanner(LIMITS, at_once=1)
    with scanner.scan("SELECT 1 AS one", (), CancelToken()) as rows:
        list(rows)
    taken_s = time.perf_counter() - began_s
    scanner.close()
    return taken_s


if __name__ == "__main__":
    main()

"""A log search with two recruited workers beside DuckDB alone on as many threads, grep and jq, over the same NDJSON.

All read the same files from the page cache, one after the other. Ours is asked over HTTP, from the request to the last
byte; DuckDB runs the plain SQL that a person would write, with `read_json`. grep and jq are there where they can do the
same, jq over one file only: it takes minutes for all. Answers are compared with DuckDB's.

    python bench/search.py [--gib 3] [--repeat 3] [--quick]
"""

import argparse
import http.client
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.metrics_servers import Server, running

TARGET: Final = 1.2
DATA: Final = Path(tempfile.gettempdir()) / "quarterdeck-bench-search" / "data"
THREADS: Final = 2
_FILE_ROWS: Final = 2_500_000
_FILE_GIB: Final = 0.449
_LOGS: Final = """
    SELECT strftime(TIMESTAMP '2026-11-01' + to_milliseconds(i * 20), '%Y-%m-%dT%H:%M:%S.%gZ') AS ts,
        ['info', 'info', 'info', 'warn', 'error', 'debug'][(hash(i) % 6 + 1)::INT] AS level,
        'host-' || (hash(i * 7) % 50) AS host, (hash(i * 3) % 5) * 100 + 100 AS status,
        (hash(i * 11) % 100000)::INT AS bytes, (hash(i * 13) % 1000000) / 1000.0 AS dur,
        '/api/v1/items/' || (hash(i * 17) % 10000) AS path,
        CASE WHEN hash(i * 19) % 50 = 0 THEN 'upstream request timed out after 30s'
            ELSE 'request served from cache key=' || hash(i) END AS msg
    FROM range(?::BIGINT, ?::BIGINT) t(i)"""


@dataclass(frozen=True, slots=True)
class Ask:
    name: str
    search: str
    sql: str
    """The same of the table `logs`; the rows in any order."""
    grep: tuple[str, ...] = ()
    jq: str = ""


ASKS: Final = (
    Ask("count everything", "| count()", "SELECT count(*) AS count FROM logs"),
    Ask(
        "a phrase, counted",
        '"timed out" | count()',
        "SELECT count(*) AS count FROM logs WHERE regexp_matches(msg, '(?i)timed out')",
        ("-ciF", "timed out"),
        '[inputs | select(.msg | contains("timed out"))] | length',
    ),
    Ask(
        "field and phrase by host",
        'level=error "timed out" | count() by host',
        "SELECT host, count(*) AS count FROM logs WHERE level = 'error' AND regexp_matches(msg, '(?i)timed out') "
        "GROUP BY host",
    ),
    Ask(
        "sum and average by host and level",
        "| sum(bytes), avg(dur) by host, level",
        "SELECT host, level, sum(bytes)::BIGINT AS sum_bytes, avg(dur) AS avg_dur FROM logs GROUP BY host, level",
    ),
    Ask(
        "rows in the order of time (0.3 %)",
        'level=error status>=500 "timed out"',
        "SELECT * FROM logs WHERE level = 'error' AND status >= 500 AND regexp_matches(msg, '(?i)timed out') "
        "ORDER BY ts",
    ),
    Ask(
        "the last ten of a host",
        "host=host-7 | tail 10",
        "SELECT * FROM (SELECT * FROM logs WHERE host = 'host-7' ORDER BY ts DESC LIMIT 10) ORDER BY ts",
    ),
)


def make_logs(folder: Path, gib: float) -> list[Path]:
    """Files of some 460 MiB each, in the order of time."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"app-{number:02}.ndjson" for number in range(max(1, round(gib / _FILE_GIB)))]
    for number, file in enumerate(files):
        if not file.exists():
            rows = (number * _FILE_ROWS, (number + 1) * _FILE_ROWS)
            with duckdb.connect() as database:
                database.execute(f"COPY ({_LOGS}) TO '{file}.part' (FORMAT json)", rows)
            file.with_name(f"{file.name}.part").rename(file)
    return files


def timed(run: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """The median, and the last answer."""
    took: list[float] = []
    answer: Any = None
    for _ in range(repeat):
        began_s = time.perf_counter()
        answer = run()
        took.append(time.perf_counter() - began_s)
    return statistics.median(took), answer


def ask_ours(port: int, search: str, folder: Path) -> list[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        body = json.dumps({"query": search, "sources": [str(folder)], "format": "ndjson"})
        token = (DATA / "token").read_text().strip()
        headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
        connection.request("POST", "/v1/search", body, headers)
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise RuntimeError(text.decode())
    return [json.loads(line) for line in text.splitlines()]


def ask_duckdb(sql: str, files: Sequence[Path]) -> list[dict[str, Any]]:
    engine: Any = duckdb
    with engine.connect(config={"threads": THREADS}) as database:
        listed = ", ".join(f"'{file}'" for file in files)
        database.execute(f"CREATE VIEW logs AS SELECT * FROM read_json([{listed}])")
        return database.sql(sql).to_arrow_table().to_pylist()


def same(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    """As sets of rows: numbers within rounding; what is a time to DuckDB and text to us is left out."""

    def key(row: dict[str, Any]) -> str:
        plain = {name: round(v, 6) if isinstance(v, float) else v for name, v in row.items() if name != "ts"}
        return json.dumps(plain, sort_keys=True)

    return sorted(map(key, ours)) == sorted(map(key, theirs))


def run_program(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def report(ask: Ask, port: int, files: list[Path], repeat: int) -> None:
    total = sum(file.stat().st_size for file in files)
    ours_s, ours = timed(lambda: ask_ours(port, ask.search, files[0].parent), repeat)
    theirs_s, theirs = timed(lambda: ask_duckdb(ask.sql, files), repeat)
    told = f"{ask.name:<36} {ours_s:7.2f} {total / ours_s / 1e9:6.2f} {theirs_s:7.2f} {ours_s / theirs_s:6.2f}"
    told += "  " if ours_s <= TARGET * theirs_s else " !"
    if ask.grep:
        environment_s, _ = timed(lambda: run_program(["env", "LC_ALL=C", "grep", *ask.grep, *files]), 1)
        told += f"  grep {environment_s:.2f} s"
    if ask.jq and shutil.which("jq"):
        jq_s, _ = timed(lambda: run_program(["jq", "-n", ask.jq, files[0]]), 1)
        told += f"  jq {jq_s * total / files[0].stat().st_size:.0f} s (from one file)"
    print(told + ("" if same(ours, theirs) else "  THE ANSWERS DIFFER"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=3.0, help="of NDJSON; kept in the temporary folder for next time")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="half a gibibyte, once")
    options = parser.parse_args()
    gib, repeat = (0.45, 1) if options.quick else (options.gib, options.repeat)
    folder = DATA.parent
    files = make_logs(folder / f"logs-{round(gib / _FILE_GIB)}", gib)
    total = sum(file.stat().st_size for file in files)

    def command(port: int) -> list[str]:
        shutil.rmtree(DATA, ignore_errors=True)
        flags = ["--workers", str(THREADS), "--keep-back", "0", "--data-dir", str(DATA), "--set", "worker.kinds=scan"]
        return [sys.executable, "-m", "quarterdeck", "up", *flags, "--http-port", str(port), "--control-port", "0"]

    server = Server("Quarterdeck", command, folder / "up.log", "/monitor/scaling", _has_workers)
    with running([server]):
        for file in files:
            file.read_bytes()  # into the page cache
        print(
            f"{total / 2**30:.1f} GiB of NDJSON in {len(files)} files; {THREADS} workers; DuckDB {duckdb.__version__}"
        )
        print(f"{'':36} {'ours s':>7} {'GB/s':>6} {'DuckDB':>7} {'ratio':>6}   target: {TARGET}")
        for ask in ASKS:
            report(ask, server.port, files, repeat)
        memory = server.memory()
        print(
            f"memory of all processes: {memory.resident_bytes / 2**20:.0f} MiB, at most {memory.peak_bytes / 2**20:.0f}"
        )


def _has_workers(answer: Any) -> bool:
    return answer.status == 200 and json.loads(answer.body)["recruiter_free"] == THREADS


if __name__ == "__main__":
    main()

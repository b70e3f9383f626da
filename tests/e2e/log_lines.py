"""Logs to search, the truth about them from DuckDB alone, and searches over HTTP."""

import http.client
import json
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from tests.e2e.door import RefusedError, Served

Record: TypeAlias = dict[str, Any]

_WAIT_S = 100.0
_LINES = """
    SELECT strftime(TIMESTAMP '2026-11-01' + to_milliseconds(i * 37), '%Y-%m-%dT%H:%M:%S.%gZ') AS ts, i AS id,
        ['info', 'info', 'warn', 'error'][(hash(i) % 4 + 1)::INT] AS level, 'host-' || (hash(i * 7) % 9) AS host,
        (hash(i * 11) % 5000)::INT AS bytes,
        CASE WHEN hash(i * 19) % 40 = 0 THEN 'request timed out' ELSE repeat('cache hit ', 6) END AS msg
    FROM range(?::BIGINT, ?::BIGINT) t(i)"""


@dataclass(frozen=True, slots=True)
class Logs:
    folder: Path

    @property
    def source(self) -> str:
        return str(self.folder)

    def truth(self, sql: str) -> list[Record]:
        """What DuckDB says of the view `logs`."""
        with duckdb.connect(":memory:") as database:
            database.read_json(f"{self.folder}/**/*.ndjson").create_view("logs")
            cursor = database.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def write_logs(folder: Path, files: int, lines: int) -> Logs:
    """A line takes some 170 bytes."""
    folder.mkdir(parents=True)
    for number in range(files):
        with duckdb.connect(":memory:") as database:
            span = (number * lines, (number + 1) * lines)
            database.execute(f"COPY ({_LINES}) TO '{folder}/app-{number}.ndjson' (FORMAT json)", span)
    return Logs(folder)


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a search, and how it came about."""

    rows: list[Record]
    done: Record

    @property
    def workers(self) -> dict[str, int]:
        """How many chunks each worker searched, by its address."""
        return {worker["addr"]: worker["chunks"] for worker in self.done["workers"]}


def search(root: Served, query: str, sources: Sequence[str], **options: object) -> Found:
    """As the command asks: server-sent events."""
    document = {"query": query, "sources": list(sources), **options}
    with root.door.posted("/v1/search", document, Accept="text/event-stream") as connection:
        response = connection.getresponse()
        text = response.read().decode()
    if response.status != http.client.OK:
        raise RefusedError(response.status, text.encode())
    rows: list[Record] = []
    done: Record = {}
    for event, lines in _frames(text):
        if event == "rows":
            rows += [json.loads(line) for line in lines]
        elif event == "done":
            done = json.loads("".join(lines))
    assert done, f"the answer was cut off:\n{text[-500:]}"
    return Found(rows, done)


@contextmanager
def searching(root: Served, query: str, sources: Sequence[str], **options: object) -> "Generator[Future[Found]]":
    """The search goes on beside the block, and is waited for at its end."""
    with ThreadPoolExecutor(1, thread_name_prefix="search") as pool:
        found = pool.submit(lambda: search(root, query, sources, **options))
        yield found
        found.result(_WAIT_S)


def _frames(text: str) -> Generator[tuple[str, list[str]]]:
    for frame in text.split("\n\n"):
        fields = [line.partition(": ") for line in frame.split("\n") if line and not line.startswith(":")]
        named = [value for name, _, value in fields if name == "event"]
        if named:
            yield named[0], [value for name, _, value in fields if name == "data"]

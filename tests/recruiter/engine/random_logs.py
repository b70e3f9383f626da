"""Logs in every kind of file, and the same as one table that plain SQL can ask."""

import gzip
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.recruiter.engine.pieces import OpenPiece
from quarterdeck.recruiter.model import FileKind, Piece

_arrow: Final[Any] = pyarrow

_ROWS: Final = 600
COLUMNS: Final = {
    "ts": "VARCHAR",
    "id": "BIGINT",
    "level": "VARCHAR",
    "host": "VARCHAR",
    "status": "BIGINT",
    "bytes": "BIGINT",
    "dur": "DOUBLE",
    "msg": "VARCHAR",
    "user": "VARCHAR",
    "ok": "BOOLEAN",
    "http": "STRUCT(method VARCHAR, code BIGINT)",
}
# Of some fields every fifth is missing. What is in msg takes escaping in JSON.
_RECORDS: Final = """
    SELECT strftime(TIMESTAMP '2026-11-01' + to_milliseconds((hash(i * 5) % 86400000)::BIGINT),
            '%Y-%m-%dT%H:%M:%S.%gZ') AS ts, i AS id,
        ['info', 'INFO', 'warn', 'error'][(hash(i) % 4 + 1)::INT] AS level,
        CASE WHEN hash(i * 2) % 5 > 0 THEN ['web-1', 'web-2', 'db-1', 'cache'][(hash(i * 7) % 4 + 1)::INT] END AS host,
        (hash(i * 3) % 5)::BIGINT * 100 + 100 AS status,
        CASE WHEN hash(i * 4) % 5 > 0 THEN (hash(i * 11) % 5000)::BIGINT - 1000 END AS bytes,
        CASE WHEN hash(i * 6) % 5 > 0 THEN (hash(i * 13) % 4000)::BIGINT / 8 END AS dur,
        ['request timed out', 'café "closed"', 'C:\\temp\\x', 'Timed Out again', E'two\\nlines\\tand a tab', 'käse/brot'
            ][(hash(i * 17) % 6 + 1)::INT] AS msg,
        CASE WHEN hash(i * 8) % 3 = 0 THEN ['ann', 'bob', '42', 'ω'][(hash(i * 9) % 4 + 1)::INT] END AS user,
        hash(i * 21) % 2 = 0 AS ok,
        {'method': ['GET', 'PUT'][(hash(i * 23) % 2 + 1)::INT], 'code': (hash(i * 25) % 3)::BIGINT} AS http
    FROM range($1::BIGINT, $2::BIGINT) t(i)"""


@dataclass(frozen=True, slots=True)
class RandomLogs:
    files: dict[Path, FileKind]
    """In the order in which they are searched."""
    database: duckdb.DuckDBPyConnection
    """With the table `logs`, read from the files by DuckDB: the columns, and `place`, the order of the files."""

    def chunks(self, chance: Random) -> list[list[OpenPiece]]:
        """All files, cut anywhere and put together anyhow, in their order."""
        pieces = [piece for file, kind in self.files.items() for piece in _pieces(file, kind, chance)]
        chunks: list[list[OpenPiece]] = [[]]
        for piece in pieces:
            if chunks[-1] and chance.random() < 0.3:
                chunks.append([])
            chunks[-1].append(piece)
        return chunks


def write_random_logs(folder: Path) -> RandomLogs:
    kinds = (FileKind.NDJSON, FileKind.GZIP, FileKind.PARQUET, FileKind.ZSTD)
    database = duckdb.connect(":memory:", config={"threads": "1"})
    database.execute("SET TimeZone = 'UTC'")
    files: dict[Path, FileKind] = {}
    parts: list[str] = []
    for number, kind in enumerate(kinds):
        file = folder / f"{number}.{kind.value}"
        rows = [number * _ROWS, (number + 1) * _ROWS]
        plain = file if kind in (FileKind.NDJSON, FileKind.PARQUET) else folder / f"{number}.plain"
        form = "parquet" if kind is FileKind.PARQUET else "json"
        database.execute(f"COPY ({_RECORDS}) TO '{plain}' (FORMAT {form})", rows)
        if kind is FileKind.GZIP:
            file.write_bytes(gzip.compress(plain.read_bytes()))
        elif kind is FileKind.ZSTD:
            with _arrow.CompressedOutputStream(str(file), "zstd") as output:
                output.write(plain.read_bytes())
        columns = "{" + ", ".join(f"\"{name}\": '{kind}'" for name, kind in COLUMNS.items()) + "}"
        reader = f"read_parquet('{plain}')" if form == "parquet" else f"read_json('{plain}', columns={columns})"
        parts.append(f"SELECT *, {number} AS file FROM {reader}")
        files[file] = kind
    database.execute(f"CREATE TABLE logs AS SELECT *, row_number() OVER () AS place FROM ({' UNION ALL '.join(parts)})")
    return RandomLogs(files, database)


def _pieces(file: Path, kind: FileKind, chance: Random) -> list[OpenPiece]:
    size = file.stat().st_size
    inner = sorted(chance.sample(range(1, size), chance.randint(0, 2))) if kind is FileKind.NDJSON else []
    ends = [0, *inner, size]
    return [OpenPiece(Piece(str(file), kind, size, "", start, end), file, None) for start, end in pairwise(ends)]

"""Parquet files to scan, and how to scan them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.contained_scan import ContainedScanner
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.scan_file import ScanFile

_pa: Any = pyarrow
_pq: Any = pyarrow.parquet


Scanner: TypeAlias = DuckDbScanner | ContainedScanner


def write_parquet(path: Path, columns: Mapping[str, Sequence[object]]) -> ScanFile:
    _pq.write_table(_pa.table(dict(columns)), path, compression="zstd")
    return ScanFile(path, f"s3://lake/{path.name}")


def read_parquet(path: Path) -> Any:
    return _pq.read_table(path)


def data_page_offset(path: Path, column: int) -> int:
    return _pq.read_metadata(path).row_group(0).column(column).data_page_offset


def overwrite(path: Path, at: int, size_bytes: int) -> None:
    """Puts nonsense there; counted from the end if `at` is negative."""
    data = bytearray(path.read_bytes())
    begin = at if at >= 0 else len(data) + at
    data[begin : begin + size_bytes] = b"\xff" * size_bytes
    path.write_bytes(data)


def rows_of(scanner: Scanner, sql: str, *files: ScanFile, with_filename: bool = False) -> list[tuple[Any, ...]]:
    with scanner.scan(sql, files, CancelToken(), with_filename=with_filename) as rows:
        return [tuple(row.values()) for batch in rows for row in batch.to_pylist()]

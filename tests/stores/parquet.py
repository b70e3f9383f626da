"""Parquet files to test with. pyarrow has no types: here it is whatever it is."""

import importlib
from pathlib import Path
from typing import Any

_pa: Any = importlib.import_module("pyarrow")
_pq: Any = importlib.import_module("pyarrow.parquet")


def numbers(count: int = 1000) -> Any:
    return _pa.table({"ts": list(range(count)), "value": [number / 7 for number in range(count)]})


def noise(chunks: list[bytes]) -> Any:
    return _pa.table({"noise": chunks})


def write(table: Any, file: object, compression: str = "zstd") -> None:
    with _pq.ParquetWriter(file, table.schema, compression=compression, use_dictionary=False) as writer:
        writer.write_table(table)


def read(path: Path) -> Any:
    return _pq.read_table(path)


def looks_like_parquet(size_bytes: int, fill: bytes = b"x") -> bytes:
    """As much of a Parquet file as is looked at without reading it."""
    return b"PAR1" + fill * (size_bytes - 8) + b"PAR1"

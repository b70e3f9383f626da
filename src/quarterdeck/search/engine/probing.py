"""Which fields a file has, as far as a quick look tells: the first lines, or the schema of Parquet."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final, cast

from quarterdeck.engines.duckdb_database import open_database
from quarterdeck.search.engine.failures import READING_ERRORS, damage_of
from quarterdeck.search.engine.open_piece import OpenPiece, Probe
from quarterdeck.search.engine.parquet_records import columns_of
from quarterdeck.search.engine.parquet_values import ColumnType
from quarterdeck.search.engine.pieces import DamagedPieceError, unpacked
from quarterdeck.search.model import FileKind

_SAMPLE_BYTES: Final = 256 * 1024
_STEP_BYTES: Final = 16 * 1024
_DEEPEST: Final = 8
"""How many names make a nested one at most."""
_MEMORY_BYTES: Final = 256 * 1024**2


def probe(piece: OpenPiece) -> Probe:
    """Raises `DamagedPieceError` if nothing can be read."""
    try:
        if piece.piece.kind is FileKind.PARQUET:
            return Probe(frozenset(_column_names(piece)))
        sample = _first_lines(piece)
    except OSError as error:
        raise DamagedPieceError(error.strerror or str(error)) from error
    names: set[str] = set()
    for line in sample.split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # no record, or the last one, cut off
            continue
        names.update(_names_in(record, "", _DEEPEST))
    return Probe(frozenset(names))


def _first_lines(piece: OpenPiece) -> bytes:
    if piece.piece.kind is not FileKind.NDJSON:
        return _first_unpacked(piece)
    if piece.data is not None:
        return piece.data[:_SAMPLE_BYTES]
    assert piece.path is not None
    with piece.path.open("rb") as file:
        return file.read(_SAMPLE_BYTES)


def _first_unpacked(piece: OpenPiece) -> bytes:
    """What comes before damage, or before the end of a sample, is good enough."""
    parts: list[bytes] = []
    with unpacked(piece) as (stream, _):
        while len(parts) * _STEP_BYTES < _SAMPLE_BYTES:
            try:
                part = stream.read(_STEP_BYTES)
            except OSError:
                if parts:
                    break
                raise
            if not part:
                break
            parts.append(part)
    return b"".join(parts)


def _names_in(value: object, prefix: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth:
        for key, inner in cast("dict[str, object]", value).items():
            yield prefix + key
            yield from _names_in(inner, f"{prefix}{key}.", depth - 1)


def _column_names(piece: OpenPiece) -> Iterator[str]:
    with ExitStack() as files:
        database: Any = open_database(threads=1, memory_limit_bytes=_MEMORY_BYTES)
        files.callback(database.close)
        try:
            columns = columns_of(database, str(piece.path))
        except READING_ERRORS as error:
            raise DamagedPieceError(damage_of(error)) from error
    yield from _names_of(columns, "", _DEEPEST)


def _names_of(columns: dict[str, ColumnType], prefix: str, depth: int) -> Iterator[str]:
    for name, kind in columns.items():
        yield prefix + name
        if str(kind.id) == "struct" and depth:
            yield from _names_of(dict(kind.children), f"{prefix}{name}.", depth - 1)

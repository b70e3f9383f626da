"""Which pieces are read together by one query."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, TypeAlias

from quarterdeck.recruiter.engine.line_records import LineRecords
from quarterdeck.recruiter.engine.memory_file import MemoryFile
from quarterdeck.recruiter.engine.parquet_records import ParquetRecords
from quarterdeck.recruiter.engine.parquet_values import ColumnType
from quarterdeck.recruiter.engine.parts import SearchedRecords
from quarterdeck.recruiter.engine.pieces import DamagedPieceError, OpenPiece
from quarterdeck.recruiter.engine.sql import Parameters
from quarterdeck.recruiter.model import FileKind

_TOGETHER_BYTES: Final = 32 * 1024**2
_TOGETHER_FILES: Final = 200

Columns: TypeAlias = dict[str, ColumnType]
"""Of a Parquet file, by name."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pieces that are read one after the other, and how."""

    pieces: tuple[OpenPiece, ...]
    columns: Columns | None
    """Of Parquet files; None for lines."""
    in_blocks: bool = False
    """A single piece that is not read by its path."""

    def records(self, paths: Sequence[str], time_field: str | None, parameters: Parameters) -> SearchedRecords:
        if self.columns is None:
            return LineRecords(paths, time_field, parameters)
        return ParquetRecords(paths, self.columns, time_field, parameters)


def groups_of(
    pieces: Sequence[OpenPiece],
    columns_of: Callable[[OpenPiece], Columns],
    on_damage: Callable[[OpenPiece, DamagedPieceError], None],
) -> Iterator[Group]:
    """In the order of the pieces. Small plain files go together, and Parquet files with the same columns."""
    waiting: list[OpenPiece] = []
    columns: Columns | None = None
    for piece in pieces:
        try:
            shape = columns_of(piece) if piece.piece.kind is FileKind.PARQUET else None
            in_blocks = shape is None and not _is_small(piece)
        except DamagedPieceError as error:
            on_damage(piece, error)
            continue
        if waiting and (in_blocks or shape != columns or _is_full(waiting, piece)):
            yield Group(tuple(waiting), columns)
            waiting = []
        if in_blocks:
            yield Group((piece,), None, in_blocks=True)
        else:
            waiting.append(piece)
            columns = shape
    if waiting:
        yield Group(tuple(waiting), columns)


def path_of(piece: OpenPiece, files: ExitStack) -> str:
    """Where DuckDB finds the whole of it; until `files` are closed."""
    if piece.path is not None:
        return str(piece.path)
    assert piece.data is not None
    memory = files.enter_context(MemoryFile())
    memory.hold([piece.data])
    return memory.path


def _is_small(piece: OpenPiece) -> bool:
    """Whether a piece can be read with others: plain lines, and no part of a bigger file."""
    if piece.piece.kind is not FileKind.NDJSON or piece.piece.length_bytes > _TOGETHER_BYTES:
        return False
    return piece.data is not None or piece.is_whole_file


def _is_full(waiting: Sequence[OpenPiece], piece: OpenPiece) -> bool:
    size_bytes = sum(other.piece.length_bytes for other in waiting) + piece.piece.length_bytes
    return size_bytes > _TOGETHER_BYTES or len(waiting) >= _TOGETHER_FILES

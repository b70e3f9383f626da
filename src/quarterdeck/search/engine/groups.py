"""Which pieces are read together by one query."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.engine.parquet_values import ColumnType
from quarterdeck.search.engine.pieces import DamagedPieceError, unpack_small
from quarterdeck.search.model import FileKind

_TOGETHER_BYTES: Final = 32 * 1024**2
_TOGETHER_FILES: Final = 100
_SMALL_BYTES: Final = 1024**2
"""Of a compressed file that is unpacked as a whole, if it then has not more than so many times that."""
_LARGEST_RATIO: Final = 16

Columns: TypeAlias = dict[str, ColumnType]
"""Of a Parquet file, by name."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pieces that are read one after the other, and how."""

    pieces: tuple[OpenPiece, ...]
    columns: Columns | None
    """Of Parquet files; None for lines."""
    in_blocks: bool = False
    """A single piece that is not read at once."""


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
            small = piece if shape is not None else _small(piece)
        except DamagedPieceError as error:
            on_damage(piece, error)
            continue
        if waiting and (small is None or shape != columns or _is_full(waiting, small)):
            yield Group(tuple(waiting), columns)
            waiting = []
        if small is None:
            yield Group((piece,), None, in_blocks=True)
        else:
            waiting.append(small)
            columns = shape
    if waiting:
        yield Group(tuple(waiting), columns)


def _small(piece: OpenPiece) -> OpenPiece | None:
    """The piece as it can be read with others: plain lines, not too many. None if it cannot."""
    if piece.piece.kind is not FileKind.NDJSON:
        is_small = piece.piece.length_bytes <= _SMALL_BYTES
        return unpack_small(piece, _LARGEST_RATIO * _SMALL_BYTES) if is_small else None
    return piece if piece.piece.length_bytes <= _TOGETHER_BYTES else None


def _is_full(waiting: Sequence[OpenPiece], piece: OpenPiece) -> bool:
    size_bytes = sum(map(_size_bytes, waiting)) + _size_bytes(piece)
    return size_bytes > _TOGETHER_BYTES or len(waiting) >= _TOGETHER_FILES


def _size_bytes(piece: OpenPiece) -> int:
    return piece.piece.length_bytes if piece.data is None else len(piece.data)

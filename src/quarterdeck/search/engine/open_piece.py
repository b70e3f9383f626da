"""A piece that can be read here, and what a quick look at one tells. Whoever asks an engine needs these, and no
engine."""

from dataclasses import dataclass
from pathlib import Path

from quarterdeck.search.model import FileKind, Piece


@dataclass(frozen=True, slots=True)
class OpenPiece:
    """A piece that can be read here."""

    piece: Piece
    path: Path | None
    """A local file, whole."""
    data: bytes | None
    """Or: the whole lines of a piece of plain NDJSON, or all of a compressed file."""

    def __post_init__(self) -> None:
        assert (self.path is None) != (self.data is None)
        assert self.path is not None or self.piece.kind is not FileKind.PARQUET


@dataclass(frozen=True, slots=True)
class Probe:
    fields: frozenset[str]
    """Names of top-level fields, and dotted ones of those within."""

"""The nouns of searching, which all parts of it share.

Microseconds are since 1970 in UTC. A URL is an absolute path or `s3://`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TIME_FIELDS: Final = ("ts", "timestamp", "time", "@timestamp", "_time")
"""Where the time of a record is looked for, unless somebody says where: the first of these that there is."""


class Order(StrEnum):
    """In which order records come that no stage has ordered."""

    TIME = "time"
    """By their time; those without one last; those of one moment in the order of the files."""
    INPUT = "input"
    """As they stand in the files, one file after the other."""
    NONE = "none"
    """As they are found."""


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """A search as every process that takes part in it understands it. Relative times are relative to `now_us`, so that
    all mean the same."""

    query: str
    now_us: int
    order: Order = Order.TIME
    time_field: str | None = None
    """The field that holds a record's time; None when there is none, and then TIME is INPUT."""
    start_us: int | None = None
    end_us: int | None = None
    """Records before it; the same as a range in the query."""


class FileKind(StrEnum):
    NDJSON = "ndjson"
    GZIP = "ndjson.gz"
    ZSTD = "ndjson.zst"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one file: the lines that begin in `[start, end)` of plain NDJSON, the whole of any other."""

    url: str
    kind: FileKind
    size_bytes: int
    """Of the whole file, when it was listed."""
    version: str
    """As in `stores.objects.ObjectRef`. Plain local NDJSON may have grown since: what was listed is searched."""
    start: int
    end: int

    @property
    def length_bytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one worker searches at a time. Chunks are numbered in the order of the files."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def size_bytes(self) -> int:
        return sum(piece.length_bytes for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """What could not be searched of a file."""

    url: str
    why: str
    lines: int = 0
    """Lines that are no records; 0 when nothing of the piece was searched."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The rows of an answer, as they went over the wire."""

    frames: int
    rows: int
    size_bytes: int
    checksum: str
    """Over all of them, in their order."""


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """What is known of a chunk when it was searched to its end. Its pieces are those that were searched, and those with
    a problem that has no lines; only a search that needs no more rows leaves others out."""

    scanned_bytes: int
    """Of pieces that were searched to their end: the lengths of these."""
    matches: int
    """Records that fulfil the condition, before any stage."""
    problems: tuple[FileProblem, ...] = ()
    seen: frozenset[str] = frozenset()
    """Of the fields that were asked about, those that some record has."""
    pieces: int = 0
    """That were searched to their end."""


def total_lines(problems: Iterable[FileProblem]) -> int:
    return sum(problem.lines for problem in problems)

"""`POST /worker/chunksearch` as it goes over HTTP: a search, and the pieces of files to search.

A root of ours says everything it knows about each piece. Other programs may only name files: then the worker finds out
the rest itself.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field, ValidationError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.bounded_body import MOST_PATH_CHARACTERS, BoundedBody, FieldName, Path, StopsAtFirst
from quarterdeck.http.errors import validation_problems
from quarterdeck.search.model import Chunk, FileKind, Order, SearchSpec
from quarterdeck.stores.locations import parse_location

RESERVATION_HEADER: Final = "X-Reservation"
_MOST_PIECES: Final = 10_000
_MOST_CHARACTERS: Final = 100_000
_ChunkPath = Annotated[str, Field(max_length=MOST_PATH_CHARACTERS + 50)]
"""A path with its range."""
_PART: Final = re.compile(r"(?P<path>.*)#bytes=(?P<start>\d{1,19})-(?P<end>\d{1,19})", re.DOTALL)


class ChunkBody(BoundedBody):
    """What to search."""

    query: str = Field(max_length=_MOST_CHARACTERS, description="In the search language.")
    chunk_paths: Annotated[list[_ChunkPath], StopsAtFirst()] = Field(
        max_length=_MOST_PIECES,
        description="Paths or URLs. A part of plain NDJSON is `PATH#bytes=START-END`: the lines that begin in it.",
    )
    data_path: Path = Field("", description="Where relative `chunk_paths` begin.")
    order: Order = Field(Order.TIME, description="The order of records, unless a stage sorts.")
    time_field: FieldName | None = Field(None, description="The field with a record's time.")
    start_us: int | None = Field(None, description="Records from this time on: microseconds since 1970 in UTC.")
    end_us: int | None = Field(None, description="Records before this time.")
    now_us: int | None = Field(None, description="What `now` means.")
    sizes: Annotated[list[Annotated[int, Field(ge=0)]], StopsAtFirst()] | None = Field(
        None,
        max_length=_MOST_PIECES,
        description="Sizes of the whole files when they were listed, one for each of `chunk_paths`.",
    )
    versions: Annotated[list[Path], StopsAtFirst()] | None = Field(
        None,
        max_length=_MOST_PIECES,
        description="Versions, like sizes. A file that has another version now is not searched.",
    )
    kinds: Annotated[list[FileKind], StopsAtFirst()] | None = Field(
        None, max_length=_MOST_PIECES, description="Kinds, like sizes. Without them names and first bytes decide."
    )
    ask_about: Annotated[list[FieldName], StopsAtFirst()] = Field(
        default_factory=list[str],
        max_length=1000,
        description="Fields for which to report whether any record has them.",
    )


@dataclass(frozen=True, slots=True)
class AskedPiece:
    """A `model.Piece` as far as it was told."""

    url: str
    start: int = 0
    end: int | None = None
    size_bytes: int | None = None
    version: str = ""
    kind: FileKind | None = None


@dataclass(frozen=True, slots=True)
class ChunkRequest:
    spec: SearchSpec
    pieces: tuple[AskedPiece, ...]
    ask_about: tuple[str, ...]


def encode_chunk(spec: SearchSpec, chunk: Chunk, ask_about: Collection[str]) -> bytes:
    pieces = chunk.pieces
    document = {
        "query": spec.query,
        # Always with its range, the whole of a file too: a name may end like one.
        "chunk_paths": [f"{piece.url}#bytes={piece.start}-{piece.end}" for piece in pieces],
        "order": spec.order,
        "time_field": spec.time_field,
        "start_us": spec.start_us,
        "end_us": spec.end_us,
        "now_us": spec.now_us,
        "sizes": [piece.size_bytes for piece in pieces],
        "versions": [piece.version for piece in pieces],
        "kinds": [piece.kind for piece in pieces],
        "ask_about": sorted(ask_about),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_chunk(body: bytes, now_us: int) -> ChunkRequest:
    """Raises `QuarterdeckError` for what makes no sense."""
    try:
        asked = ChunkBody.model_validate_json(body)
    except ValidationError as error:
        raise _refused(validation_problems(error.errors(include_url=False))) from None
    count = len(asked.chunk_paths)
    for name, told in (("sizes", asked.sizes), ("versions", asked.versions), ("kinds", asked.kinds)):
        if told is not None and len(told) != count:
            raise _refused(f"{name} has {len(told)} items, and chunk_paths {count}")
    spec = SearchSpec(
        asked.query,
        now_us if asked.now_us is None else asked.now_us,
        asked.order,
        asked.time_field,
        asked.start_us,
        asked.end_us,
    )
    pieces = tuple(
        _piece(
            path,
            asked.data_path,
            None if asked.sizes is None else asked.sizes[number],
            "" if asked.versions is None else asked.versions[number],
            None if asked.kinds is None else asked.kinds[number],
        )
        for number, path in enumerate(asked.chunk_paths)
    )
    return ChunkRequest(spec, pieces, tuple(asked.ask_about))


def _piece(path: str, data_path: str, size_bytes: int | None, version: str, kind: FileKind | None) -> AskedPiece:
    part = _PART.fullmatch(path)
    start, end = (int(part["start"]), int(part["end"])) if part is not None else (0, size_bytes)
    if end is not None and (start > end or (size_bytes is not None and end > size_bytes)):
        raise _refused(f"there are no such bytes: {path}")
    return AskedPiece(_url(path if part is None else part["path"], data_path), start, end, size_bytes, version, kind)


def _url(path: str, data_path: str) -> str:
    if "://" not in path and not path.startswith("/"):
        if not data_path:
            raise _refused(f"{path!r} is a relative path, and there is no data_path")
        path = f"{data_path.rstrip('/')}/{path}"
    return parse_location(path).url


def _refused(why: str) -> QuarterdeckError:
    what = "the request for /worker/chunksearch cannot be understood"
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, what, why, "correct it and ask again")

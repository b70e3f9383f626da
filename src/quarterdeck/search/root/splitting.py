"""From sources to chunks: which files are meant, what is in them, and what is searched together.

Plain NDJSON can be searched from anywhere, so a large file is several pieces; whatever is compressed, and Parquet, is
one. Every byte of every file is in exactly one piece, and chunks are numbered in the order of files and places.
"""

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.model import Chunk, FileKind, Piece
from quarterdeck.stores.globs import has_wildcard
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.locations import parse_location
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.regular_files import open_regular
from quarterdeck.stores.source_roots import Border

PART_BYTES_MIN: Final = 8 * MIB
"""Below, the way to a worker and back takes longer than the search."""
PART_BYTES_MAX: Final = 64 * MIB
"""Above, a worker that is lost in the middle costs too much."""
PARTS: Final = 16
"""Of what is neither little nor much: enough for a few workers to share it evenly, few enough that each is worth it."""
CHUNK_FILES_MAX: Final = 64
_NAMED_MAX: Final = 3
_HEAD_BYTES: Final = 4
_PLAIN: Final = (".ndjson", ".jsonl", ".json", ".log")
_MAGICS: Final = (
    (b"\x1f\x8b", FileKind.GZIP),
    (b"\x28\xb5\x2f\xfd", FileKind.ZSTD),
    (b"PAR1", FileKind.PARQUET),
)
SUFFIXES: Final = {
    **dict.fromkeys(_PLAIN, FileKind.NDJSON),
    **{plain + ".gz": FileKind.GZIP for plain in _PLAIN},
    **{plain + ".zst": FileKind.ZSTD for plain in _PLAIN},
    ".parquet": FileKind.PARQUET,
}


@dataclass(frozen=True, slots=True)
class SearchFile:
    """A file that is searched."""

    ref: ObjectRef
    kind: FileKind


async def find_files(objects: ObjectStores, sources: Iterable[str], border: Border | None = None) -> list[SearchFile]:
    """What the sources mean, each file once, where it first came. Of a folder it is what has a suffix that is known;
    what was named, by itself or by a glob, is meant whatever it is called."""
    found: dict[str, SearchFile] = {}
    for source in sources:
        refs = await objects.find(source, border)
        if _is_folder(source, refs):
            for file in _known(source, refs):
                found.setdefault(file.ref.url, file)
        else:
            async for file in _named(objects, (ref for ref in refs if ref.url not in found)):
                found[file.ref.url] = file
    return list(found.values())


def split(files: Sequence[SearchFile]) -> list[Chunk]:
    """Neighbours together as far as they are small, large plain files in parts."""
    total_bytes = sum(file.ref.size_bytes for file in files)
    part_bytes = min(PART_BYTES_MAX, max(PART_BYTES_MIN, total_bytes // PARTS))
    chunks: list[Chunk] = []
    pieces: list[Piece] = []
    size_bytes = 0
    for piece in (piece for file in files for piece in _pieces(file, part_bytes)):
        if pieces and (len(pieces) >= CHUNK_FILES_MAX or size_bytes + piece.length_bytes > part_bytes):
            chunks.append(Chunk(len(chunks), tuple(pieces)))
            pieces, size_bytes = [], 0
        pieces.append(piece)
        size_bytes += piece.length_bytes
    if pieces:
        chunks.append(Chunk(len(chunks), tuple(pieces)))
    return chunks


def kind_by_suffix(url: str) -> FileKind | None:
    """
    >>> kind_by_suffix("/logs/app.log.gz"), kind_by_suffix("/logs/notes.txt")
    (<FileKind.GZIP: 'ndjson.gz'>, None)
    """
    name = PurePosixPath(url).name.lower()
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)


def kind_by_head(head: bytes) -> FileKind:
    """Of the first bytes of a file; what is none of the others is NDJSON."""
    return next((kind for magic, kind in _MAGICS if head.startswith(magic)), FileKind.NDJSON)


def _is_folder(source: str, refs: Sequence[ObjectRef]) -> bool:
    location = parse_location(source)
    if has_wildcard(location.key):
        return False
    return len(refs) != 1 or refs[0].url != location.url


def _known(source: str, refs: Sequence[ObjectRef]) -> list[SearchFile]:
    files = [SearchFile(ref, kind) for ref in refs if (kind := kind_by_suffix(ref.url)) is not None]
    if not files:
        shown = ", ".join(PurePosixPath(ref.url).name for ref in refs[:_NAMED_MAX])
        more = f" and {len(refs) - _NAMED_MAX:,} more" if len(refs) > _NAMED_MAX else ""
        raise QuarterdeckError(
            ErrorCode.NOT_FOUND,
            f"{source} has nothing to search",
            f"of a folder files are searched that end with {', '.join(_PLAIN)}, the same and .gz or .zst, or .parquet; "
            f"it has {shown}{more}",
            "name the files, or use a glob: then they are searched whatever they are called",
        )
    return files


async def _named(objects: ObjectStores, refs: Iterable[ObjectRef]) -> AsyncIterator[SearchFile]:
    for ref in refs:
        kind = kind_by_suffix(ref.url)
        yield SearchFile(ref, kind_by_head(await _head(objects, ref)) if kind is None else kind)


async def _head(objects: ObjectStores, ref: ObjectRef) -> bytes:
    if not ref.size_bytes:
        return b""
    path = objects.local_path(ref)
    if path is not None:  # it may grow meanwhile, which changes nothing here
        return await objects.look(path, lambda: _read_head(path))
    async with aclosing(objects.stream(ref, chunk_bytes=1)) as parts:
        async for part in parts:
            return bytes(part[:_HEAD_BYTES])
    return b""


def _read_head(path: Path) -> bytes:
    try:
        descriptor = open_regular(path)
        try:
            return os.read(descriptor, _HEAD_BYTES)
        finally:
            os.close(descriptor)
    except OSError:
        return b""  # whoever searches it says what is wrong


def _pieces(file: SearchFile, part_bytes: int) -> Iterator[Piece]:
    ref, size_bytes = file.ref, file.ref.size_bytes
    if file.kind is FileKind.NDJSON:
        parts = -(-size_bytes // part_bytes)
        bounds = [size_bytes * part // parts for part in range(parts + 1)] if parts else []
    else:
        bounds = [0, size_bytes]
    for start, end in pairwise(bounds):
        yield Piece(ref.url, file.kind, size_bytes, ref.version, start, end)

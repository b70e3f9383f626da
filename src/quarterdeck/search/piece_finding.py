"""Completes pieces about which the request says too little: it looks at the files for the rest."""

from collections.abc import Sequence

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.search.chunk_request import AskedPiece
from quarterdeck.search.model import FileKind, FileProblem, Piece
from quarterdeck.search.root.splitting import kind_by_head, kind_by_suffix
from quarterdeck.stores.objects import ObjectStores

_MAGIC_BYTES = 4


async def find_pieces(objects: ObjectStores, asked: Sequence[AskedPiece]) -> tuple[list[Piece], list[FileProblem]]:
    """All of them in their order, without those that are not there. Raises what may be better a moment later."""
    pieces: list[Piece] = []
    problems: list[FileProblem] = []
    for each in asked:
        try:
            pieces.append(await _find(objects, each))
        except QuarterdeckError as error:
            if error.retryable:
                raise
            problems.append(FileProblem(each.url, error.why))
    return pieces, problems


async def _find(objects: ObjectStores, asked: AskedPiece) -> Piece:
    kind = asked.kind or kind_by_suffix(asked.url)
    if kind is not None and asked.size_bytes is not None and asked.end is not None:
        return Piece(asked.url, kind, asked.size_bytes, asked.version, asked.start, asked.end)
    ref = await objects.head(asked.url)
    if kind is None:
        kind = kind_by_head(await objects.read_range(ref, 0, min(_MAGIC_BYTES, ref.size_bytes)))
    size_bytes = ref.size_bytes if asked.size_bytes is None else asked.size_bytes
    end = size_bytes if asked.end is None else min(asked.end, size_bytes)
    if kind is not FileKind.NDJSON:
        return Piece(asked.url, kind, size_bytes, asked.version or ref.version, 0, size_bytes)
    return Piece(asked.url, kind, size_bytes, asked.version or ref.version, min(asked.start, end), end)

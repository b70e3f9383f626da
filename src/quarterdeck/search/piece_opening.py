"""Brings the pieces of a chunk to where they can be searched.

Local files are read where they are. From plain NDJSON in S3, only the lines of the piece are read; anything else in S3
comes through the worker's cache. A piece that cannot be had at all is reported, and the rest is searched.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.engine.line_records import LONGEST_LINE_BYTES
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.model import FileKind, FileProblem, Piece
from quarterdeck.stores.cache_files import check_unchanged
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from quarterdeck.stores.regular_files import open_regular

_OPEN_AT_ONCE: Final = 8
"""As in `crew.inputs`."""
_AHEAD_BYTES: Final = 64 * 1024
"""Read beyond the end of a piece at once: mostly its last line ends there, and a second request is saved."""


class PieceOpener:
    def __init__(self, objects: ObjectStores, cache: ParquetCache) -> None:
        self._objects = objects
        self._cache = cache
        self._read_bytes = 0

    @property
    def received_bytes(self) -> int:
        """Of all pieces, as they come: whoever waits for one sees whether it gets on."""
        return self._read_bytes + self._cache.received_bytes

    @asynccontextmanager
    async def opened(self, pieces: Sequence[Piece]) -> AsyncGenerator[tuple[list[OpenPiece], list[FileProblem]]]:
        """What can be searched, in its order, for as long as the block lasts; and what is wrong with the rest. Raises
        what may be better a moment later."""
        found: list[OpenPiece | FileProblem | None] = [None] * len(pieces)
        async with AsyncExitStack() as stack:
            left = iter(enumerate(pieces))
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in pieces[:_OPEN_AT_ONCE]:
                        group.create_task(self._open_one_after_the_other(left, found, stack))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from errors
            yield (
                [each for each in found if isinstance(each, OpenPiece)],
                [each for each in found if isinstance(each, FileProblem)],
            )

    async def _open_one_after_the_other(
        self, left: Iterator[tuple[int, Piece]], found: list[OpenPiece | FileProblem | None], stack: AsyncExitStack
    ) -> None:
        for number, piece in left:
            try:
                found[number] = await self._open(piece, stack)
            except QuarterdeckError as error:
                if error.retryable:
                    raise
                found[number] = FileProblem(piece.url, error.why)

    async def _open(self, piece: Piece, stack: AsyncExitStack) -> OpenPiece:
        ref = ObjectRef(piece.url, piece.size_bytes, piece.version)
        path = self._objects.local_path(ref)
        if path is not None:
            await self._objects.look(path, lambda: _check_local(piece, ref, path))
            return OpenPiece(piece, path, None)
        if piece.kind is FileKind.NDJSON:
            return OpenPiece(piece, None, await self._read_lines(piece, ref))
        is_parquet = piece.kind is FileKind.PARQUET
        return OpenPiece(piece, await stack.enter_async_context(self._cache.open(ref, is_parquet=is_parquet)), None)

    async def _read_lines(self, piece: Piece, ref: ObjectRef) -> bytes:
        """The lines that begin in the piece, to their ends. Whether one begins with its first byte, the byte before
        tells."""
        if piece.start == piece.end:
            return b""
        base = max(0, piece.start - 1)
        at = min(piece.end + _AHEAD_BYTES, piece.size_bytes)
        data = await self._read(ref, base, at)
        begin = data.find(b"\n") + 1 if base < piece.start else 0
        if (base < piece.start and not begin) or base + begin >= piece.end:
            return b""
        parts = [data]
        end = data.find(b"\n", piece.end - 1 - base) + 1
        length = 0 if end else len(data)
        step = _AHEAD_BYTES
        while not end and at < piece.size_bytes:
            if at - piece.end > LONGEST_LINE_BYTES:  # a file without line ends would come whole, for every piece
                raise _unreadable(piece, f"a line is longer than {LONGEST_LINE_BYTES // MIB} MiB")
            step = min(2 * step, 8 * MIB)
            more = await self._read(ref, at, min(at + step, piece.size_bytes))
            parts.append(more)
            at += len(more)
            if newline := more.find(b"\n") + 1:
                end = length + newline
            length += len(more)
        return b"".join(parts)[begin : end or None]

    async def _read(self, ref: ObjectRef, start: int, end: int) -> bytes:
        data = await self._objects.read_range(ref, start, end)
        self._read_bytes += len(data)
        return data


def _check_local(piece: Piece, ref: ObjectRef, path: Path) -> None:
    """Whether it is there, may be read, and has what was listed. Plain lines may have been added since."""
    try:
        descriptor = open_regular(path)
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise _unreadable(piece, "there is no such file") from None
    except OSError as error:
        raise _unreadable(piece, error.strerror or str(error)) from error
    if piece.kind is not FileKind.NDJSON:
        check_unchanged(ref, path)
    elif found.st_size < piece.size_bytes:
        raise _unreadable(piece, f"it had {piece.size_bytes:,} bytes when it was listed, and has {found.st_size:,} now")


def _unreadable(piece: Piece, why: str) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.WORK_FAILED, f"{piece.url} cannot be read", why, "look at the file")

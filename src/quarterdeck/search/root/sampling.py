"""What a sample of a file says about its fields, wherever the file is. Of a file in S3 a few hundred kilobytes are
read, whatever its size."""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Protocol

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.open_piece import OpenPiece, Probe
from quarterdeck.search.model import FileKind, Piece
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.regular_files import stat_regular
from quarterdeck.stores.threads import in_thread

_SAMPLE_BYTES: Final = 256 * 1024
_TAIL: Final = struct.Struct("<I4s")
"""Of a Parquet file: how long its footer is, and that it is one."""
_FOOTER_BYTES_MAX: Final = 16 * 1024**2
_LOOK_MAX_S: Final = 30.0
"""A look at a sample takes milliseconds; one that does not end is of a file that nobody can read."""


class Probing(Protocol):
    """`engine.contained_search.ContainedSearcher.probe`."""

    def __call__(self, piece: OpenPiece, stop: StopSignal) -> Probe: ...


class FieldSampling:
    """Implements `planning.Sampling`."""

    def __init__(self, objects: ObjectStores, probe: Probing) -> None:
        self._objects = objects
        self._probe = probe

    async def fields_of(self, piece: Piece) -> frozenset[str]:
        """None of a file that cannot be read: whoever searches it says what is wrong."""
        ref = ObjectRef(piece.url, piece.size_bytes, piece.version)
        path = self._objects.local_path(ref)
        stop = CancelToken()
        try:
            if path is not None:
                return await self._local_fields(piece, path, stop)
            if piece.kind is FileKind.PARQUET:
                return await self._columns(piece, ref, stop)
            return await self._first_lines(piece, ref, stop)
        except (QuarterdeckError, OSError, TimeoutError):
            return frozenset()

    async def _local_fields(self, piece: Piece, path: Path, stop: CancelToken) -> frozenset[str]:
        def look() -> Probe:
            stat_regular(path)
            return self._probe(OpenPiece(piece, path, None), stop)

        try:
            return (await self._objects.look(path, look)).fields
        except BaseException:
            stop.cancel()  # the look may go on in its thread
            raise

    async def _first_lines(self, piece: Piece, ref: ObjectRef, stop: CancelToken) -> frozenset[str]:
        end = min(_SAMPLE_BYTES, piece.end)
        data = await self._objects.read_range(ref, 0, end)
        if piece.kind is FileKind.NDJSON and end < piece.size_bytes:
            data = data[: data.rfind(b"\n") + 1]
        return await _fields(lambda: self._probe(OpenPiece(replace(piece, end=end), None, data), stop), stop)

    async def _columns(self, piece: Piece, ref: ObjectRef, stop: CancelToken) -> frozenset[str]:
        """The footer has them. Behind four bytes it is a file, as far as its columns are concerned."""
        if ref.size_bytes < 2 * _TAIL.size:
            return frozenset()
        footer_bytes, magic = _TAIL.unpack(
            await self._objects.read_range(ref, ref.size_bytes - _TAIL.size, ref.size_bytes)
        )
        begin = ref.size_bytes - _TAIL.size - footer_bytes
        if magic != b"PAR1" or begin < 4 or footer_bytes > _FOOTER_BYTES_MAX:
            return frozenset()
        data = b"PAR1" + await self._objects.read_range(ref, begin, ref.size_bytes)

        def look() -> Probe:
            with NamedTemporaryFile() as file:
                file.write(data)
                file.flush()
                return self._probe(OpenPiece(replace(piece, end=len(data)), Path(file.name), None), stop)

        return await _fields(look, stop)


async def _fields(look: Callable[[], Probe], stop: CancelToken) -> frozenset[str]:
    async with asyncio.timeout(_LOOK_MAX_S):
        return (await in_thread(look, on_cancel=stop.cancel)).fields

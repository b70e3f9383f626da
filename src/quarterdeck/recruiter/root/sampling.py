"""What a sample of a file says about its fields, wherever the file is. Of a file in S3 a few hundred kilobytes are
read, whatever its size."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.recruiter.engine.pieces import DamagedPieceError, OpenPiece
from quarterdeck.recruiter.engine.probing import Probe, probe
from quarterdeck.recruiter.model import FileKind, Piece
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.regular_files import stat_regular
from quarterdeck.stores.threads import finish_in_thread

_SAMPLE_BYTES: Final = 256 * 1024
_TAIL: Final = struct.Struct("<I4s")
"""Of a Parquet file: how long its footer is, and that it is one."""
_FOOTER_BYTES_MAX: Final = 16 * 1024**2


class FieldSampling:
    """Implements `planning.Sampling`."""

    def __init__(self, objects: ObjectStores) -> None:
        self._objects = objects

    async def fields_of(self, piece: Piece) -> frozenset[str]:
        """None of a file that cannot be read: whoever searches it says what is wrong."""
        ref = ObjectRef(piece.url, piece.size_bytes, piece.version)
        path = self._objects.local_path(ref)
        try:
            if path is not None:
                return (await self._objects.look(path, lambda: _probe_local(piece, path))).fields
            if piece.kind is FileKind.PARQUET:
                return await self._columns(piece, ref)
            return await self._first_lines(piece, ref)
        except (QuarterdeckError, DamagedPieceError, OSError):
            return frozenset()

    async def _first_lines(self, piece: Piece, ref: ObjectRef) -> frozenset[str]:
        end = min(_SAMPLE_BYTES, piece.end)
        data = await self._objects.read_range(ref, 0, end)
        if piece.kind is FileKind.NDJSON and end < piece.size_bytes:
            data = data[: data.rfind(b"\n") + 1]
        return await _fields(lambda: probe(OpenPiece(replace(piece, end=end), None, data)))

    async def _columns(self, piece: Piece, ref: ObjectRef) -> frozenset[str]:
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
                return probe(OpenPiece(replace(piece, end=len(data)), Path(file.name), None))

        return await _fields(look)


def _probe_local(piece: Piece, path: Path) -> Probe:
    stat_regular(path)
    return probe(OpenPiece(piece, path, None))


async def _fields(look: Callable[[], Probe]) -> frozenset[str]:
    return (await finish_in_thread(look)).fields

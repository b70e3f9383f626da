"""Pieces of files as blocks of whole lines.

A line belongs to the piece in which it begins. A compressed file is unpacked here: it says so when it is damaged or cut
off, which DuckDB does not of every kind.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.search.engine.line_buffer import LineBuffer
from quarterdeck.search.engine.line_records import LONGEST_LINE_BYTES
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.model import FileKind

_arrow: Final[Any] = pyarrow

BLOCK_BYTES: Final = 64 * 1024**2
"""Of lines: more would not be faster, and takes memory; with less, the start of each query counts."""
_UNPACKED_BYTES: Final = 32 * 1024**2
"""The same of lines that are in memory twice."""
_LOOK_BYTES: Final = 64 * 1024
_CHECK_BYTES: Final = 4 * 1024**2
_CODECS: Final = {FileKind.GZIP: "gzip", FileKind.ZSTD: "zstd"}


class DamagedPieceError(Exception):
    """Why a piece cannot be searched, in a few words."""


def line_blocks(piece: OpenPiece, buffer: LineBuffer) -> Iterator[int]:
    """Fills the buffer with one block after the other. Tells each time how many bytes of the piece were read. Raises
    `DamagedPieceError`; what was read of the piece before is not to be trusted then."""
    try:
        if piece.piece.kind in _CODECS:
            yield from _unpacked_blocks(piece, buffer)
        elif piece.data is not None:
            yield from _data_blocks(piece.data, buffer)
        else:
            yield from _file_blocks(piece, buffer)
    except OSError as error:
        raise DamagedPieceError(_reason(error)) from error


def add_lines(piece: OpenPiece, buffer: LineBuffer) -> None:
    """Adds all lines of a piece that is not compressed. Raises `DamagedPieceError`; nothing is added then."""
    if piece.data is not None:
        buffer.add(piece.data)
        return
    try:
        with _opened(piece) as (descriptor, size):
            first, last = (_line_start(descriptor, place, size) for place in (piece.piece.start, piece.piece.end))
            if last < first:  # what was looked at first is gone
                raise DamagedPieceError("it changed while it was read")
            buffer.add_part_of(descriptor, first, last)
    except OSError as error:
        raise DamagedPieceError(_reason(error)) from error


def check_packed(piece: OpenPiece, on_step: Callable[[], None]) -> None:
    """Reads a compressed file to its end. Raises `DamagedPieceError`, and what `on_step` raises now and then."""
    if piece.piece.kind not in _CODECS:
        return
    buffer = _room(_CHECK_BYTES)
    try:
        with unpacked(piece) as (stream, _):
            while _fill(stream, buffer):
                on_step()
    except OSError as error:
        raise DamagedPieceError(_reason(error)) from error


def unpack_small(piece: OpenPiece, limit_bytes: int) -> OpenPiece | None:
    """The same piece with its lines as they are, if it is compressed and they are no more than this. Raises
    `DamagedPieceError`."""
    if piece.piece.kind not in _CODECS:
        return None
    try:
        with unpacked(piece) as (stream, _):
            data: bytes = stream.read(limit_bytes + 1)
    except OSError as error:
        raise DamagedPieceError(_reason(error)) from error
    return OpenPiece(replace(piece.piece, kind=FileKind.NDJSON), None, data) if len(data) <= limit_bytes else None


@contextmanager
def unpacked(piece: OpenPiece) -> Generator[tuple[Any, Any]]:
    """What is packed in a piece, and the packed bytes that it is read from, both like files."""
    packed = _arrow.BufferReader(piece.data) if piece.data is not None else _arrow.OSFile(str(piece.path))
    with packed, _arrow.CompressedInputStream(packed, _CODECS[piece.piece.kind]) as stream:
        yield stream, packed


def _unpacked_blocks(piece: OpenPiece, buffer: LineBuffer) -> Iterator[int]:
    view = _room(_UNPACKED_BYTES + LONGEST_LINE_BYTES)
    held = 0  # bytes at the start of the buffer: of a line that has not ended yet
    with unpacked(piece) as (stream, packed):
        while read := _fill(stream, view[held : held + _UNPACKED_BYTES]):
            filled = held + read
            end = _last_line_end(view, held, filled)
            if end:
                buffer.hold(view[:end])
                yield packed.tell()
                view[: filled - end] = bytes(view[end:filled])
            held = filled - end
            if held > LONGEST_LINE_BYTES:
                raise _too_long()
        if held:
            buffer.hold(view[:held])
            yield packed.tell()


def _room(length: int) -> memoryview:
    """Memory that is not touched before it is used: most files are small."""
    room: Any = numpy.empty(length, numpy.uint8)
    return memoryview(room)


def _last_line_end(view: memoryview, start: int, end: int) -> int:
    """The place after the last end of a line; 0 if there is none."""
    while end > start:
        before = max(start, end - _LOOK_BYTES)
        found = bytes(view[before:end]).rfind(b"\n")
        if found >= 0:
            return before + found + 1
        end = before
    return 0


def _fill(stream: Any, view: memoryview) -> int:
    """Reads until there is no more room, or nothing more to read."""
    filled = 0
    while filled < len(view):
        count = stream.readinto(view[filled:])
        if not count:
            break
        filled += count
    return filled


def _data_blocks(data: bytes, buffer: LineBuffer) -> Iterator[int]:
    view = memoryview(data)
    start = 0
    while start < len(data):
        end = len(data)
        if end - start > BLOCK_BYTES + _LOOK_BYTES:
            end = data.rfind(b"\n", start, start + BLOCK_BYTES) + 1 or data.find(b"\n", start + BLOCK_BYTES) + 1 or end
        buffer.hold(view[start:end])
        start = end
        yield start


def _file_blocks(piece: OpenPiece, buffer: LineBuffer) -> Iterator[int]:
    with _opened(piece) as (descriptor, size):
        place = _line_start(descriptor, piece.piece.start, size)
        last = _line_start(descriptor, piece.piece.end, size)
        while place < last:
            # A piece of the usual size, with the rest of its last line, is not worth a second block.
            is_last = last - place <= BLOCK_BYTES + _LOOK_BYTES
            end = last if is_last else min(last, _line_start(descriptor, place + BLOCK_BYTES, size))
            buffer.hold_part_of(descriptor, place, end)
            place = end
            yield min(end, piece.piece.end) - piece.piece.start


@contextmanager
def _opened(piece: OpenPiece) -> Generator[tuple[int, int]]:
    """A local file and its size, which is not less than when it was listed."""
    assert piece.path is not None
    descriptor = os.open(piece.path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        if size < piece.piece.end:
            raise DamagedPieceError("it is shorter than when it was listed")
        yield descriptor, size
    except EOFError:
        raise DamagedPieceError("it became shorter while it was read") from None
    finally:
        os.close(descriptor)


def _line_start(descriptor: int, place: int, size: int) -> int:
    """The first place, from this one on, where a line begins; the end of the file if none does."""
    if place <= 0:
        return 0
    looked = place - 1  # a line begins after the end of another
    while looked < size:
        found = os.pread(descriptor, _LOOK_BYTES, looked)
        if not found:
            break
        end = found.find(b"\n")
        if end >= 0:
            return looked + end + 1
        looked += len(found)
        if looked - place > LONGEST_LINE_BYTES:
            raise _too_long()
    return size


def _too_long() -> DamagedPieceError:
    return DamagedPieceError(f"a line is longer than {LONGEST_LINE_BYTES // 1024**2} MiB")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)

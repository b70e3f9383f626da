"""A text file, maybe compressed, as pieces of a few MiB that hold whole lines."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.metrics.importing.errors import Malformed, Named, told_with
from quarterdeck.stores.regular_files import open_regular, stat_regular

_arrow: Final[Any] = pyarrow

MAX_LINE_BYTES: Final = 1 << 20
"""A longer line is none that anybody meant to write."""
PIECE_BYTES: Final = 4 << 20

_BY_SUFFIX: Final = {".gz": "gzip", ".zst": "zstd"}
_BY_MAGIC: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""No text in either format begins with these."""


class LinePiece(NamedTuple):
    """Whole lines, each with its line end; maybe none."""

    data: bytes
    tail: bytes = b""
    """After them, the beginning of a line that has no end; then this is the last piece."""


class LineSource:
    """An open file; close it, or use it as a context manager."""

    def __init__(self, path: Path, name: str = "") -> None:
        """`name` is what errors call the file, if not by its path."""
        self._name: Final = name or path
        self._codec: Final = _codec_of(path, self._name)
        with told_with(self._name, "it cannot be opened", "check the file"):
            stat_regular(path)
            self._file: Final = _arrow.OSFile(str(path))
            self._stream: Any = self._file
            if self._codec is not None:
                self._stream = _arrow.CompressedInputStream(self._file, self._codec)

    @property
    def read_bytes(self) -> int:
        """Of the file as it is stored."""
        return self._file.tell()

    def pieces(self) -> Iterator[LinePiece]:
        """To the end of the file, or to a line that is too long."""
        rest = b""
        while read := self._read():
            data = rest + read
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if len(rest) > MAX_LINE_BYTES:
                yield LinePiece(data[:end], rest)
                return
            if end:
                yield LinePiece(data if end == len(data) else data[:end])
        if rest:
            yield LinePiece(b"", rest)

    def _read(self) -> bytes:
        with told_with(
            self._name,
            f"it cannot be decompressed as {self._codec}",
            "check that it was copied whole; a file that is not compressed is to have another extension",
        ):
            return self._stream.read(PIECE_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stream.close()
        self._file.close()


def unfinished(tail: bytes) -> Malformed:
    """What is wrong with a tail."""
    if len(tail) > MAX_LINE_BYTES:
        return Malformed(f"the line is longer than {MAX_LINE_BYTES} bytes", "check that this is a text file of metrics")
    return Malformed(
        "the file ends within this line: it is truncated",
        "copy or write the file again; if it is complete, end its last line with a line feed",
    )


def _codec_of(path: Path, name: Named) -> str | None:
    if path.suffix in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix]
    with told_with(name, "it cannot be opened", "check the file"), os.fdopen(open_regular(path), "rb") as file:
        start = file.read(4)
    return next((codec for magic, codec in _BY_MAGIC.items() if start.startswith(magic)), None)

"""Rows as bytes for a client: Arrow's stream, lines of JSON, or CSV. There is one schema for the whole answer."""

from collections.abc import Generator, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import csv, parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.scan.json_lines import JsonLines

_arrow: Final[Any] = pyarrow
_csv: Final[Any] = csv
_parquet: Final[Any] = parquet
_types: Final[Any] = pyarrow.types

Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
_PIECE_BYTES: Final = 4 * 1024 * 1024
"""Of rows that are rendered, and of what is sent, at once."""


class Format(StrEnum):
    ARROW = "application/vnd.apache.arrow.stream"
    NDJSON = "application/x-ndjson"
    CSV = "text/csv"


_BY_WORD: Final = {"arrow": Format.ARROW, "ndjson": Format.NDJSON, "json": Format.NDJSON, "csv": Format.CSV}


def choose_format(word: str | None, accept: str) -> Format:
    """The word in the request decides, then its `Accept` header; otherwise it is lines of JSON."""
    if word is not None:
        if word not in _BY_WORD:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"there is no format {word!r}",
                "rows come as Arrow's stream, lines of JSON or CSV",
                f"ask for one of: {', '.join(_BY_WORD)}",
            )
        return _BY_WORD[word]
    wanted = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    return next((known for known in Format if known in wanted), Format.NDJSON)


class Writer(Protocol):
    """Takes the batches of one answer, in order. Blocking: it computes."""

    def write(self, batch: Batch) -> bytes:
        """A batch without rows tells the columns, which some forms show."""
        ...

    def finish(self) -> bytes:
        """What comes after the last row."""
        ...

    def close(self) -> None:
        """However it ended, and when nothing writes any more; again is fine."""
        ...


def make_writer(form: Format) -> Writer:
    match form:
        case Format.ARROW:
            return ArrowWriter()
        case Format.NDJSON:
            return JsonWriter()
        case Format.CSV:
            return CsvWriter()


class _OneSchema:
    """Every batch in the schema of the first."""

    def __init__(self) -> None:
        self.schema: Any = None

    def fit(self, batch: Batch) -> Batch:
        if self.schema is None:
            self.schema = batch.schema.remove_metadata()
        if batch.schema.equals(self.schema):
            return batch
        try:
            return batch.cast(self.schema)
        except (_arrow.ArrowException, ValueError) as error:
            raise QuarterdeckError(
                ErrorCode.WORK_FAILED,
                "the parts of the answer do not fit together",
                f"some files give other columns than the first ({str(error).splitlines()[0]})",
                "name and cast the columns in the SQL",
            ) from None


class ArrowWriter:
    def __init__(self) -> None:
        self._schema = _OneSchema()
        self._out = _Sink()
        self._stream: Any = None

    def write(self, batch: Batch) -> bytes:
        batch = self._schema.fit(batch)
        if self._stream is None:
            self._stream = _arrow.ipc.new_stream(self._out, self._schema.schema)
        self._stream.write_batch(batch)
        return self._out.take()

    def finish(self) -> bytes:
        if self._stream is None:
            return b""
        self._stream.close()
        return self._out.take()

    def close(self) -> None:
        pass


class _Sink:
    """A file that is read as it is written."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def writable(self) -> bool:
        return True

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


class JsonWriter:
    def __init__(self) -> None:
        self._schema = _OneSchema()
        self._lines = JsonLines()

    def write(self, batch: Batch) -> bytes:
        return self._lines.render(self._schema.fit(batch))

    def finish(self) -> bytes:
        self.close()
        return b""

    def close(self) -> None:
        self._lines.close()


class CsvWriter:
    """A header, once; text in quotes, nothing for null."""

    def __init__(self) -> None:
        self._schema = _OneSchema()
        self._begun = False

    def write(self, batch: Batch) -> bytes:
        batch = self._schema.fit(batch)
        if not self._begun:
            _insist_on_text(batch.schema)
        sink = _arrow.BufferOutputStream()
        _csv.write_csv(_arrow.Table.from_batches([batch]), sink, _csv.WriteOptions(include_header=not self._begun))
        self._begun = True
        return sink.getvalue().to_pybytes()

    def finish(self) -> bytes:
        return b""

    def close(self) -> None:
        pass


def _insist_on_text(schema: Any) -> None:
    """Before the first row: later an answer could only be broken off."""
    for field in schema:
        if not _has_text(field.type):
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                "the rows cannot be told in CSV",
                f"column {field.name!r} is {field.type}, for which CSV has no form",
                "ask for lines of JSON or Arrow's stream, or cast the column to text in the SQL",
            )


def _has_text(kind: Any) -> bool:
    if _types.is_dictionary(kind):
        return _has_text(kind.value_type)
    is_number = _types.is_integer(kind) or _types.is_floating(kind) or _types.is_decimal(kind)
    is_text = _types.is_string(kind) or _types.is_large_string(kind)
    is_time = _types.is_timestamp(kind) or _types.is_date(kind) or _types.is_time(kind)
    return is_number or is_text or is_time or _types.is_boolean(kind) or _types.is_null(kind)


def no_rows(artifact: bytes | Path) -> Batch:
    """A batch with the columns of a Parquet file and nothing in them: a file without rows has no batch to read."""
    schema = _parquet.read_schema(_arrow.BufferReader(artifact) if isinstance(artifact, bytes) else artifact)
    return _arrow.RecordBatch.from_pylist([], schema)


def rendered(writer: Writer, batches: Iterator[Batch]) -> Generator[bytes]:
    """The bytes of each batch, as they are asked for, a few megabytes at a time: a form may take several times the
    memory of the rows, and who sends it copies it on the event loop."""
    for batch in batches:
        for piece in _pieces(batch):
            data = writer.write(piece)
            for place in range(0, len(data), _PIECE_BYTES):
                yield data[place : place + _PIECE_BYTES]  # all of it, mostly, and then not copied


def _pieces(batch: Batch) -> Iterator[Batch]:
    """In order; each small, or a single row."""
    left = [batch]
    while left:
        piece = left.pop()
        if piece.num_rows <= 1 or piece.nbytes <= _PIECE_BYTES:
            yield piece
        else:
            half = piece.num_rows // 2
            left += (piece.slice(half), piece.slice(0, half))

"""Rows as bytes for whoever asked: Arrow's stream, lines of JSON, or CSV. One schema for the whole answer."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute, csv  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute
_csv: Final[Any] = csv
_engine: Final[Any] = duckdb

Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""


class Format(StrEnum):
    ARROW = "application/vnd.apache.arrow.stream"
    NDJSON = "application/x-ndjson"
    CSV = "text/csv"


_BY_WORD: Final = {"arrow": Format.ARROW, "ndjson": Format.NDJSON, "json": Format.NDJSON, "csv": Format.CSV}


def choose_format(word: str | None, accept: str) -> Format:
    """By the word in the request, else by its `Accept` header, else lines of JSON."""
    if word is not None:
        if word not in _BY_WORD:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"there is no format {word!r}",
                "rows come as Arrow's stream, lines of JSON or CSV",
                f"ask for one of: {', '.join(_BY_WORD)}",
            )
        return _BY_WORD[word]
    wanted = [part.split(";")[0].strip() for part in accept.split(",")]
    return next((known for known in Format if known in wanted), Format.NDJSON)


class Writer(Protocol):
    """Takes the batches of one answer, in order. Blocking: it computes."""

    def write(self, batch: Batch) -> bytes: ...

    def finish(self) -> bytes:
        """What comes after the last row."""
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
        except (_arrow.ArrowInvalid, _arrow.ArrowNotImplementedError, ValueError) as error:
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
    """One object a line. DuckDB renders them: there is no loop over rows here."""

    def __init__(self) -> None:
        self._schema = _OneSchema()
        self._engine = _engine.connect(":memory:", config={"threads": "1", "enable_external_access": "false"})

    def write(self, batch: Batch) -> bytes:
        table = _arrow.Table.from_batches([self._schema.fit(batch)])
        if table.num_rows == 0:
            return b""
        lines = self._engine.from_arrow(table).query("rows", "SELECT to_json(rows)::VARCHAR FROM rows")
        column: Any = lines.to_arrow_table().column(0).combine_chunks()
        joined: Any = _compute.binary_join(_arrow.ListArray.from_arrays([0, len(column)], column), "\n")
        return joined[0].as_py().encode() + b"\n"

    def finish(self) -> bytes:
        self._engine.close()
        return b""


class CsvWriter:
    def __init__(self) -> None:
        self._schema = _OneSchema()
        self._begun = False

    def write(self, batch: Batch) -> bytes:
        batch = self._schema.fit(batch)
        sink = _arrow.BufferOutputStream()
        _csv.write_csv(_arrow.Table.from_batches([batch]), sink, _csv.WriteOptions(include_header=not self._begun))
        self._begun = True
        return sink.getvalue().to_pybytes()

    def finish(self) -> bytes:
        return b""


def rendered(writer: Writer, batches: Iterator[Batch]) -> Iterator[bytes]:
    """The bytes of each batch, as they are asked for."""
    for batch in batches:
        data = writer.write(batch)
        if data:
            yield data

"""The border to pyarrow, which has no type information: everything else here gets typed values from this module.

It knows how to lay out an artifact well and how to read one with bounded memory; it does not know what an artifact is.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.compute as _compute  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.crew.artifacts.footers import ColumnChunk, column_chunks, insist_pages

_pa: Any = _pyarrow
_pc: Any = _compute
_pq: Any = _parquet

Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""
RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
Table: TypeAlias = Any
"""A `pyarrow.Table`."""

_TYPES: Any = _pa.types
_INT64: Any = _pa.int64()
_MS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
"""What to multiply and to divide a timestamp of a unit with, to have milliseconds."""

# Types that Parquet itself gives back as they were; any other needs the Arrow schema beside it, some 400 bytes.
_SELF_EXPLAINING: Final = frozenset(
    kind.id
    for kind in (_pa.bool_(), _pa.int32(), _pa.int64(), _pa.float32(), _pa.float64(), _pa.string(), _pa.binary())
)
_READ_BATCH_ROWS: Final = 65_536
_READ_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Wide rows make smaller batches: reading holds two or three of them."""
_UNFOLDING_ROWS: Final = 64
"""Rows read at once where a few bytes may stand for much text, however much."""
_FOOTER_BYTES: Final = 64 * 1024 * 1024
"""A footer takes a hundred bytes for each column of a row group."""
_PAGE_BYTES: Final = 256 * 1024 * 1024
"""What a page may take unpacked. A page has a megabyte, or one value that has more."""
_SMALL_BYTES: Final = 8 * 1024
"""Not looked at closely: as many bytes unpack to a page of the size that is allowed, at the most."""
_READ_BUFFER_BYTES: Final = 1024 * 1024
_DICTIONARY_BYTES: Final = 1024 * 1024
"""No dictionary grows larger; what comes then is written plainly."""
_SAMPLE_ROWS: Final = 1000
"""So many texts show whether they repeat."""
_THREADS_FROM_BYTES: Final = 1024 * 1024
"""A file below this size is decoded sooner by one thread than it is spread over several."""


class Sink(Protocol):
    """What a Parquet file is written to."""

    @property
    def closed(self) -> bool: ...
    def write(self, data: bytes) -> int: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Footer:
    """What the end of a Parquet file says of the whole."""

    row_count: int
    metadata: Mapping[bytes, bytes]
    parsed: Any
    """All of it, so that who reads the file later need not read this again."""


class Memory:
    """A sink of pyarrow's own: to write there, a thread need not wait for its turn with Python."""

    def __init__(self) -> None:
        self.stream: Any = _pa.BufferOutputStream()

    def taken(self) -> bytes:
        """All that was written; once."""
        return self.stream.getvalue().to_pybytes()


class ParquetFile:
    """A Parquet file being written, row group by row group."""

    def __init__(self, sink: Sink | Memory, schema: Schema, first: Table | None, *, tiny: bool) -> None:
        """`first` has the first rows, by which the layout is chosen. A tiny file is written the cheapest way: to
        compress a few rows takes longer than to send them."""
        options = {"compression": "none", "use_dictionary": False} if tiny else _layout(schema, first)
        self._writer: Any = _pq.ParquetWriter(
            sink.stream if isinstance(sink, Memory) else sink,
            schema,
            write_statistics=False,
            store_schema=not _is_self_explaining(schema),
            **options,
        )

    def write(self, table: Table, rows_per_group: int) -> None:
        self._writer.write_table(table, row_group_size=rows_per_group)

    def finish(self, metadata: Mapping[str, str]) -> None:
        self._writer.add_key_value_metadata(dict(metadata))
        self._writer.close()


def _layout(schema: Schema, first: Table | None) -> dict[str, Any]:
    """Text that repeats goes by dictionary, whole numbers by differences, fractions by bytes of equal weight: measured
    on search results, that is written twice as fast as pyarrow's defaults, and is a third smaller. Fractions are packed
    by LZ4: on rates, that is written and read in half the time that Zstandard takes, and is an eighth larger."""
    layout: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
    leaves = list(_leaves(schema))
    if len({path for path, _ in leaves}) < len(leaves):
        return layout  # columns are told by name
    text: list[str] = []
    encodings: dict[str, str] = {}
    for path, kind in leaves:
        if _TYPES.is_integer(kind) or _TYPES.is_timestamp(kind):
            encodings[path] = "DELTA_BINARY_PACKED"
        elif _TYPES.is_float32(kind) or _TYPES.is_float64(kind):
            encodings[path] = "BYTE_STREAM_SPLIT"
        elif not _TYPES.is_nested(kind) and (path not in schema.names or _repeats(first, path)):
            text.append(path)
    if encodings and "BYTE_STREAM_SPLIT" in encodings.values():
        fractions = {path for path, encoding in encodings.items() if encoding == "BYTE_STREAM_SPLIT"}
        paths = [path for path, _ in leaves]
        layout["compression"] = {path: "lz4" if path in fractions else "zstd" for path in paths}
        layout["compression_level"] = {path: 1 for path in paths if path not in fractions}
    return layout | {"use_dictionary": text or False, "column_encoding": encodings or None}


def _repeats(first: Table | None, name: str) -> bool:
    """Whether there are at least two of a kind, as far as can be seen. A dictionary of texts that do not repeat costs
    twice: when it is made, and when it is read, as rows then come in smaller batches."""
    if first is None or not _TYPES.is_string(first.schema.field(name).type):
        return True
    some = first.column(name).slice(0, _SAMPLE_ROWS).drop_null()
    return 2 * _pc.count_distinct(some).as_py() <= len(some) > 0


def _leaves(fields: Iterable[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The columns that Parquet has for these fields, by their paths, and the types of what is in them."""
    for field in fields:
        path = f"{prefix}{field.name}"
        if _TYPES.is_struct(field.type):
            yield from _leaves(field.type.fields, f"{path}.")
        elif _TYPES.is_list(field.type):
            yield from _leaves([field.type.value_field.with_name("element")], f"{path}.list.")
        else:
            yield path, field.type


def _is_self_explaining(schema: Schema) -> bool:
    return schema.metadata is None and all(map(_explains_itself, schema))


def _explains_itself(field: Any) -> bool:
    if field.metadata is not None:
        return False
    if _TYPES.is_struct(field.type):
        return all(map(_explains_itself, field.type.fields))
    if _TYPES.is_list(field.type):
        inner = field.type.value_field
        return inner.name == "element" and _explains_itself(inner)
    return field.type.id in _SELF_EXPLAINING


def table_of(batches: list[RecordBatch], schema: Schema) -> Table:
    return _pa.Table.from_batches(batches, schema)


class TimeRange:
    """The first and the last time in a column, in milliseconds; 0 and 0 when there is no column, or no time in it."""

    def __init__(self, schema: Schema, column: str | None) -> None:
        """Raises `ValueError` for a column that is not there, or holds no times."""
        self._index: int | None = None
        self._min: int | None = None
        self._max: int | None = None
        self._is_int = True
        self._scale = (1, 1)
        if column is None:
            return
        index: int = schema.get_field_index(column)
        if index < 0:
            raise ValueError(f"there is no column {column!r}, or more than one: the columns are {schema.names}")
        kind = schema.field(index).type
        self._is_int = bool(kind == _INT64)
        if not self._is_int:
            if not _TYPES.is_timestamp(kind):
                raise ValueError(f"column {column!r} is {kind}: a time is int64 in milliseconds, or a timestamp")
            self._scale = _MS[kind.unit]
        self._index = index

    def add(self, table: Table) -> None:
        if self._index is None:
            return
        column = table.column(self._index)
        found = _pc.min_max(column if self._is_int else column.cast(_INT64))
        low: int | None = found["min"].as_py()
        if low is None:  # nulls only
            return
        high: int = found["max"].as_py()
        self._min = low if self._min is None else min(self._min, low)
        self._max = high if self._max is None else max(self._max, high)

    @property
    def min_ts(self) -> int:
        return self._in_ms(self._min)

    @property
    def max_ts(self) -> int:
        return self._in_ms(self._max)

    def _in_ms(self, value: int | None) -> int:
        times, by = self._scale
        return 0 if value is None else value * times // by


def read_footer(source: bytes | Path) -> Footer:
    """Raises `ValueError` when it is no Parquet file."""
    with _told(), _opened(source) as handle:
        found = _pq.ParquetFile(handle).metadata
        return Footer(found.num_rows, found.metadata or {}, found)


def read_batches(source: bytes | Path, footer: Footer, size_bytes: int) -> Iterator[RecordBatch]:
    """One batch after the other, with memory for a few of them, whatever the size of the file. Raises `ValueError` for
    what cannot be read, and for what is not as it should be: every offset, text and length was looked at in what is
    given out, because who uses it does not look, and a bad one would end the process."""
    with _told(), _opened(source) as handle:
        chunks = _looked_at(source, size_bytes)
        # Bytes in memory need no buffer, and none is made: a page may say that it has two gigabytes.
        buffer_bytes = 0 if isinstance(source, bytes) else _READ_BUFFER_BYTES
        # Not pre-buffered: pyarrow would then hold all that it will ever read.
        file = _pq.ParquetFile(handle, metadata=footer.parsed, buffer_size=buffer_bytes, pre_buffer=False)
        threads = size_bytes >= _THREADS_FROM_BYTES
        most, rows = _batch_rows(footer), _unfolding_rows(footer, chunks)
        batches = _valid(file.iter_batches(batch_size=min(most, rows), use_threads=threads))
        yield from batches if most <= rows else _gathered(batches)


def _valid(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    for batch in batches:
        batch.validate(full=True)
        yield batch


@contextmanager
def _told() -> Generator[None]:
    """What pyarrow says of a file is a `ValueError`."""
    try:
        yield
    except _pa.ArrowException as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        if error.errno is not None:
            raise  # the system's word, not pyarrow's about what it read
        raise ValueError(str(error)) from error


def _unfolding_rows(footer: Footer, chunks: list[ColumnChunk] | None) -> int:
    """As many rows as texts may be in, at their largest: a dictionary holds a text once, however many rows have it, so
    rows may be much larger than the file says. No text is larger than all of its column, or than all of its group."""
    if chunks is None:
        schema = footer.parsed.schema
        texts = [column for column in map(schema.column, range(len(schema))) if column.physical_type == "BYTE_ARRAY"]
        if any(column.max_repetition_level for column in texts):  # in a list, one row may have any number of them
            return _UNFOLDING_ROWS
        groups = (footer.parsed.row_group(at) for at in range(footer.parsed.num_row_groups))
        return _rows_of_text(max((group.total_byte_size for group in groups), default=0) if texts else 0)
    folded = [chunk for chunk in chunks if chunk.is_text and chunk.dictionary_offset is not None]
    if any(chunk.values > chunk.rows for chunk in folded):
        return _UNFOLDING_ROWS
    return _rows_of_text(max((chunk.uncompressed_bytes for chunk in folded), default=0))


def _rows_of_text(largest_bytes: int) -> int:
    return _UNFOLDING_ROWS * _DICTIONARY_BYTES // max(1, min(largest_bytes, _DICTIONARY_BYTES))


def _looked_at(source: bytes | Path, size_bytes: int) -> list[ColumnChunk] | None:
    """What a file says of its columns, after a look at their pages; None of one that is small: to look takes longer
    than to read it."""
    if isinstance(source, bytes):
        if size_bytes <= _SMALL_BYTES:
            return None
        return _checked_chunks(lambda at, length: source[at : at + length], len(source))
    with source.open("rb") as file:
        return _checked_chunks(lambda at, length: os.pread(file.fileno(), length, at), source.stat().st_size)


def _checked_chunks(read: Callable[[int, int], bytes], size_bytes: int) -> list[ColumnChunk]:
    length = int.from_bytes(read(size_bytes - 8, 4), "little")
    if length > min(_FOOTER_BYTES, size_bytes - 12):
        raise ValueError(f"its footer has {length:,} bytes")
    chunks = column_chunks(read(size_bytes - 8 - length, length))
    insist_pages(chunks, read, size_bytes - 8 - length, _PAGE_BYTES)
    return chunks


def _gathered(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Small batches put together until they are worth handing on."""
    held: list[RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= _READ_BATCH_ROWS or size_bytes >= _READ_BATCH_BYTES:
            yield _pa.concat_batches(held)
            held, rows, size_bytes = [], 0, 0
    if held:
        yield _pa.concat_batches(held)


def _batch_rows(footer: Footer) -> int:
    groups = (footer.parsed.row_group(at) for at in range(footer.parsed.num_row_groups))
    size_bytes = sum(group.total_byte_size for group in groups)
    fitting = footer.row_count * _READ_BATCH_BYTES // max(1, size_bytes)
    return max(1, min(_READ_BATCH_ROWS, fitting, footer.row_count))


def _opened(source: bytes | Path) -> Any:
    return _pa.BufferReader(source) if isinstance(source, bytes) else _pa.OSFile(str(source))

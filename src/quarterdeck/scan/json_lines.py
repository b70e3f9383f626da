"""Rows as lines of JSON, one object per line, with the columns in their order. DuckDB renders them: there is no loop
over rows here.

JSON has no NaN and no infinity. As numbers they would break every reader, and null means something else. So they are
the strings "NaN", "Infinity" and "-Infinity", wherever in a value they are. The columns that have them are rebuilt with
texts in their place. SQL could do that too, but it would grow with the depth of the values, and DuckDB takes twice as
long for each list within a list.

Times are text, those with a zone in UTC. Bytes are text, and what is not plain ASCII is written as \\xNN.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute
_types: Final[Any] = pyarrow.types

Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
ArrowType: TypeAlias = Any
"""A `pyarrow.DataType`."""

_TEXTS: Final = """SELECT CASE WHEN isnan(n) THEN '"NaN"' WHEN isinf(n) AND n > 0 THEN '"Infinity"'
    WHEN isinf(n) THEN '"-Infinity"' ELSE to_json(n)::VARCHAR END FROM batch"""
_CONFIG: Final = {"threads": "1", "enable_external_access": "false"}


class JsonLines:
    """Blocking, and for one thread at a time. Close it, however it ended."""

    def __init__(self) -> None:
        self._database: Any = None

    def render(self, batch: Batch) -> bytes:
        """A line for each row, with its end."""
        if not batch.num_rows:
            return b""
        # Names of ours: DuckDB takes `a` and `A` for one name, and a column may be called like the table.
        columns = [f"c{number}" for number in range(batch.num_columns)]
        try:
            rows = _arrow.Table.from_arrays(self._tellable(_of_its_own(batch).columns), names=columns)
            lines = self._asked(_select(batch, columns), rows)
        except _duckdb().Error as error:
            raise QuarterdeckError(
                ErrorCode.WORK_FAILED,
                "the rows cannot be told in JSON",
                str(error).splitlines()[0],
                "cast the column in the SQL, or ask for Arrow's stream",
            ) from error
        texts: Any = lines.column(0).combine_chunks()
        joined: Any = _compute.binary_join(_arrow.ListArray.from_arrays([0, len(texts)], texts), "\n")
        return b"%b\n" % joined[0].as_buffer()

    def close(self) -> None:
        """Again is fine."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _tellable(self, columns: Sequence[Any]) -> list[Any]:
        """The columns, with the numbers of those that have a NaN or an infinity as the texts that they are in JSON."""
        found = [tuple(_floats(values)) for values in columns]
        wild = [not all(map(_is_finite, floats)) for floats in found]
        floats = [values for of_column, is_wild in zip(found, wild, strict=True) if is_wild for values in of_column]
        if not floats:
            return list(columns)
        numbers = _arrow.chunked_array([values.cast(_arrow.float64()) for values in floats])
        # All at once: a question to the database takes as long as thousands of numbers.
        answer = self._asked(_TEXTS, _arrow.table([numbers], names=["n"])).column(0).combine_chunks()
        texts = _arrow.ExtensionArray.from_storage(_arrow.json_(), answer)
        ends = accumulate(map(len, floats))
        parts = iter([texts.slice(end - len(values), len(values)) for end, values in zip(ends, floats, strict=True)])
        both = zip(columns, wild, strict=True)
        return [_with_texts(values, parts) if is_wild else values for values, is_wild in both]

    def _asked(self, sql: str, rows: Any) -> Any:
        """What the SQL gives of the table `batch`."""
        database = self._connected()
        database.register("batch", rows)
        try:
            return database.sql(sql).to_arrow_table()
        finally:
            database.unregister("batch")

    def _connected(self) -> Any:
        """Made with the first rows, in the thread that renders them: it takes some milliseconds."""
        if self._database is None:
            self._database = _duckdb().connect(":memory:", config=_CONFIG)
        return self._database


def _duckdb() -> Any:
    """Loaded with the first rows: a coordinator that renders none needs none of its memory."""
    import duckdb  # noqa: PLC0415 - see above

    return duckdb


def _of_its_own(batch: Batch) -> Batch:
    """The same rows in memory of their own, if they are a part of others: DuckDB does not read such a part of structs
    within structs."""
    if not any(column.offset for column in batch.columns):
        return batch
    sink = _arrow.BufferOutputStream()
    with _arrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with _arrow.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_next_batch()


def _select(batch: Batch, columns: list[str]) -> str:
    """One text for each column, whatever is in it: the text must not grow with the depth of values."""
    pairs = [f"{_quoted(field.name)}, {column}" for field, column in zip(batch.schema, columns, strict=True)]
    return f"SELECT json_object({', '.join(pairs)})::VARCHAR FROM batch"


def _floats(values: Any) -> Iterator[Any]:
    """The numbers in a column that JSON may not have, those of each field by themselves, in the order of the type."""
    kind = values.type
    if _types.is_floating(kind):
        yield values
    elif _types.is_struct(kind):
        for part in values.flatten():
            yield from _floats(part)
    elif _types.is_map(kind):
        yield from _floats(_entries(values).flatten().flatten()[1])
    elif _is_list(kind):
        yield from _floats(values.flatten())


def _is_finite(values: Any) -> bool:
    return _compute.all(_compute.is_finite(values)).as_py() is not False


def _with_texts(values: Any, texts: Iterator[Any]) -> Any:
    """The column with the next of these in place of each that `_floats` has found."""
    kind = values.type
    if _types.is_floating(kind):
        return next(texts)
    if _types.is_struct(kind):
        parts = [_with_texts(part, texts) for part in values.flatten()]
        return _arrow.StructArray.from_arrays(parts, [field.name for field in kind], mask=values.is_null())
    if _types.is_map(kind):
        entries = _entries(values)
        keys, items = entries.flatten().flatten()
        offsets = _offsets(entries).cast(_arrow.int32())
        return _arrow.MapArray.from_arrays(offsets, keys, _with_texts(items, texts), mask=values.is_null())
    if _is_list(kind):
        inner = _with_texts(values.flatten(), texts)
        return _arrow.LargeListArray.from_arrays(_offsets(values), inner, mask=values.is_null())
    return values


def _entries(values: Any) -> Any:
    """A map as lists of its keys and items."""
    return values.cast(_arrow.list_(values.type.field(0)))


def _offsets(values: Any) -> Any:
    """Where each list begins among the values of all of them, and the end."""
    lengths = _compute.fill_null(_compute.list_value_length(values), 0).cast(_arrow.int64())
    return _arrow.concat_arrays([_arrow.array([0], _arrow.int64()), _compute.cumulative_sum(lengths)])


def _is_list(kind: ArrowType) -> bool:
    return _types.is_list(kind) or _types.is_large_list(kind) or _types.is_fixed_size_list(kind)


def _quoted(text: str) -> str:
    return f"'{text.replace(chr(39), chr(39) * 2)}'"

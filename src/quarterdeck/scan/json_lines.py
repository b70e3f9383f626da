"""Rows as lines of JSON, one object a line, with the columns in their order. DuckDB renders them: there is no loop over
rows here.

JSON has no NaN and no infinity. As numbers they would break every reader, and null is something else: so they are the
strings "NaN", "Infinity" and "-Infinity", wherever in a value they stand. Times are text, those with a zone in UTC;
bytes are text, with what is not plain ASCII as \\xNN.
"""

from typing import Any, Final, TypeAlias

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute
_engine: Final[Any] = duckdb
_types: Final[Any] = pyarrow.types

Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
ArrowType: TypeAlias = Any
"""A `pyarrow.DataType`."""

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
        rows = _arrow.Table.from_arrays(batch.columns, names=columns)
        database = self._connected()
        try:
            database.register("batch", rows)
            lines = database.sql(_select(batch, columns)).to_arrow_table()
        except _engine.Error as error:
            raise QuarterdeckError(
                ErrorCode.WORK_FAILED,
                "the rows cannot be told in JSON",
                str(error).splitlines()[0],
                "cast the column in the SQL, or ask for Arrow's stream",
            ) from error
        finally:
            database.unregister("batch")
        texts: Any = lines.column(0).combine_chunks()
        joined: Any = _compute.binary_join(_arrow.ListArray.from_arrays([0, len(texts)], texts), "\n")
        return b"%b\n" % joined[0].as_buffer()

    def close(self) -> None:
        """Again is fine."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _connected(self) -> Any:
        """Made with the first rows, in the thread that renders them: it takes some milliseconds."""
        if self._database is None:
            self._database = _engine.connect(":memory:", config=_CONFIG)
        return self._database


def _select(batch: Batch, columns: list[str]) -> str:
    pairs = [
        f"{_quoted(field.name)}, {_finite(field.type, column) if _has_non_finite(values) else column}"
        for field, column, values in zip(batch.schema, columns, batch.columns, strict=True)
    ]
    return f"SELECT json_object({', '.join(pairs)})::VARCHAR FROM batch"


def _has_non_finite(values: Any) -> bool:
    """Whether there is a NaN or an infinity anywhere in a column."""
    kind = values.type
    if _types.is_floating(kind):
        return _compute.all(_compute.is_finite(values)).as_py() is False
    if _types.is_struct(kind):
        return any(_has_non_finite(part) for part in values.flatten())
    if _types.is_map(kind):
        return _has_non_finite(values.items)
    if _is_list(kind):
        return _has_non_finite(values.flatten())
    return False


def _finite(kind: ArrowType, value: str) -> str:
    """The SQL of a value in which every number is one that JSON has."""
    if _types.is_floating(kind):
        return (
            f"CASE WHEN isnan({value}) THEN '\"NaN\"'::JSON WHEN isinf({value}) THEN "
            f"CASE WHEN {value} > 0 THEN '\"Infinity\"' ELSE '\"-Infinity\"' END::JSON ELSE to_json({value}) END"
        )
    if _types.is_struct(kind):
        fields = [
            f"{_quoted(field.name)}, {_finite(field.type, f'struct_extract({value}, {_quoted(field.name)})')}"
            for field in kind
        ]
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE json_object({', '.join(fields)}) END"
    if _types.is_map(kind):
        return f"map(map_keys({value}), list_transform(map_values({value}), lambda x: {_finite(kind.item_type, 'x')}))"
    if _is_list(kind):
        return f"list_transform({value}, lambda x: {_finite(kind.value_type, 'x')})"
    return value


def _is_list(kind: ArrowType) -> bool:
    return _types.is_list(kind) or _types.is_large_list(kind) or _types.is_fixed_size_list(kind)


def _quoted(text: str) -> str:
    return f"'{text.replace(chr(39), chr(39) * 2)}'"

"""Makes one answer from the rows of parts: Parquet files that workers have written, read here one after the other.

The answer has the names and the types that DuckDB gives the columns of the whole query; DuckDB told them to the
workers. An answer with others is an error. What does not fit into memory goes to a folder for temporary files.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.duckdb_database import open_database
from quarterdeck.engines.duckdb_errors import ENGINE_ERRORS, translated
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.part_words import PartWords, insist_alike
from quarterdeck.engines.result_shape import check_shape
from quarterdeck.engines.sql_aggregates import Merge, averaged_as
from quarterdeck.engines.sql_plan import MergeOrder
from quarterdeck.engines.sql_way import MERGED, PARTS, Aggregate
from quarterdeck.engines.stop_signal import StopSignal

_arrow: Final[Any] = pyarrow
_pq: Final[Any] = parquet
_RAW: Final = "__raw"
_BATCH_ROWS: Final = 65_536
_UNTYPED: Final = ("AGGREGATE_STATE", '"NULL"')
"""Columns that have these in their type are left as they came."""


class MergedRows:
    """The answer, while it is computed. Read it once, in the thread that merges."""

    fraction = 0.0

    def __init__(self, names: Sequence[str], reader: Any, guard: "_Guard") -> None:
        self._names = list(names)
        self._reader = reader
        self._guard = guard
        fields = [field.with_name(name) for field, name in zip(reader.schema, names, strict=True)]
        self.schema: Final[Any] = _arrow.schema(fields)

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._guard:
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    return
            yield batch.rename_columns(self._names)


@contextmanager
def merged(
    order: MergeOrder, paths: Sequence[Path], folder: Path, limits: EngineLimits, stop: StopSignal
) -> Generator[MergedRows]:
    """Gives the rows to the block. `folder` is empty, and for temporary files of this merge."""
    guard = _Guard(stop)
    with ExitStack() as stack:
        with guard:
            parts = _Parts(paths, stop)
            stack.callback(parts.close)
            database = open_database(
                threads=limits.threads,
                memory_limit_bytes=limits.memory_limit_bytes,
                temp_directory=str(folder) if limits.spill_bytes else "",
                spill_bytes=limits.spill_bytes,
            )
            stack.callback(database.close)
            stack.enter_context(stop.on_cancel(database.interrupt))
            database.execute("SET enable_external_access = false")
            database.execute("SET lock_configuration = true")
            database.register(_RAW, parts.reader())
            relation = database.sql(merge_sql(order, parts.schema.names, parts.words))
            _insist_types(relation, parts.words)
            reader: Any = relation.to_arrow_reader(_BATCH_ROWS)
            stack.callback(reader.close)
            check_shape(reader.schema)
        yield MergedRows([name for name, _ in parts.words.answer], reader, guard)


def merge_sql(order: MergeOrder, names: Sequence[str], words: PartWords) -> str:
    """The whole of the query over the rows as they came, the table `__raw`."""
    columns = ", ".join(_as_it_was(name, kind) for name, kind in zip(names, words.types, strict=True))
    tables = [f"{PARTS} AS (SELECT {columns} FROM {_RAW})"]
    if order.is_grouped:
        keys = [_quoted(key) for key in order.keys]
        items = [*keys, *(f"{_merge(each, words)} AS {_quoted(each.result)}" for each in order.aggregates)]
        groups = f" GROUP BY {', '.join(keys)}" if keys else ""
        tables.append(f"{MERGED} AS (SELECT {', '.join(items)} FROM {PARTS}{groups})")
    return f"WITH {', '.join(tables)} {order.outer_sql}"


def _as_it_was(name: str, kind: str) -> str:
    """A column of a part in the type that it had there."""
    column = _quoted(name)
    return column if any(each in kind for each in _UNTYPED) else f"CAST({column} AS {kind}) AS {column}"


def _merge(aggregate: Aggregate, words: PartWords) -> str:
    column, function = _quoted(aggregate.column), aggregate.function
    match aggregate.merge:
        case Merge.ITSELF:
            return f"{function}({column})"
        case Merge.SUM:
            return f"sum({column})"
        case Merge.COUNT:
            return f"coalesce(sum({column}), 0)::{_COUNTS.get(function, 'BIGINT')}"
        case Merge.STATE:
            return _finished(column, function, ["DOUBLE"] * aggregate.arguments)
        case Merge.AVERAGE:
            assert aggregate.probe is not None
            return _finished(column, function, [averaged_as(words.probes[aggregate.probe])])
        case Merge.DISTINCT:
            where = f" FILTER (WHERE {_quoted(aggregate.filter_column)})" if aggregate.filter_column else ""
            return f"{function}(DISTINCT {column}){where}"


_COUNTS: Final = {"regr_count": "UINTEGER"}
"""Types of counts that are not BIGINT."""


def _finished(column: str, function: str, signature: Sequence[str]) -> str:
    types = ", ".join(f"'{kind}'" for kind in signature)
    return f"finalize(combine_aggr(to_aggregate_state({column}, '{function}', [{types}])))"


def _insist_types(relation: duckdb.DuckDBPyRelation, words: PartWords) -> None:
    types = [str(kind) for kind in relation.types]
    wanted = [kind for _, kind in words.answer]
    if types != wanted:
        raise QuarterdeckError(
            ErrorCode.INTERNAL,
            "the parts were not merged",
            f"their merge has the types {', '.join(types)}, and DuckDB alone gives {', '.join(wanted)}",
            'report it, with the SQL; until then merge the parts with `--merge SQL` (over HTTP: "merge": "none")',
        )


class _Parts:
    """The files, as one table."""

    def __init__(self, paths: Sequence[Path], stop: StopSignal) -> None:
        self._paths = paths
        self._stop = stop
        self._open: Any = None
        schemas = [_pq.read_schema(path) for path in paths]
        self.schema: Final[Any] = schemas[0]
        self.words: Final = PartWords.of(self.schema)
        for schema in schemas[1:]:
            stop.check()
            insist_alike(self.words, PartWords.of(schema))

    def reader(self) -> Any:
        return _arrow.RecordBatchReader.from_batches(self.schema.remove_metadata(), self._batches())

    def close(self) -> None:
        if self._open is not None:
            self._open.close()

    def _batches(self) -> Iterator[Any]:
        schema = self.schema.remove_metadata()
        for path in self._paths:
            self._stop.check()
            self._open = _pq.ParquetFile(path)
            with self._open as part:
                for batch in part.iter_batches(batch_size=_BATCH_ROWS):
                    self._stop.check()
                    yield batch if batch.schema.equals(schema) else batch.cast(schema)


class _Guard:
    """Around calls of the engine. Whatever is raised after a stop signal, the signal was the reason."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop

    def __enter__(self) -> None:
        self._stop.check()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._stop.check()
        if isinstance(error, ENGINE_ERRORS):
            raise translated(error, ()) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

"""SQL over local Parquet files: they are the view `files`, with columns united by name, and nothing else can be read.

Rows are streamed: DuckDB computes a few megabytes ahead of the reader, and waits. A query stops within milliseconds of
a stop signal, unless a single function is busy with a single huge value: DuckDB checks only between some thousand rows.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import duckdb

from quarterdeck.engines.duckdb_errors import ENGINE_ERRORS, translated
from quarterdeck.engines.duckdb_part import bound, checked_part
from quarterdeck.engines.duckdb_sandbox import FileSet, Sandboxes
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.result_shape import check_shape
from quarterdeck.engines.scan_file import PathColumn, ScanFile
from quarterdeck.engines.sql_plan import PartChecks
from quarterdeck.engines.stop_signal import StopSignal

Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""
RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""

_FILENAME: Final = "filename"
_BATCH_ROWS: Final = 65_536
"""What a reader has in hand at once. Fewer make an artifact's row groups out of many pieces; more take memory."""


class Rows:
    """The result of a query, while it is computed. Read it once, in the thread that runs the query."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, reader: Any, schema: Schema, guard: "_Guard") -> None:
        self.schema: Final[Schema] = schema
        self._connection = connection
        self._reader = reader
        self._guard = guard
        self._fraction = 0.0

    def __iter__(self) -> Iterator[RecordBatch]:
        while True:
            with self._guard:
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    @property
    def fraction(self) -> float:
        """How much of the files was read, as far as DuckDB can tell: from 0 to 1, and never back."""
        self._fraction = max(self._fraction, min(1.0, self._connection.query_progress() / 100))
        return self._fraction


class DuckDbScanner:
    """One for a process. Any number of threads may scan at once."""

    def __init__(self, limits: EngineLimits) -> None:
        """For each scan."""
        self._sandboxes = Sandboxes(limits)

    def warm_up(self) -> None:
        """What the first scan would have to wait for otherwise."""
        self._sandboxes.warm_up()

    @contextmanager
    def scan(
        self,
        sql: str,
        files: Sequence[ScanFile],
        stop: StopSignal,
        *,
        with_filename: bool = False,
        path_columns: Sequence[PathColumn] = (),
        part: PartChecks | None = None,
    ) -> Generator[Rows]:
        """Runs it, and gives the rows to the block. What is wrong with the SQL or the files is a `QuarterdeckError`;
        what `stop.check` raises ends it when it is stopped. `files` has a column `filename` when the SQL names it; a
        `*` means it only `with_filename`."""
        stop.check()
        mentions = _FILENAME in (sql + ("" if part is None else part.whole_sql)).lower()
        file_set = FileSet.of(
            tuple(files),
            with_filename=with_filename or mentions,
            path_columns=tuple(path_columns),
            is_lossless=part is not None and part.keeps_types,
        )
        guard = _Guard(stop, file_set.files)
        with self._sandboxes.lent(file_set) as sandbox, stop.on_cancel(sandbox.connection.interrupt):
            connection = sandbox.connection
            with guard:
                sandbox.show_files()
                hides_filename = sandbox.adds_filename and not with_filename
                words = None
                if part is None:
                    relation = bound(connection, sql, hides_filename=hides_filename)
                else:
                    relation, words = checked_part(connection, part, sql, hides_filename=hides_filename)
                reader: Any = relation.to_arrow_reader(_BATCH_ROWS)
            try:
                check_shape(reader.schema)
                schema = reader.schema if words is None else words.added_to(reader.schema)
                yield Rows(connection, reader, schema, guard)
            finally:
                reader.close()

    def close(self) -> None:
        """Nothing is scanned any more."""
        self._sandboxes.close()


class _Guard:
    """Around calls of the engine. Whatever is raised after a stop signal, the signal was the reason."""

    def __init__(self, stop: StopSignal, files: Sequence[ScanFile]) -> None:
        self._stop = stop
        self._files = files

    def __enter__(self) -> None:
        self._stop.check()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._stop.check()
        if isinstance(error, ENGINE_ERRORS):
            raise translated(error, self._files) from error

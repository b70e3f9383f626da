"""DuckDB databases in memory, each of which can read certain files and nothing else.

DuckDB provides the fence: a list of files, no other access to the outside, and a locked configuration. The list cannot
change once it is in force, so a database belongs to its files. A new one costs 15 ms of processor time, mostly for
adding some thousand functions to a catalog; a query that waits for that would notice. So one is always made ahead, and
some used ones are kept for the next query over the same files. Only one query uses a database at a time. If a query
ends in an unexpected way, its database is thrown away.
"""

import glob
import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.duckdb_database import open_database
from quarterdeck.engines.duckdb_errors import ENGINE_ERRORS, translated
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.scan_file import PathColumn, ScanFile
from quarterdeck.engines.sql_tree import folded

_VIEW: Final = "files"
_FILENAME: Final = "filename"
_PLACE: Final = "file_index"
"""DuckDB has it for every row: the number of its file, from 0."""
_PATH: Final = "__path"
_HARMLESS: Final = frozenset({ErrorCode.INVALID_ARGUMENT, ErrorCode.WORK_FAILED, ErrorCode.CANCELED})
"""How a query may end that leaves its database as it was: wrong SQL or data, and a cancel."""


@dataclass(frozen=True, slots=True)
class FileSet:
    """What a database can read, and how it shows it."""

    files: tuple[ScanFile, ...]
    with_filename: bool
    path_columns: tuple[PathColumn, ...]
    is_lossless: bool
    """Whether types that Arrow does not know are told by their names, instead of as the next best."""
    versions: tuple[tuple[int, int], ...]
    """Time of change and size of each: a file that was written anew is another file, and looked at anew."""

    @classmethod
    def of(
        cls,
        files: tuple[ScanFile, ...],
        *,
        with_filename: bool,
        path_columns: tuple[PathColumn, ...] = (),
        is_lossless: bool = False,
    ) -> "FileSet":
        try:
            stats = [file.path.stat() for file in files]
        except OSError as error:
            raise translated(OSError(f"IO Error: {error.strerror}: {error.filename}"), files) from error
        versions = tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)
        return cls(files, with_filename, path_columns, is_lossless, versions)


class Sandbox:
    """One database. It shows its files as a view."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, file_set: FileSet) -> None:
        self.connection: Final = connection
        """Its only one."""
        self._file_set = file_set
        self._is_shown = not file_set.files
        self.adds_filename = False
        """Whether `files` has a column `filename` that no file has."""
        paths = [str(file.path) for file in file_set.files]
        # A path is a pattern to DuckDB; that of a file with a star in its name has to be escaped to mean the file, and
        # must be allowed in that form too.
        self._patterns = [glob.escape(path) for path in paths]
        if file_set.is_lossless:
            connection.execute("SET arrow_lossless_conversion = true")
        if file_set.path_columns or file_set.with_filename:
            # DuckDB 2.0.0 breaks when it fetches the columns of the first rows later, and a condition is on file_index
            connection.execute("SET disabled_optimizers = 'late_materialization'")
        connection.execute("SET allowed_paths = ?", [[*paths, *self._patterns]])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")

    def show_files(self) -> None:
        """Creates the view, unless an earlier query did."""
        if self._is_shown:
            return
        try:
            self._create_view()
        except ENGINE_ERRORS as error:
            raise translated(error, self._file_set.files, self._find_culprit(str(error))) from error
        self._is_shown = True

    def close(self) -> None:
        self.connection.close()

    def _create_view(self) -> None:
        """With the columns that come from where a file is. A column of such a name in the files is replaced where it
        stands, as DuckDB does; but their own `filename` stays."""
        wanted = self._file_set
        rows = self.connection.read_parquet(self._patterns, union_by_name=True, hive_partitioning=False)
        own = {folded(name) for name in rows.columns}
        self.adds_filename = wanted.with_filename and _FILENAME not in own
        if not wanted.path_columns and not self.adds_filename:
            rows.create_view(_VIEW)
            return
        place: Any = duckdb.FunctionExpression("+", duckdb.ColumnExpression(_PLACE), duckdb.ConstantExpression(1))
        if _PLACE in own:
            rows, place = self._rows_by_path()
        values = {
            column.name: _value_of_file([file.values[at] for file in wanted.files], column.kind, place)
            for at, column in enumerate(wanted.path_columns)
        }
        if self.adds_filename:  # DuckDB tells the path, which for a cached file means nothing to anybody
            values[_FILENAME] = _value_of_file([file.name for file in wanted.files], "VARCHAR", place)
        by_name = {folded(name): name for name in values}
        items = [
            values.pop(by_name[folded(name)]).alias(name) if folded(name) in by_name else duckdb.ColumnExpression(name)
            for name in rows.columns
            if name != _PATH
        ]
        rows.select(*items, *(value.alias(name) for name, value in values.items())).create_view(_VIEW)

    def _rows_by_path(self) -> tuple[duckdb.DuckDBPyRelation, Any]:
        """The rows, and the place of a row's file, where its number is hidden by a column of the files."""
        patterns = ", ".join("'" + pattern.replace("'", "''") + "'" for pattern in self._patterns)
        options = f"union_by_name = true, hive_partitioning = false, filename = '{_PATH}'"
        paths = duckdb.ConstantExpression([str(file.path) for file in self._file_set.files])
        rows = self.connection.sql(f"SELECT * FROM read_parquet([{patterns}], {options})")
        return rows, duckdb.FunctionExpression("list_position", paths, duckdb.ColumnExpression(_PATH))

    def _find_culprit(self, text: str) -> ScanFile | None:
        """The file that is to blame, if the message does not say: each is tried alone."""
        if any(str(file.path) in text for file in self._file_set.files):
            return None
        for file, pattern in zip(self._file_set.files, self._patterns, strict=True):
            try:
                self.connection.read_parquet([pattern])
            except ENGINE_ERRORS:
                return file
        return None


def _value_of_file(values: Sequence[str | None], kind: str, place: Any) -> Any:
    """The value of a row's file."""
    known = duckdb.ConstantExpression(list(values)).cast(f"{kind}[]")
    return duckdb.FunctionExpression("list_extract", known, place.cast("BIGINT"))


class Sandboxes:
    """Lends databases to whoever runs a query, in any thread."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._idle: OrderedDict[FileSet, Sandbox] = OrderedDict()
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="duckdb")
        self._spare: Future[duckdb.DuckDBPyConnection] | None = None
        self._closed = False

    def warm_up(self) -> None:
        """Makes a first database ahead, and waits for it."""
        self._make_spare()
        spare = self._spare
        if spare is not None:
            spare.result()

    @contextmanager
    def lent(self, file_set: FileSet) -> Generator[Sandbox]:
        with self._lock:
            sandbox = self._idle.pop(file_set, None)
        if sandbox is None:
            sandbox = Sandbox(self._take_spare(), file_set)
        is_sound = False
        try:
            yield sandbox
            is_sound = True
        except QuarterdeckError as error:
            is_sound = error.code in _HARMLESS
            raise
        finally:
            if is_sound:
                self._take_back(file_set, sandbox)
            else:
                sandbox.close()
            self._make_spare()  # not before: it would compete with the query that took the last one

    def close(self) -> None:
        """Those that are lent are closed when they come back."""
        with self._lock:
            self._closed = True
            idle = list(self._idle.values())
            self._idle.clear()
            spare, self._spare = self._spare, None
        self._maker.shutdown()
        if spare is not None:
            spare.result().close()
        for sandbox in idle:
            sandbox.close()

    def _take_spare(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._closed:
                raise RuntimeError("the engine was closed, and a query came")
            spare, self._spare = self._spare, None
        return self._new_database() if spare is None else spare.result()

    def _make_spare(self) -> None:
        with self._lock:
            if self._spare is None and not self._closed:
                self._spare = self._maker.submit(self._new_database)

    def _take_back(self, file_set: FileSet, sandbox: Sandbox) -> None:
        with self._lock:
            too_many = [self._idle.pop(file_set)] if file_set in self._idle else []
            self._idle[file_set] = sandbox
            keep = 0 if self._closed else self._limits.idle_databases
            while len(self._idle) > keep:
                too_many.append(self._idle.popitem(last=False)[1])
        for old in too_many:
            old.close()

    def _new_database(self) -> duckdb.DuckDBPyConnection:
        database = open_database(threads=self._limits.threads, memory_limit_bytes=self._limits.memory_limit_bytes)
        database.execute("SET parquet_metadata_cache = true")
        # Progress is counted for us to ask for, and not printed.
        database.execute("SET enable_progress_bar_print = false")
        database.execute("SET enable_progress_bar = true")
        return database

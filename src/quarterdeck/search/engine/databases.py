"""DuckDB databases for searching, each with one thread and memory for lines. They are kept between chunks: a new one
costs 15 ms."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import duckdb

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.engines.duckdb_database import open_database
from quarterdeck.search.engine.line_buffer import LineBuffer


class SearchDatabase:
    """For one search at a time."""

    def __init__(self, memory_limit_bytes: int) -> None:
        self.connection: Final[duckdb.DuckDBPyConnection] = open_database(
            threads=1, memory_limit_bytes=memory_limit_bytes
        )
        self.connection.execute("SET enable_external_file_cache = false")  # what it reads is read once
        self.connection.execute("SET enable_progress_bar = false")
        self.buffer: Final = LineBuffer()
        self.is_sound = True
        """Whether it can be used again."""

    def close(self) -> None:
        self.connection.close()


class SearchDatabases:
    """Lends them, in any thread."""

    def __init__(self, at_once: int, memory_limit_bytes: int) -> None:
        self._at_once = at_once
        self._memory_limit_bytes = memory_limit_bytes
        self._lock = threading.Lock()
        self._idle: list[SearchDatabase] = []
        self._closed = False

    def warm_up(self) -> None:
        """Makes as many as are kept."""
        made = [SearchDatabase(self._memory_limit_bytes) for _ in range(self._at_once)]
        for database in made:
            database.connection.execute("SELECT json_extract('{}', '/a')").fetchall()
            self._take_back(database)

    @contextmanager
    def lent(self) -> Generator[SearchDatabase]:
        with self._lock:
            if self._closed:
                raise RuntimeError("the engine was closed, and a search came")
            database = self._idle.pop() if self._idle else None
        if database is None:
            database = SearchDatabase(self._memory_limit_bytes)
        try:
            yield database
        except QuarterdeckError:
            raise
        except BaseException:
            database.is_sound = False
            raise
        finally:
            self._take_back(database)

    def close(self) -> None:
        """Those that are lent are closed when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for database in idle:
            database.close()

    def _take_back(self, database: SearchDatabase) -> None:
        with self._lock:
            is_kept = database.is_sound and not self._closed and len(self._idle) < self._at_once
            if is_kept:
                self._idle.append(database)
        if not is_kept:
            database.close()

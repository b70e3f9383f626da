"""Searches over chunks: what a process keeps for them, and the answer of one while it is computed."""

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.databases import SearchDatabases
from quarterdeck.search.engine.line_code import SCAN_LINES
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.engine.searching import Searching
from quarterdeck.search.model import ChunkReport, SearchSpec

RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""


class ChunkRows:
    """The answer of a chunk, while it is computed. Read it once, in the thread that searches."""

    def __init__(self, searching: Searching, pieces: Sequence[OpenPiece]) -> None:
        self._searching = searching
        self._batches = searching.batches(pieces)

    def __iter__(self) -> Iterator[RecordBatch]:
        return self._batches

    @property
    def scanned_bytes(self) -> int:
        """Any thread may ask."""
        return self._searching.scanned_bytes

    @property
    def report(self) -> ChunkReport:
        """Once the rows have come to their end."""
        return self._searching.report()

    def close(self) -> None:
        self._batches.close()


class ChunkSearcher:
    """One for a process. Any number of threads may search at once; so many databases are kept as are wanted
    `at_once`."""

    def __init__(self, *, at_once: int, memory_limit_bytes: int) -> None:
        """The memory is for each search."""
        self._databases = SearchDatabases(at_once, memory_limit_bytes)

    def warm_up(self) -> None:
        """What the first searches would have to wait for otherwise."""
        SCAN_LINES.load()
        self._databases.warm_up()

    @contextmanager
    def search(
        self, spec: SearchSpec, pieces: Sequence[OpenPiece], stop: StopSignal, *, ask_about: Collection[str] = ()
    ) -> Generator[ChunkRows]:
        """Gives the rows to the block. Raises `SearchSyntaxError`, and what `stop.check` raises when it is stopped;
        what is wrong with a file is in the report."""
        stop.check()
        plan = plan_search(spec)
        with self._databases.lent() as database, stop.on_cancel(database.connection.interrupt):
            rows = ChunkRows(Searching(spec, plan, database, stop, ask_about), pieces)
            try:
                yield rows
            finally:
                rows.close()

    def close(self) -> None:
        """Nothing is searched any more."""
        self._databases.close()

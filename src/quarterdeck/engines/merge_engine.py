"""Plans and merges in an engine's process: implements `engine_child.Engine`."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, assert_never

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.engines.duckdb_database import open_database
from quarterdeck.engines.duckdb_errors import ENGINE_ERRORS, translated
from quarterdeck.engines.duckdb_merge import MergedRows, merged
from quarterdeck.engines.duckdb_plan import plan_of
from quarterdeck.engines.duckdb_prune import kept_files
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.merge_question import MergeQuestion, PlanQuestion, PruneQuestion, decode_question
from quarterdeck.engines.stop_signal import StopSignal

_arrow: Final[Any] = pyarrow


class _Words:
    """An answer without rows."""

    fraction = 1.0
    schema: Final[Any] = _arrow.schema([])

    def __init__(self, said: bytes) -> None:
        self._said = said

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def last(self) -> bytes:
        return self._said


class _Rows:
    """The answer of a merge."""

    fraction = 0.0

    def __init__(self, rows: MergedRows) -> None:
        self.schema: Final[Any] = rows.schema
        self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def last(self) -> bytes:
        return b""


class MergeEngine:
    """For one thread."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self._database: duckdb.DuckDBPyConnection | None = None

    @classmethod
    def load(cls) -> None:
        """Importing this module has loaded DuckDB."""

    def warm_up(self) -> None:
        self._planner()

    @contextmanager
    def answer(self, question: memoryview, stop: StopSignal) -> Generator[_Words | _Rows]:
        asked = decode_question(bytes(question))
        match asked:
            case MergeQuestion():
                with merged(asked.order, asked.paths, asked.folder, self._limits, stop) as rows:
                    yield _Rows(rows)
            case PlanQuestion() | PruneQuestion():
                yield _Words(self._said(asked, stop))
            case _:
                assert_never(asked)

    def _said(self, asked: PlanQuestion | PruneQuestion, stop: StopSignal) -> bytes:
        planner = self._planner()
        stop.check()
        try:
            with stop.on_cancel(planner.interrupt):
                if isinstance(asked, PlanQuestion):
                    return plan_of(planner, asked.sql).encode()
                return json.dumps(kept_files(planner, asked)).encode()
        except ENGINE_ERRORS as error:
            stop.check()
            raise translated(error, ()) from error

    def _planner(self) -> duckdb.DuckDBPyConnection:
        """A database that can read nothing."""
        if self._database is None:
            self._database = open_database(threads=1, memory_limit_bytes=self._limits.memory_limit_bytes)
            self._database.execute("SET enable_external_access = false")
            self._database.execute("SET lock_configuration = true")
        return self._database

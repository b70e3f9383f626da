"""Plans and merges in this process: as `ContainedMerger`, without the time that a process of its own takes."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quarterdeck.engines.duckdb_errors import ENGINE_ERRORS, translated
from quarterdeck.engines.duckdb_merge import merged
from quarterdeck.engines.duckdb_plan import plan_of
from quarterdeck.engines.duckdb_prune import kept_files
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.merge_question import PruneQuestion
from quarterdeck.engines.scan_file import PathColumn
from quarterdeck.engines.sql_plan import MergeOrder, Plan
from quarterdeck.engines.stop_signal import StopSignal
from tests.engines.kept_database import connected

_LIMITS = EngineLimits(threads=1, memory_limit_bytes=256 * 1024 * 1024, idle_databases=0)


class MergerHere:
    def __init__(self) -> None:
        self.planned: list[str] = []
        """The SQL that was planned."""

    def plan(self, sql: str, stop: StopSignal) -> Plan:
        stop.check()
        self.planned.append(sql)
        with connected() as database:
            try:
                return plan_of(database, sql)
            except ENGINE_ERRORS as error:
                raise translated(error, ()) from error

    def kept_files(
        self, sql: str, columns: Sequence[PathColumn], values: Sequence[tuple[str | None, ...]], stop: StopSignal
    ) -> list[int] | None:
        stop.check()
        named = tuple((column.name, column.kind) for column in columns)
        with connected() as database:
            return kept_files(database, PruneQuestion(sql, named, tuple(values)))

    @contextmanager
    def merge(self, order: MergeOrder, paths: Sequence[Path], folder: Path, stop: StopSignal) -> Generator[Any]:
        with merged(order, paths, folder, _LIMITS, stop) as rows:
            yield rows

"""Plans and merges as `duckdb_plan` and `duckdb_merge` do, in processes of their own: see `contained`."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.contained import PATIENCE_S, ContainedEngine, ContainedRows
from quarterdeck.engines.engine_wire import BrokenAnswerError
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.merge_question import MergeQuestion, PlanQuestion, PruneQuestion
from quarterdeck.engines.scan_file import PathColumn
from quarterdeck.engines.sql_plan import MergeOrder, Plan
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.stores.disk_full import says_full

_ENGINE: Final = "quarterdeck.engines.merge_engine:MergeEngine"


class ContainedMerger(ContainedEngine):
    """Any number of threads may ask at once. The first question starts the processes."""

    def __init__(
        self,
        *,
        at_once: int,
        memory_limit_bytes: int,
        spill_bytes: int,
        limits_named: str,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Memory, and disk beyond it, are for each merge. `limits_named` are the settings that say how much: for
        whoever reads the errors."""
        self._limits_named = limits_named
        limits = EngineLimits(
            threads=1, memory_limit_bytes=memory_limit_bytes, idle_databases=0, spill_bytes=spill_bytes
        )
        super().__init__(_ENGINE, limits, at_once=at_once, patience_s=patience_s)

    def plan(self, sql: str, stop: StopSignal) -> Plan:
        """Raises `QuarterdeckError` for what is not one SELECT that reads."""
        return Plan.decode(self._words(PlanQuestion(sql).encode(), stop))

    def kept_files(
        self,
        sql: str,
        columns: Sequence[PathColumn],
        values: Sequence[tuple[str | None, ...]],
        stop: StopSignal,
    ) -> list[int] | None:
        """The places of the files that may have rows for the SELECT; None is all of them."""
        named = tuple((column.name, column.kind) for column in columns)
        found = json.loads(self._words(PruneQuestion(sql, named, tuple(values)).encode(), stop))
        return found if found is None else [int(place) for place in found]

    @contextmanager
    def merge(
        self, order: MergeOrder, paths: Sequence[Path], folder: Path, stop: StopSignal
    ) -> Generator[ContainedRows]:
        """Gives the rows of the answer to the block."""
        try:
            with self.asked(None, MergeQuestion(order, tuple(paths), folder).encode(), stop) as rows:
                yield rows
        except QuarterdeckError as error:
            if error.code is ErrorCode.RESOURCE_EXHAUSTED:
                raise self._too_large(error) from error
            raise

    def _words(self, question: bytes, stop: StopSignal) -> bytes:
        with self.asked(None, question, stop) as rows:
            for _ in rows:
                raise rows.broke(BrokenAnswerError("rows, and nobody asked for any"))
            return rows.last or b""

    def _too_large(self, error: QuarterdeckError) -> QuarterdeckError:
        """The engine speaks of workers. A merge has other limits, and another disk."""
        room = f"raise {self._limits_named}"
        if says_full(error.why):
            room = "free space on the disk of its data folder"
        return QuarterdeckError(
            ErrorCode.RESOURCE_EXHAUSTED,
            "the parts were not merged",
            f"the merge needs more memory or disk than there is for it: {error.why}",
            f"ask for fewer groups or rows, or ask the coordinator's owner to {room}",
            retryable=False,
        )

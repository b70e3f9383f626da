"""Which kinds of work a worker executes, and with what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quarterdeck.config import WorkerSettings
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.model import AttemptId, WorkKind
from quarterdeck.crew.executors import KindExecutor
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.scan.executor import ScanExecutor
from quarterdeck.telemetry.metrics import WorkerMetrics, exemplar
from quarterdeck.worker.storage import Storage


@dataclass(frozen=True, slots=True)
class Kinds:
    executors: Mapping[WorkKind, KindExecutor]
    close: Callable[[], None]
    """Gives back what they share, when none of them runs any more."""


def all_kinds(settings: WorkerSettings, storage: Storage, metrics: WorkerMetrics) -> Kinds:
    """An executor for each kind that the settings ask for."""
    unknown = sorted(set(settings.kinds) - {WorkKind.SEARCH})
    if unknown:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"this worker cannot take {', '.join(unknown)} work",
            "this release executes search work only",
            "set kinds to search",
        )
    scanner = DuckDbScanner(
        threads=settings.duckdb_threads,
        memory_limit_bytes=settings.duckdb_memory_bytes,
        idle_databases=settings.slots,
    )

    def observe(attempt: AttemptId, seconds: float, outcome: Outcome) -> None:
        of = exemplar(attempt.key.query_id, attempt.key.work_id)
        metrics.execution.query[outcome].observe(seconds, of)

    return Kinds({WorkKind.SEARCH: ScanExecutor(scanner, storage.cache, storage.spool, observe)}, scanner.close)

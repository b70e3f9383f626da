"""Which kinds of work a worker executes, and with what."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from quarterdeck.config import WorkerSettings
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.model import AttemptId, WorkKind
from quarterdeck.crew.executors import KindExecutor
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.crew.process.memory_watch import MemoryWatch
from quarterdeck.metrics.segments.shelf import Shelf
from quarterdeck.telemetry.metrics import WorkerMetrics, exemplar
from quarterdeck.worker.storage import Storage

_IDLE_DATABASES: Final = 2
"""Of each engine's process. One serves who asks about the same files again; there is a process for each slot."""
_EXECUTED: Final = frozenset({WorkKind.LEAF, WorkKind.SEARCH})


@dataclass(frozen=True, slots=True)
class Kinds:
    executors: Mapping[WorkKind, KindExecutor]
    close: Callable[[], None]
    """Gives back what they share, when none of them runs any more."""
    shelf: Shelf | None = None
    """Samples in memory, if this worker evaluates leaves."""
    memory: MemoryBudget | None = None
    """What leaves share, if this worker evaluates any."""
    watch: Callable[[], MemoryWatch] | None = None
    """Watches what the process takes, from when it is ready on."""


def all_kinds(settings: WorkerSettings, storage: Storage, metrics: WorkerMetrics) -> Kinds:
    """An executor for each kind that the settings ask for."""
    unknown = sorted(set(settings.kinds) - _EXECUTED)
    if unknown:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"this worker cannot take {', '.join(unknown)} work",
            f"this release executes {' and '.join(sorted(_EXECUTED))} work only",
            f"set kinds to some of {', '.join(sorted(_EXECUTED))}",
        )

    def observe(attempt: AttemptId, seconds: float, outcome: Outcome) -> None:
        of = exemplar(attempt.key.query_id, attempt.key.work_id)
        metrics.execution.query[outcome].observe(seconds, of)

    executors: dict[WorkKind, KindExecutor] = {}
    shelf: Shelf | None = None
    memory: MemoryBudget | None = None
    watch: Callable[[], MemoryWatch] | None = None
    with ExitStack() as closing:
        if WorkKind.SEARCH in settings.kinds:
            # A worker loads what it executes.
            from quarterdeck.engines.contained_scan import ContainedScanner  # noqa: PLC0415
            from quarterdeck.engines.limits import EngineLimits  # noqa: PLC0415
            from quarterdeck.scan.executor import ScanExecutor  # noqa: PLC0415

            limits = EngineLimits(
                threads=settings.duckdb_threads,
                memory_limit_bytes=settings.duckdb_memory_bytes,
                idle_databases=_IDLE_DATABASES,
            )
            scanner = ContainedScanner(limits, at_once=settings.slots)
            closing.callback(scanner.close)
            executors[WorkKind.SEARCH] = ScanExecutor(scanner, storage.cache, storage.spool, observe)
        if WorkKind.LEAF in settings.kinds:
            from quarterdeck.metrics.executor import LeafExecutor  # noqa: PLC0415
            from quarterdeck.metrics.freed_memory import give_back_freed_memory  # noqa: PLC0415

            memory = MemoryBudget(settings.memory_bytes)
            leaves = LeafExecutor(
                storage.cache,
                storage.spool,
                threads=settings.leaf_threads,
                shelf_bytes=settings.sample_memory_bytes,
                memory_bytes=settings.leaf_memory_bytes,
                budget=memory,
                on_query=observe,
            )
            closing.callback(leaves.close)
            executors[WorkKind.LEAF], shelf = leaves, leaves.shelf
            watch = partial(
                MemoryWatch, memory, settings.memory_bytes, trim=give_back_freed_memory, caches=[shelf.clear]
            )
        return Kinds(executors, closing.pop_all().close, shelf, memory, watch)

"""Metrics in a worker: leaves, and the samples that stay in memory for the next ones."""

from collections.abc import Callable, Mapping, Sequence

from quarterdeck.capability.worker import WorkerHost, WorkerPart
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.crew.executors import KindExecutor
from quarterdeck.metrics.executor import LeafExecutor
from quarterdeck.metrics.metering import LeafFigures, worker_readings
from quarterdeck.metrics.model import LEAF
from quarterdeck.metrics.settings import LeafSettings


class MetricsOnWorker(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        settings = host.settings.section(LeafSettings)
        self._memory = host.memory
        self._leaves = LeafExecutor(
            host.storage.cache,
            threads=settings.leaf_threads,
            shelf_bytes=settings.sample_memory_bytes,
            memory_bytes=settings.leaf_memory_bytes,
            budget=host.memory,
            on_query=host.observe,
        )
        worker_readings(host.families).read_from(self._figures)

    def executors(self) -> Mapping[WorkKind, KindExecutor]:
        return {LEAF: self._leaves}

    def caches(self) -> Sequence[Callable[[], object]]:
        return (self._leaves.shelf.clear,)

    def close(self) -> None:
        self._leaves.close()

    def _figures(self) -> LeafFigures:
        shelf = self._leaves.shelf
        return LeafFigures(
            sample_memory_bytes=shelf.used_bytes,
            sample_hits=shelf.hits,
            sample_misses=shelf.misses,
            query_memory_bytes=self._memory.used_bytes,
            queries_ended_for_memory=self._memory.ended,
        )

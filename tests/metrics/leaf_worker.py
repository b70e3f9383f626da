"""A worker's executor of leaves over a lake of its own, without a crew: works as a coordinator would plan them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkKey, WorkSpec
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.crew.executors import Executors
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.executor import LeafExecutor
from quarterdeck.metrics.model import LEAF
from quarterdeck.metrics.planning import ShardWork, divide, selections_of
from quarterdeck.metrics.promql.blocks import Axis
from quarterdeck.metrics.promql.exec.aggregates import PartialBlock
from quarterdeck.metrics.promql.flow.leaf import LeafValues
from quarterdeck.metrics.promql.labels import get
from quarterdeck.metrics.promql.plan.leaves import BaseExpr
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.metrics.tasks import LeafTask, QueryTimes, Task, WorkLimits, encode_task
from quarterdeck.metrics.transfer.leaf_blocks import LeafReader
from quarterdeck.metrics.transfer.notes_text import Report
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.threaded import ThreadedDatabase
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.e2e.samples import FIRST_MS, Samples, Store

LOOKBACK_MS = 300_000
LIMITS = WorkLimits(memory_bytes=1 << 30, max_samples=1 << 30, max_series=1 << 20, block_cells=2_000_000)


@dataclass
class LeafWorker:
    folder: Path
    samples: Samples
    copy_local: bool = False
    """Whether segments are copied into the cache, as those of a bucket are."""
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    """How each work ended."""

    def __post_init__(self) -> None:
        self.artifacts, self.cached = self.folder / "artifacts", self.folder / "cache"
        self.budget = DiskBudget(self.folder, DiskLimits(1 << 30))
        self.cache = ParquetCache(self.cached, self.budget, ObjectStores(), copy_local=self.copy_local)
        self.spool = ArtifactSpool(self.artifacts, self.budget, lambda: "http://worker:1", lambda attempt: None)
        self.cache.recover()
        self.spool.recover()
        self.store = Store.at(self.folder / "lake")
        self.budget_of_leaves = MemoryBudget()
        self.leaves = LeafExecutor(
            self.cache,
            threads=1,
            shelf_bytes=1 << 28,
            memory_bytes=1 << 30,
            budget=self.budget_of_leaves,
            on_query=lambda attempt, seconds, outcome: self.outcomes.append(outcome),
        )
        self.executors = Executors({LEAF: self.leaves}, self.spool, slots=1)
        self._number = 0

    async def put(self, shards: int = 1) -> list[Path]:
        """Imports the samples; the files of the segments."""
        imported = await asyncio.to_thread(self.store.put, self.samples, "default", shards, self.folder)
        return self.store.segments(imported)

    async def planned(self, text: str, step_ms: int = 60_000, **changes: Any) -> tuple[BaseExpr, LeafTask]:
        """The first work of a query's first leaf."""
        times = QueryTimes(FIRST_MS, self.samples.end_ms, step_ms, LOOKBACK_MS, 60_000)
        plan = plan_query(text, times.start_ms, times.end_ms, times.step_ms, times.subquery_step_ms)
        leaf = plan.leaves[0]
        work = (await self._works(leaf))[0]
        task = LeafTask(text, times, 0, leaf.id, work.segments, work.part, LIMITS)
        return leaf, replace(task, **changes)

    async def _works(self, leaf: BaseExpr) -> tuple[ShardWork, ...]:
        database = ThreadedDatabase(open_database(self.store.database_url, (METRICS_SCHEMA,)))
        try:
            universe = await Catalog(database, self.store.lake_url).universe("default")
        finally:
            await database.close()
        return divide(universe, selections_of(leaf, LOOKBACK_MS, instant=False)).works

    async def execute(self, task: Task) -> Artifact:
        self._number += 1
        leaf_id = task.leaf_id if isinstance(task, LeafTask) else "series"
        key = WorkKey(QueryId("q"), LeafId(leaf_id), WorkId(f"q/0/{self._number}"))
        spec = WorkSpec(key, LEAF, encode_task(task), affinity_key="any", tenant="default")
        artifact = await self.executors.execute(AttemptId(key, 1), spec, lambda fraction: None)
        assert isinstance(artifact, Artifact)
        return artifact

    def read(self, leaf: BaseExpr, artifact: Artifact) -> tuple[set[str], Report]:
        """Which series an artifact has, by their label `n`, and its report."""
        file = self.spool.find(artifact.url.rpartition("/")[2])
        assert file is not None
        reader = LeafReader(leaf, FetchedArtifact(artifact, file.data, file.path).read_batches())
        blocks = [block.values for block in reader]
        return {get(labels, "n") for block in blocks for labels in _axis(block).labels}, reader.report

    def check_that_nothing_is_left(self) -> None:
        """Neither artifacts nor pinned files."""
        self.budget.check_invariants()
        assert len(self.spool) == self.spool.memory_bytes == 0
        assert not list(self.artifacts.iterdir())
        entries = self.budget._entries.values()  # pyright: ignore[reportPrivateUsage]
        assert not [entry.key for entry in entries if entry.pins]


def _axis(values: LeafValues) -> Axis:
    assert not isinstance(values, PartialBlock)
    return values.axis


@asynccontextmanager
async def leaf_worker(folder: Path, samples: Samples, *, copy_local: bool = False) -> AsyncGenerator[LeafWorker]:
    worker = LeafWorker(folder, samples, copy_local)
    try:
        yield worker
    finally:
        assert await worker.executors.close(10.0)
        await asyncio.to_thread(worker.leaves.close)

"""The worker's side of a query: segments through the cache, a leaf evaluated in a thread, its answer as rows.

The files stay pinned until the last row is written.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.model import Artifact, AttemptId
from quarterdeck.crew.artifacts.writer import RowSink
from quarterdeck.crew.cancel import WorkCanceledError
from quarterdeck.crew.executors import Execution
from quarterdeck.crew.inputs import opened_files
from quarterdeck.crew.process.freed_memory import keep_freed_memory, use_one_allocator
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.metrics.memory_share import MemoryShare
from quarterdeck.metrics.model import SegmentRef
from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.defects import named_defects
from quarterdeck.metrics.promql.errors import DefectError, ExecutionError, LimitExceeded
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.flow.leaf import evaluate_leaf
from quarterdeck.metrics.promql.kernels.threads import Stopped, Threads
from quarterdeck.metrics.promql.kernels.warm import warm
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.limits import LISTED_BYTES, Memory
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.leaves import BaseExpr
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan, plan_query
from quarterdeck.metrics.promql.source import unlimited
from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.segments.file import CHECKSUM_PREFIX, SegmentFile, UnreadableSegmentError
from quarterdeck.metrics.segments.shelf import Shelf
from quarterdeck.metrics.segments.source import OpenSegment, SegmentSource
from quarterdeck.metrics.tasks import LeafTask, SeriesTask, Task, WorkLimits, decode_task
from quarterdeck.metrics.transfer.leaf_blocks import LeafWriter
from quarterdeck.metrics.transfer.refusals import report_of
from quarterdeck.metrics.transfer.series_list import write_series
from quarterdeck.stores.objects import ObjectRef
from quarterdeck.stores.parquet_cache import ParquetCache
from quarterdeck.stores.threads import in_loose_thread
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_OPENED: Final = 0.2
"""The progress of a work whose files are all here."""
_PLANS: Final = 256
"""How many queries' plans are kept: a query has many works, and dashboards ask the same again."""


@dataclass(slots=True)
class _Inputs:
    """What a work reads, and what became of it on the way."""

    files: list[tuple[SegmentRef, Path]] = field(default_factory=list[tuple[SegmentRef, Path]])
    unreadable: list[str] = field(default_factory=list[str])
    cache_hits: int = 0
    load_s: float = 0.0

    def leave_out(self, error: UnreadableSegmentError) -> bool:
        """Goes on without a segment, which is told of; whether it was among the files."""
        kept = [(segment, path) for segment, path in self.files if segment.object.url != error.url]
        if len(kept) == len(self.files):
            return False
        self.files = kept
        self.unreadable.append(error.message)
        return True


class LeafExecutor:
    """Implements `crew.executors.KindExecutor` for leaves."""

    def __init__(
        self,
        cache: ParquetCache,
        *,
        threads: int,
        shelf_bytes: int,
        memory_bytes: int,
        budget: MemoryBudget | None = None,
        on_query: Callable[[AttemptId, float, Outcome], None] | None = None,
    ) -> None:
        """`threads` share the kernels of a work. `shelf_bytes` is for row groups that stay in memory; `memory_bytes`
        what one work may take on top, and `budget` what all of them share. `on_query` gets the seconds that a work
        took, and how it ended; on the loop."""
        self._cache = cache
        self._threads = Threads(threads)
        self._memory_bytes = memory_bytes
        self._budget = budget or MemoryBudget()
        self._on_query = on_query
        self.shelf: Final = Shelf(shelf_bytes)

    def close(self) -> None:
        """Ends the threads, when nothing runs any more."""
        self._threads.close()

    async def warm_up(self) -> None:
        keep_freed_memory()
        use_one_allocator()
        await in_loose_thread(warm)

    async def execute(self, execution: Execution) -> Artifact:
        task = decode_task(execution.spec.payload)
        inputs = _Inputs()
        refs = [_ref(segment) for segment in task.segments]
        began_s = time.monotonic()
        outcome = Outcome.FAILED

        def tell(opened: int) -> None:
            execution.progress(_OPENED * opened / len(refs))

        def leave_out(index: int, error: QuarterdeckError) -> None:
            unreadable = UnreadableSegmentError(refs[index].url, error.why)
            if not task.partial_allowed:
                raise unreadable from error
            inputs.unreadable.append(unreadable.message)

        try:
            inputs.cache_hits = sum(self._cache.is_here(ref) for ref in refs)
            async with opened_files(self._cache, refs, on_opened=tell, on_unreadable=leave_out) as paths:
                found = zip(task.segments, paths, strict=True)
                inputs.files = [(segment, path) for segment, path in found if path is not None]
                inputs.load_s = time.monotonic() - began_s
                artifact = await self._run(task, inputs, execution)
            outcome = Outcome.SUCCEEDED
        except asyncio.CancelledError:
            outcome = Outcome.CANCELED
            raise
        finally:
            if self._on_query is not None:
                self._on_query(execution.attempt, time.monotonic() - began_s, outcome)
        return artifact

    async def _run(self, task: Task, inputs: _Inputs, execution: Execution) -> Artifact:
        """Where segments may be missing, one that is found so, even when half of it was read, is left out and all is
        done anew: an answer has all of a segment or nothing."""
        while True:
            try:
                return await self._answer(task, inputs, execution)
            except UnreadableSegmentError as error:
                if not task.partial_allowed or not inputs.leave_out(error):
                    raise

    async def _answer(self, task: Task, inputs: _Inputs, execution: Execution) -> Artifact:
        """What is wrong with the query itself is an answer like any other: nobody need try again elsewhere. Nor over a
        mistake of ours, which is told in the log as well."""
        try:
            return await execution.write(lambda sink: self._fill(task, inputs, sink, execution))
        except Stopped:
            raise WorkCanceledError from None
        except DefectError:
            asked = task.query if isinstance(task, LeafTask) else ""
            _log.exception("a work met a defect", work=str(execution.attempt), query=asked)
            raise
        except (ExecutionError, LimitExceeded) as error:
            if not isinstance(task, LeafTask):
                raise
            leaf, refusal = _leaf_of(task)[1], report_of(error)
            return await execution.write(lambda sink: LeafWriter(leaf, sink).finish(Notes(), refusal))

    # In a thread

    def _fill(self, task: Task, inputs: _Inputs, sink: RowSink, execution: Execution) -> None:
        doing = "a leaf" if isinstance(task, LeafTask) else "a list of series"
        source = _CountingSource(SegmentSource(self._opened(inputs, execution), self.shelf, task.part))
        with named_defects(lambda: doing):
            match task:
                case LeafTask():
                    self._evaluate(task, source, inputs, sink, execution)
                case SeriesTask():
                    self._list(task, source, inputs, sink, execution)

    def _opened(self, inputs: _Inputs, execution: Execution) -> list[OpenSegment]:
        found: list[OpenSegment] = []
        for segment, path in inputs.files:
            execution.token.check()
            file = self._file(segment, path)
            found.append(OpenSegment(segment.segment_id, segment.min_ts_ms, file, segment.shard_count))
        return found

    def _file(self, segment: SegmentRef, path: Path) -> SegmentFile:
        url = segment.object.url
        try:
            status = path.stat()  # a file that has changed since is verified again
        except OSError as error:
            raise UnreadableSegmentError(url, error.strerror or str(error)) from error
        key = (url, str(path), status.st_size, status.st_mtime_ns)
        return self.shelf.get(key, lambda: SegmentFile(path, url, segment.checksum))[0]

    def _evaluate(
        self,
        task: LeafTask,
        source: "_CountingSource",
        inputs: _Inputs,
        sink: RowSink,
        execution: Execution,
    ) -> None:
        """A work that the process ends, to have its memory, is refused like one that needs more than it may."""
        with MemoryShare(self._budget, execution.attempt.key.query_id, task.query) as share:
            try:
                self._evaluate_within(share, task, source, inputs, sink, execution)
            except Stopped:
                share.check()
                raise

    def _evaluate_within(
        self,
        share: MemoryShare,
        task: LeafTask,
        source: "_CountingSource",
        inputs: _Inputs,
        sink: RowSink,
        execution: Execution,
    ) -> None:
        query, leaf = _leaf_of(task)
        limits, notes = task.limits, Notes()
        source.limits = limits

        def should_stop() -> bool:
            return execution.token.is_canceled or share.is_ended

        memory = Memory(min(limits.memory_bytes, self._memory_bytes), share)
        threads = self._threads.until(should_stop)
        context = Context(threads, memory, notes, task.times.lookback_ms, query.instant, should_stop)
        writer = LeafWriter(leaf, sink)
        began_s, write_s = time.perf_counter(), 0.0
        for block in evaluate_leaf(leaf, source, context, limits.block_cells):
            writing_s = time.perf_counter()
            writer.write(block)
            write_s += time.perf_counter() - writing_s
            done = (block.grid.end_ms - leaf.grid.start_ms + 1) / (leaf.grid.end_ms - leaf.grid.start_ms + 1)
            execution.progress(_OPENED + (1 - _OPENED) * done)
        evaluate_s = time.perf_counter() - began_s - write_s
        times_ms = {"evaluate_ms": round(evaluate_s * 1000, 3), "write_ms": round(write_s * 1000, 3)}
        writer.finish(notes, source.report(inputs) | times_ms | {"peak_memory_bytes": memory.peak_bytes})

    def _list(
        self,
        task: SeriesTask,
        source: "_CountingSource",
        inputs: _Inputs,
        sink: RowSink,
        execution: Execution,
    ) -> None:
        found: set[Labels] = set()
        with MemoryShare(self._budget, execution.attempt.key.query_id, "a list of series") as share:
            memory = Memory(self._memory_bytes, share)

            def need(more_bytes: int) -> None:
                execution.token.check()
                share.check()
                memory.need(len(found) * LISTED_BYTES + more_bytes)
                if more_bytes > task.max_series * LISTED_BYTES:
                    raise _too_many_series(task.max_series)

            for matchers in task.selectors:
                found |= source.source.series(matchers, task.start_ms, task.end_ms, need)
            if len(found) > task.max_series:
                raise _too_many_series(task.max_series)
            source.series = len(found)
            write_series(sink, sorted(found), source.report(inputs))


class _CountingSource:
    """A source that counts what is taken from it, and stops what takes too much."""

    def __init__(self, source: SegmentSource) -> None:
        self.source: Final = source
        self.limits: WorkLimits | None = None
        self.samples = 0
        self.series = 0

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        need: Callable[[int], None] = unlimited,
    ) -> SeriesBlock:
        """See `Source.select`."""
        block = self.source.select(matchers, start_ms, end_ms, need)
        self.samples += len(block.timestamps)
        self.series += len(block.axis)
        if self.limits is not None and self.samples > self.limits.max_samples:
            raise LimitExceeded(
                f"query processing would load too many samples into memory in query execution: more than "
                f"{self.limits.max_samples:,}",
                "ask for fewer series or a shorter range, or raise metrics.query_max_samples",
            )
        if self.limits is not None and self.series > self.limits.max_series:
            raise _too_many_series(self.limits.max_series)
        return block

    def report(self, inputs: _Inputs) -> dict[str, int | float | str]:
        """What `explain=analyze` shows of this work."""
        reading = self.source.reading
        return {
            "samples": self.samples,
            "series": self.series,
            "segments": len(inputs.files),
            "cache_hits": inputs.cache_hits,
            "cache_misses": len(inputs.files) + len(inputs.unreadable) - inputs.cache_hits,
            "memory_hits": reading.hits,
            "memory_misses": reading.misses,
            "bytes_read": reading.bytes_read,
            "row_groups_read": reading.groups_read,
            "row_groups_pruned": reading.groups_pruned,
            "load_ms": round(inputs.load_s * 1000, 3),
            "unreadable": "\n".join(inputs.unreadable),
        }


@lru_cache(maxsize=_PLANS)
def _planned(query: str, start_ms: int, end_ms: int, step_ms: int, subquery_step_ms: int) -> QueryPlan:
    return plan_query(query, start_ms, end_ms, step_ms, subquery_step_ms)


def _leaf_of(task: LeafTask) -> tuple[QueryPlan, BaseExpr]:
    times = task.times
    query = _planned(task.query, times.start_ms, times.end_ms, times.step_ms, times.subquery_step_ms)
    if task.leaf >= len(query.leaves) or query.leaves[task.leaf].id != task.leaf_id:
        raise QuarterdeckError(
            ErrorCode.PROTOCOL,
            "the leaf was not evaluated",
            f"this worker plans the query differently: it has no leaf {task.leaf} with the id {task.leaf_id}",
            "run coordinator and workers of one release",
        )
    return query, query.leaves[task.leaf]


def _ref(segment: SegmentRef) -> ObjectRef:
    """With its checksum: what is damaged on its way or in its store never becomes a cached copy."""
    return replace(segment.object, checksum=segment.checksum.removeprefix(CHECKSUM_PREFIX))


def _too_many_series(limit: int) -> LimitExceeded:
    return LimitExceeded(
        f"it touches more than {limit:,} series",
        "use narrower matchers or a shorter range, or raise metrics.query_max_series",
    )

"""Leaves on a worker, with real segments, a real cache and real artifacts."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkKey, WorkSpec
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.crew.executors import Executors
from quarterdeck.crew.ports import ExecutionFailedError
from quarterdeck.metrics.executor import LeafExecutor
from quarterdeck.metrics.model import LEAF, Part, SegmentRef
from quarterdeck.metrics.promql.blocks import VectorBlock
from quarterdeck.metrics.promql.errors import LimitExceeded
from quarterdeck.metrics.promql.flow.leaf import LeafBlock
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.tasks import LeafTask, QueryTimes, SeriesTask, Task, WorkLimits, encode_task
from quarterdeck.metrics.transfer.leaf_blocks import LeafReader
from quarterdeck.metrics.transfer.refusals import raise_refusal
from quarterdeck.metrics.transfer.series_list import SeriesList, read_series
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.metrics.segments.stored import Lake, Samples

MIB = 1 << 20
LIMITS = WorkLimits(64 * MIB, 1_000_000, 1_000, 10_000)
ATTEMPT = AttemptId(WorkKey(QueryId("q"), LeafId("l"), WorkId("w")), 1)


def series(number: int) -> Labels:
    return ((METRIC_NAME, "up"), ("i", str(number)))


def samples(*numbers: int) -> Samples:
    return {series(number): {time: (float(number), None) for time in range(0, 5_000, 1_000)} for number in numbers}


class Worker:
    """What a worker needs for leaves, in a folder, with two segments: one of series 0 and 1, one of series 2."""

    def __init__(self, folder: Path, *, copy_local: bool) -> None:
        (folder / "lake").mkdir()
        self.lake = Lake(folder / "lake")
        self.lake.store(samples(0, 1))
        self.lake.store(samples(2))
        self.budget = DiskBudget(folder / "disk", DiskLimits(256 * MIB, step_bytes=MIB))
        self.cache = ParquetCache(folder / "cache", self.budget, ObjectStores(), copy_local=copy_local)
        self.spool = ArtifactSpool(folder / "artifacts", self.budget, lambda: "http://w:1", lambda _: None)
        self.cache.recover()
        self.spool.recover()
        self.outcomes: list[Outcome] = []
        self.executor = LeafExecutor(
            self.cache,
            threads=1,
            shelf_bytes=64 * MIB,
            memory_bytes=64 * MIB,
            on_query=lambda attempt, seconds, outcome: self.outcomes.append(outcome),
        )
        self.executors = Executors({LEAF: self.executor}, self.spool, slots=2)

    def refs(self) -> tuple[SegmentRef, ...]:
        return tuple(
            SegmentRef(one.segment_id, one.object, one.checksum, one.min_ts_ms, one.max_ts_ms, one.shard_count)
            for one in self.lake.segments
        )

    def path(self, number: int) -> Path:
        return Path(self.lake.segments[number].object.url)

    def leaf_task(self, query: str, **changes: Any) -> LeafTask:
        (leaf,) = plan_query(query, 0, 4_000, 1_000, 60_000).leaves
        times = QueryTimes(0, 4_000, 1_000, 300_000, 60_000)
        return replace(LeafTask(query, times, 0, leaf.id, self.refs(), Part(), LIMITS), **changes)

    async def execute(self, task: Task) -> Artifact:
        spec = WorkSpec(ATTEMPT.key, LEAF, encode_task(task))
        self.spool.drop(ATTEMPT)
        artifact = await self.executors.execute(ATTEMPT, spec, lambda _: None)
        assert isinstance(artifact, Artifact)
        return artifact

    def fetched(self, artifact: Artifact) -> FetchedArtifact:
        file = self.spool.find(artifact.url.rpartition("/")[2])
        assert file is not None
        return FetchedArtifact(artifact, file.data, file.path)

    async def answer(self, task: LeafTask) -> tuple[list[LeafBlock], dict[str, Any]]:
        (leaf,) = plan_query(task.query, 0, 4_000, 1_000, 60_000).leaves
        reader = LeafReader(leaf, self.fetched(await self.execute(task)).read_batches())
        return list(reader), dict(reader.report)

    async def listed(self, task: SeriesTask) -> SeriesList:
        return read_series(self.fetched(await self.execute(task)).read_batches())


@pytest.fixture(params=[False, True])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worker]:
    """With the segments where they are, and with copies of them."""
    worker = Worker(tmp_path, copy_local=request.param)
    yield worker
    asyncio.run(worker.executors.close(10.0))
    worker.executor.close()


def looped(test: Callable[[Worker], Coroutine[Any, Any, None]]) -> Callable[[Worker], None]:
    def run(worker: Worker) -> None:
        asyncio.run(asyncio.wait_for(test(worker), 60))

    run.__name__ = test.__name__
    return run


def labels_in(blocks: list[LeafBlock]) -> list[Labels]:
    (block,) = blocks
    assert isinstance(block.values, VectorBlock)
    return list(block.values.axis.labels)


@looped
async def test_a_leaf_is_evaluated_and_what_was_done_is_reported(worker: Worker) -> None:
    blocks, report = await worker.answer(worker.leaf_task("up"))
    assert labels_in(blocks) == [series(0), series(1), series(2)]
    assert (report["samples"], report["series"], report["segments"]) == (15, 3, 2)
    assert (report["memory_hits"], report["memory_misses"], report["row_groups_read"]) == (0, 4, 2)
    assert report["unreadable"] == ""
    assert report["cache_hits"] + report["cache_misses"] == 2
    _, again = await worker.answer(worker.leaf_task("up"))
    assert (again["cache_hits"], again["cache_misses"]) == (2, 0)
    assert (again["memory_hits"], again["memory_misses"], again["bytes_read"]) == (4, 0, 0)
    assert worker.outcomes == [Outcome.SUCCEEDED] * 2


@looped
async def test_without_segments_a_leaf_is_evaluated_over_nothing(worker: Worker) -> None:
    blocks, report = await worker.answer(worker.leaf_task("up", segments=()))
    assert labels_in(blocks) == []
    assert (report["samples"], report["cache_misses"]) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_samples": 14}, "too many samples"),
        ({"max_series": 2}, "more than 2 series"),
        ({"memory_bytes": 1}, "MiB"),
    ],
)
def test_a_limit_of_the_query_travels_as_an_answer(worker: Worker, changes: dict[str, int], reason: str) -> None:
    @looped
    async def test(worker: Worker) -> None:
        blocks, report = await worker.answer(worker.leaf_task("up", limits=replace(LIMITS, **changes)))
        assert blocks == []
        with pytest.raises(LimitExceeded, match=reason):
            raise_refusal(report)

    test(worker)


@looped
async def test_a_leaf_that_is_planned_otherwise_here_is_refused(worker: Worker) -> None:
    for changes in ({"leaf_id": "another"}, {"leaf": 7}):
        with pytest.raises(ExecutionFailedError, match="of one release"):
            await worker.execute(worker.leaf_task("up", **changes))
    assert len(worker.spool) == 0


@looped
async def test_series_are_listed(worker: Worker) -> None:
    def task(max_series: int, *selectors: tuple[Matcher, ...]) -> SeriesTask:
        return SeriesTask(selectors, 0, 10_000, worker.refs(), Part(), max_series)

    one, other = (Matcher("i", MatchOp.EQUAL, "1"),), (Matcher("i", MatchOp.REGEX, "1|2"),)
    assert (await worker.listed(task(10, one, other))).labels == (series(1), series(2))
    assert (await worker.listed(task(10, ()))).labels == (series(0), series(1), series(2))
    assert (await worker.listed(task(10))).labels == ()
    with pytest.raises(ExecutionFailedError, match="more than 2 series") as caught:
        await worker.execute(task(2, ()))
    assert not caught.value.error.retryable


def remove(worker: Worker) -> None:
    worker.path(0).unlink()


def tear(worker: Worker) -> None:
    data = bytearray(worker.path(0).read_bytes())
    data[100] ^= 1
    worker.path(0).write_bytes(data)


@pytest.mark.parametrize("damage", [remove, tear])
def test_a_segment_that_cannot_be_read_is_an_error_or_left_out_and_named(
    worker: Worker, damage: Callable[[Worker], None]
) -> None:
    @looped
    async def test(worker: Worker) -> None:
        damage(worker)
        with pytest.raises(ExecutionFailedError, match=r"segment .*1\.parquet cannot be read") as caught:
            await worker.execute(worker.leaf_task("up"))
        assert not caught.value.error.retryable
        blocks, report = await worker.answer(worker.leaf_task("up", partial_allowed=True))
        assert labels_in(blocks) == [series(2)]
        assert report["unreadable"].count("cannot be read") == 1
        assert (report["segments"], report["cache_hits"] + report["cache_misses"]) == (1, 2)
        task = SeriesTask(((),), 0, 10_000, worker.refs(), Part(), 10, partial_allowed=True)
        listed = await worker.listed(task)
        assert listed.labels == (series(2),)
        assert "1.parquet" in listed.report["unreadable"]

    test(worker)


@looped
async def test_a_segment_that_breaks_while_it_is_read_is_left_out_where_that_is_allowed(worker: Worker) -> None:
    _, whole = await worker.answer(worker.leaf_task("nothing"))
    assert whole["unreadable"] == ""
    for path in (worker.path(0), *worker.path(0).parents[1].glob("cache/*")):
        break_without_a_trace(path)
    with pytest.raises(ExecutionFailedError, match="cannot be read"):
        await worker.execute(worker.leaf_task("up"))
    blocks, report = await worker.answer(worker.leaf_task("up", partial_allowed=True))
    unreadable = report["unreadable"].splitlines()
    assert labels_in(blocks) == ([series(2)] if len(unreadable) == 1 else [])
    assert any("1.parquet cannot be read" in line for line in unreadable)


def break_without_a_trace(path: Path) -> None:
    """As a bad disk does: the file has the same size and time."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    for place in range(4, 200):
        data[place] ^= 0xFF
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_file_that_is_gone_when_it_is_looked_at_is_left_out_like_any_other(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = LeafExecutor._file  # pyright: ignore[reportPrivateUsage]

    def gone(self: LeafExecutor, segment: SegmentRef, path: Path) -> object:
        return original(self, segment, path.with_name("gone") if segment.segment_id == 1 else path)

    monkeypatch.setattr(LeafExecutor, "_file", gone)

    @looped
    async def test(worker: Worker) -> None:
        blocks, report = await worker.answer(worker.leaf_task("up", partial_allowed=True))
        assert labels_in(blocks) == [series(2)]
        assert "No such file" in report["unreadable"]
        with pytest.raises(ExecutionFailedError, match="No such file"):
            await worker.execute(worker.leaf_task("up"))

    test(worker)


@looped
async def test_a_canceled_work_leaves_nothing(worker: Worker) -> None:
    task = asyncio.create_task(worker.execute(worker.leaf_task("up")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(worker.spool) == 0
    worker.budget.check_invariants()
    assert worker.outcomes in ([], [Outcome.CANCELED])

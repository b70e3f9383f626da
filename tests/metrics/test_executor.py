"""The worker's side of a query: what is wrong with its files, and how soon it ends when nobody wants it any more."""

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.crew.ports import ExecutionFailedError
from quarterdeck.metrics.promql.errors import DefectError
from quarterdeck.metrics.promql.exec import range_functions
from quarterdeck.metrics.segments.file import GroupSamples, SegmentFile
from quarterdeck.metrics.tasks import LeafTask
from quarterdeck.metrics.transfer.leaf_blocks import LeafWriter
from tests.e2e.samples import Samples, Store
from tests.metrics.leaf_worker import LeafWorker, leaf_worker

MANY = Samples("m", series=400, times=3000)
FEW = Samples("m", series=40, times=100)
CANCELED_WITHIN_S = 0.05
"""From the cancel to the end of the thread. The median, since other processes may have the cores for a moment."""
MOMENTS = 9


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with many samples in its lake."""
    folder = tmp_path_factory.mktemp("many")
    Store.at(folder / "lake").put(MANY, "default", 1, folder)
    return folder


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("quantile_over_time(0.9, m[1h])", id="a window's quantile"),
        pytest.param("max by (job) (mad_over_time(m[1h]))", id="a deviation, aggregated"),
        pytest.param("max_over_time(rate(m[5m])[1h:15s])", id="a subquery"),
        pytest.param("m", id="all samples, most of the time is spent writing them"),
    ],
)
def test_a_leaf_canceled_in_the_middle_ends_in_a_moment_and_leaves_nothing(lake: Path, text: str) -> None:
    asyncio.run(_cancel_at_many_moments(lake, text))


async def _cancel_at_many_moments(lake: Path, text: str) -> None:
    async with leaf_worker(lake, MANY) as worker:
        _, task = await worker.planned(text, step_ms=15_000)
        await worker.execute(task)  # reads the segment and loads the kernels
        began_s = time.monotonic()
        await worker.execute(task)
        whole_s = time.monotonic() - began_s
        latencies: list[float] = []
        for moment in range(MOMENTS):
            running = asyncio.create_task(worker.execute(task))
            # Where it is by then cannot be known from outside: the moments lie all over what it takes as a whole.
            done, _ = await asyncio.wait([running], timeout=whole_s * moment / MOMENTS)
            if done:
                continue
            running.cancel()
            canceled_s = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await running
            latencies.append(time.monotonic() - canceled_s)
        assert statistics.median(latencies) < min(CANCELED_WITHIN_S, whole_s)
        assert worker.outcomes.count(Outcome.CANCELED) == len(latencies)
        for attempt in list(worker.spool._names):  # pyright: ignore[reportPrivateUsage] - of those that were done
            worker.spool.drop(attempt)
        worker.check_that_nothing_is_left()


def test_a_leaf_reads_the_series_of_its_segments(tmp_path: Path) -> None:
    async def story() -> None:
        async with leaf_worker(tmp_path, FEW) as worker:
            await worker.put()
            leaf, task = await worker.planned("m")
            series, report = worker.read(leaf, await worker.execute(task))
            assert len(series) == report["series"] == FEW.series
            assert report["unreadable"] == ""

    asyncio.run(story())


def test_a_segment_deleted_while_it_is_read_fails_the_work_with_its_name_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with leaf_worker(tmp_path, FEW) as worker:
            gone = (await worker.put(shards=4))[2]
            _delete_when_it_is_read(gone, monkeypatch)
            _, task = await worker.planned("m")
            with pytest.raises(ExecutionFailedError) as failed:
                await worker.execute(task)
            assert (failed.value.error.code, failed.value.error.retryable) == (ErrorCode.WORK_FAILED, False)
            assert str(gone) in failed.value.error.message
            worker.check_that_nothing_is_left()

    asyncio.run(story())


def test_a_segment_deleted_while_it_is_read_is_left_out_whole_and_told_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with leaf_worker(tmp_path, FEW) as worker:
            files = await worker.put(shards=4)
            series_of = [await _series_of(worker, number) for number in range(len(files))]
        async with leaf_worker(tmp_path, FEW) as worker:  # which has nothing in its memory
            _delete_when_it_is_read(files[2], monkeypatch)
            leaf, task = await worker.planned("m", partial_allowed=True)
            series, report = worker.read(leaf, await worker.execute(task))
            assert series == series_of[0] | series_of[1] | series_of[3]
            assert str(files[2]) in str(report["unreadable"])
            assert len(str(report["unreadable"]).splitlines()) == 1

    asyncio.run(story())


async def _series_of(worker: LeafWorker, number: int) -> set[str]:
    """Of one segment."""
    leaf, task = await worker.planned("m")
    return worker.read(leaf, await worker.execute(_only(task, number)))[0]


def _only(task: LeafTask, number: int) -> LeafTask:
    return LeafTask(task.query, task.times, task.leaf, task.leaf_id, (task.segments[number],), task.part, task.limits)


def _delete_when_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was opened and verified, in the moment in which its samples are wanted."""
    read_samples = SegmentFile.read_samples

    def delete_first(file: SegmentFile, group: int) -> GroupSamples:
        if file.path == path:
            path.unlink(missing_ok=True)
        return read_samples(file, group)

    monkeypatch.setattr(SegmentFile, "read_samples", delete_first)


@pytest.mark.parametrize("allowed", [False, True])
def test_a_segment_deleted_after_it_was_found_is_no_surprise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    """Between the look at the file and its opening in the thread."""

    async def story() -> None:
        async with leaf_worker(tmp_path, FEW) as worker:
            gone = (await worker.put(shards=4))[1]
            leaf, task = await worker.planned("m", partial_allowed=allowed)
            run = worker.leaves._run  # pyright: ignore[reportPrivateUsage]

            def delete_first(*arguments: object) -> object:
                gone.unlink()
                return run(*arguments)  # pyright: ignore[reportArgumentType]

            monkeypatch.setattr(worker.leaves, "_run", delete_first)
            if allowed:
                _, report = worker.read(leaf, await worker.execute(task))
                assert str(gone) in str(report["unreadable"])
            else:
                with pytest.raises(ExecutionFailedError, match=gone.name):
                    await worker.execute(task)
                worker.check_that_nothing_is_left()

    asyncio.run(story())


def _breaking(error: Exception) -> Callable[..., object]:
    def break_(*_: object) -> object:
        raise error

    return break_


def test_a_mistake_in_a_function_fails_the_work_for_good_under_its_name_and_is_logged_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with leaf_worker(tmp_path, FEW) as worker:
            await worker.put()
            monkeypatch.setattr(range_functions, "over_windows", _breaking(ZeroDivisionError("division by zero")))
            _, task = await worker.planned("sum(rate(m[5m]))")
            with pytest.raises(ExecutionFailedError) as failed:
                await worker.execute(task)
            error = failed.value.error
            assert (error.code, error.retryable) == (ErrorCode.INTERNAL, False)
            assert "rate failed with ZeroDivisionError: division by zero" in error.message
            worker.check_that_nothing_is_left()

    asyncio.run(story())
    (record,) = [record for record in caplog.records if "met a defect" in record.message]
    assert "sum(rate(m[5m]))" in record.message
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], DefectError)
    assert isinstance(record.exc_info[1].__cause__, ZeroDivisionError)


def test_a_mistake_while_an_answer_is_written_is_a_defect_of_the_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with leaf_worker(tmp_path, FEW) as worker:
            await worker.put()
            monkeypatch.setattr(LeafWriter, "write", _breaking(AttributeError("no such thing")))
            _, task = await worker.planned("m")
            with pytest.raises(ExecutionFailedError, match="a leaf failed with AttributeError") as failed:
                await worker.execute(task)
            assert not failed.value.error.retryable

    asyncio.run(story())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_what_the_system_refuses_is_no_defect_and_another_attempt_may_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def story() -> None:
        async with leaf_worker(tmp_path, FEW) as worker:
            await worker.put()
            monkeypatch.setattr(range_functions, "over_windows", _breaking(error))
            _, task = await worker.planned("rate(m[5m])")
            with pytest.raises(type(error)):
                await worker.execute(task)
            worker.check_that_nothing_is_left()

    asyncio.run(story())

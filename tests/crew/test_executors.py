"""Executions in threads: how they end, and that they have ended when they say so."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import ENDED, Artifact, AttemptId, Ended, WorkError, WorkKey, WorkSpec
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.crew.artifacts.writer import RowSink
from quarterdeck.crew.executors import Execution, Executors, KindExecutor
from quarterdeck.crew.ports import ExecutionFailedError, Executor
from quarterdeck.stores.disk import DiskBudget, DiskFullError, DiskLimits
from tests.patience import PATIENCE_S

LEAF, SCAN = WorkKind("leaf"), WorkKind("scan")
MIB = 1 << 20
pa: Any = _pyarrow
ROW: Any = pa.record_batch({"answer": [42]})
ARTIFACT = Artifact("http://w/a", 1, "xxh3_128:0", 1, 0, 0, 1)


def work(number: int = 1, kind: WorkKind = SCAN) -> tuple[AttemptId, WorkSpec]:
    key = WorkKey(QueryId("q"), LeafId("l"), WorkId(f"w{number}"))
    return AttemptId(key, 1), WorkSpec(key, kind)


def ignore_progress(fraction: float) -> None:
    pass


def finish(execution: Execution) -> Artifact:
    return ARTIFACT


def until_canceled(execution: Execution) -> Artifact:
    stop = threading.Event()
    with execution.token.on_cancel(stop.set):
        assert stop.wait(PATIENCE_S)
    execution.token.check()
    return ARTIFACT


def write_row(sink: RowSink) -> None:
    sink.open(ROW.schema, None)
    sink.write(ROW)


@dataclass
class Kind:
    """Runs a function in a thread."""

    function: Callable[[Execution], Artifact] = finish
    prepare: Callable[[Execution], Awaitable[object]] | None = None
    started: threading.Event = field(default_factory=threading.Event)
    warmed: int = 0

    async def warm_up(self) -> None:
        self.warmed += 1

    async def execute(self, execution: Execution) -> Artifact | Ended:
        if self.prepare is not None:
            await self.prepare(execution)
        return await execution.run_in_thread(lambda: self._run(execution))

    def _run(self, execution: Execution) -> Artifact:
        self.started.set()
        return self.function(execution)


def written_before(function: Callable[[Execution], Artifact]) -> Kind:
    """Has written its artifact when the function runs."""
    return Kind(function, prepare=lambda execution: execution.write(write_row))


class WatchedSpool(ArtifactSpool):
    """A real one, that remembers what was dropped with more effort than forgetting it."""

    def __init__(self, folder: Path, *, memory_limit_bytes: int) -> None:
        budget = DiskBudget(folder, DiskLimits(256 * MIB, step_bytes=MIB))
        super().__init__(
            folder / "artifacts", budget, lambda: "http://w:1", lambda _: None, memory_limit_bytes=memory_limit_bytes
        )
        self.dropped: list[AttemptId] = []
        self.drop_error: Exception | None = None

    def drop(self, attempt: AttemptId) -> None:
        if self.drop_error is not None:
            raise self.drop_error
        self.dropped.append(attempt)
        super().drop(attempt)


@contextmanager
def spool_of_files(memory_limit_bytes: int = 0) -> Generator[WatchedSpool]:
    with TemporaryDirectory() as folder:
        spool = WatchedSpool(Path(folder), memory_limit_bytes=memory_limit_bytes)
        spool.recover()
        yield spool


def play(
    kind: KindExecutor,
    scene: Callable[[Executors], Awaitable[None]],
    *,
    slots: int = 2,
    on_finished: Callable[[WorkKind, float, Outcome], None] | None = None,
    spool: ArtifactSpool | None = None,
) -> None:
    async def main(spool: ArtifactSpool) -> None:
        executors = Executors({SCAN: kind}, spool, slots, on_finished)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await scene(executors)
        finally:
            assert await executors.close(timeout_s=PATIENCE_S)

    with spool_of_files() as other:
        asyncio.run(main(other if spool is None else spool))


def begin(executor: Executor, number: int = 1) -> "asyncio.Task[Artifact | Ended]":
    return asyncio.create_task(executor.execute(*work(number), ignore_progress))


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - threads make it true, and they have no asyncio events
        await asyncio.sleep(0.001)


def test_a_work_runs_in_a_thread_and_its_artifact_is_the_result() -> None:
    threads = list[threading.Thread]()

    def note_thread(execution: Execution) -> Artifact:
        threads.append(threading.current_thread())
        return ARTIFACT

    async def scene(executors: Executors) -> None:
        assert await begin(executors) == ARTIFACT

    play(Kind(note_thread), scene)
    assert threads[0] is not threading.main_thread()


def test_the_thread_sees_the_context_of_the_task() -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    seen = list[str]()

    def look(execution: Execution) -> Artifact:
        seen.append(variable.get())
        return ARTIFACT

    async def scene(executors: Executors) -> None:
        variable.set("inside")
        await begin(executors)

    play(Kind(look), scene)
    assert seen == ["inside"]


def test_a_kind_that_nobody_serves_fails_for_good() -> None:
    async def scene(executors: Executors) -> None:
        with pytest.raises(ExecutionFailedError) as caught:
            await executors.execute(*work(kind=LEAF), ignore_progress)
        assert not caught.value.error.retryable
        assert "no executor for leaf (it has: scan)" in caught.value.error.message

    play(Kind(), scene)


@pytest.mark.parametrize(
    "error",
    [
        QuarterdeckError(ErrorCode.WORK_FAILED, "it failed", "no column x", "name another"),
        QuarterdeckError(ErrorCode.WORK_FAILED, "it failed", "for now", "try again", retryable=True),
        DiskFullError(ErrorCode.RESOURCE_EXHAUSTED, "no room", "the disk is full", "free some"),
    ],
)
def test_an_error_keeps_its_code_its_message_and_whether_retrying_helps(error: QuarterdeckError) -> None:
    def fail(execution: Execution) -> Artifact:
        raise error

    async def scene(executors: Executors) -> None:
        with pytest.raises(ExecutionFailedError) as caught:
            await begin(executors)
        assert caught.value.error == WorkError(error.code, error.message, error.retryable)

    play(Kind(fail), scene)


def test_an_error_that_quotes_everything_is_cut() -> None:
    def fail(execution: Execution) -> Artifact:
        raise QuarterdeckError(ErrorCode.WORK_FAILED, "it failed", "x" * 1_000_000, "quote less")

    async def scene(executors: Executors) -> None:
        with pytest.raises(ExecutionFailedError) as caught:
            await begin(executors)
        assert len(caught.value.error.message) == 4_000

    play(Kind(fail), scene)


def test_an_error_that_nobody_meant_to_raise_is_passed_on_as_it_is() -> None:
    def fail(execution: Execution) -> Artifact:
        raise ZeroDivisionError

    async def scene(executors: Executors) -> None:
        with pytest.raises(ZeroDivisionError):
            await begin(executors)

    play(Kind(fail), scene)


def test_no_more_works_run_at_once_than_there_are_slots() -> None:
    together = threading.Barrier(3)
    lock = threading.Lock()
    running, most = 0, 0

    def count(execution: Execution) -> Artifact:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(PATIENCE_S)
        with lock:
            running -= 1
        return ARTIFACT

    async def scene(executors: Executors) -> None:
        await asyncio.gather(*(begin(executors, number) for number in range(12)))

    play(Kind(count), scene, slots=3)
    assert most == 3


def test_a_cancel_is_passed_on_only_when_the_thread_has_ended() -> None:
    may_end, ended = threading.Event(), threading.Event()

    def end_late(execution: Execution) -> Artifact:
        assert may_end.wait(PATIENCE_S)
        ended.set()
        execution.token.check()
        return ARTIFACT

    kind = Kind(end_late)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(kind.started.is_set)
        for _ in range(3):  # however often it is said
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=0.02)
            assert not done
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    play(kind, scene)


def test_canceling_is_repeated_until_the_thread_has_ended() -> None:
    interrupts, heard = threading.Semaphore(0), list[bool]()

    def miss_two_interrupts(execution: Execution) -> Artifact:
        with execution.token.on_cancel(interrupts.release):
            heard.extend(interrupts.acquire(timeout=2.0) for _ in range(3))
        execution.token.check()
        return ARTIFACT

    kind = Kind(miss_two_interrupts)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(kind.started.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(kind, scene)
    assert heard == [True, True, True]


def test_a_work_that_is_canceled_while_it_waits_for_a_thread_never_runs() -> None:
    ran = list[AttemptId]()

    def note(execution: Execution) -> Artifact:
        ran.append(execution.attempt)
        return until_canceled(execution)

    kind = Kind(note)

    async def scene(executors: Executors) -> None:
        first = begin(executors, 1)
        await wait_until(kind.started.is_set)
        second = begin(executors, 2)
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first

    play(kind, scene, slots=1)
    assert ran == [work(1)[0]]


def test_a_result_that_was_finished_in_the_moment_of_the_cancel_is_dropped() -> None:
    def finish_all_the_same(execution: Execution) -> Artifact:
        stop = threading.Event()
        with execution.token.on_cancel(stop.set):
            assert stop.wait(PATIENCE_S)
        return ARTIFACT

    kind = written_before(finish_all_the_same)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(kind.started.is_set)
        assert len(spool) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(spool) == 0
        assert spool.dropped == [work()[0]]

    with spool_of_files() as spool:
        play(kind, scene, spool=spool)


def test_a_drop_that_fails_after_a_cancel_is_not_hidden() -> None:
    kind = written_before(until_canceled)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(kind.started.is_set)
        task.cancel()
        with pytest.raises(OSError, match="read-only"):
            await task

    with spool_of_files() as spool:
        spool.drop_error = OSError("read-only file system")
        play(kind, scene, spool=spool)


@pytest.mark.parametrize(
    "error", [QuarterdeckError(ErrorCode.WORK_FAILED, "it failed", "after all", "do not"), ZeroDivisionError()]
)
def test_what_fails_after_it_has_written_leaves_nothing(error: Exception) -> None:
    def fail(execution: Execution) -> Artifact:
        raise error

    async def scene(executors: Executors) -> None:
        with pytest.raises((ExecutionFailedError, ZeroDivisionError)):
            await begin(executors)
        assert len(spool) == 0
        assert spool.dropped == [work()[0]]

    with spool_of_files() as spool:
        play(written_before(fail), scene, spool=spool)


@pytest.mark.parametrize("leaves_nothing", [False, True])
def test_a_work_ends_as_it_was_to_end_or_fails_for_good_and_leaves_nothing(leaves_nothing: bool) -> None:
    class Both(Kind):
        ends: bool = leaves_nothing

        async def execute(self, execution: Execution) -> Artifact | Ended:
            artifact = await execution.write(write_row)
            return ENDED if self.ends else artifact

    async def scene(executors: Executors) -> None:
        attempt, spec = work()
        spec = replace(spec, leaves_nothing=leaves_nothing)
        end = await executors.execute(attempt, spec, ignore_progress)
        assert isinstance(end, Ended) is leaves_nothing
        await executors.drop(attempt)
        kind.ends = not leaves_nothing
        with pytest.raises(ExecutionFailedError, match="it was to leave") as caught:
            await executors.execute(attempt, spec, ignore_progress)
        assert (caught.value.error.code, caught.value.error.retryable) == (ErrorCode.INTERNAL, False)
        assert len(spool) == 0

    kind = Both()
    with spool_of_files() as spool:
        play(kind, scene, spool=spool)


def test_rows_become_an_artifact_that_can_be_fetched_until_it_is_dropped() -> None:
    class Rows(Kind):
        async def execute(self, execution: Execution) -> Artifact:
            return await execution.write(write_row)

    async def scene(executors: Executors) -> None:
        artifact = await begin(executors)
        assert isinstance(artifact, Artifact)
        assert artifact.row_count == 1
        assert spool.find(artifact.url.rpartition("/")[2]) is not None
        await executors.drop(work()[0])
        assert len(spool) == 0

    with spool_of_files() as spool:
        play(Rows(), scene, spool=spool)


def test_rows_that_break_off_leave_nothing_and_others_may_be_written_instead() -> None:
    def break_off(sink: RowSink) -> None:
        write_row(sink)
        raise KeyError("row 2")

    class Twice(Kind):
        async def execute(self, execution: Execution) -> Artifact:
            try:
                return await execution.write(break_off)
            except KeyError:
                assert len(spool) == 0
                return await execution.write(write_row)

    async def scene(executors: Executors) -> None:
        artifact = await begin(executors)
        assert isinstance(artifact, Artifact)
        assert artifact.row_count == 1
        assert len(spool) == 1

    with spool_of_files() as spool:
        play(Twice(), scene, spool=spool)


def test_rows_that_are_complete_in_the_moment_of_the_cancel_are_no_artifact() -> None:
    writing = threading.Event()

    def write_late(sink: RowSink) -> None:
        write_row(sink)
        writing.set()
        assert tokens[0].wait(PATIENCE_S)

    tokens: list[threading.Event] = []

    class Late(Kind):
        async def execute(self, execution: Execution) -> Artifact:
            tokens.append(threading.Event())
            with execution.token.on_cancel(tokens[0].set):
                return await execution.write(write_late)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(writing.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(spool) == 0
        assert spool.dropped == []

    with spool_of_files() as spool:
        play(Late(), scene, spool=spool)


def test_a_cancel_during_the_preparation_stops_it_there() -> None:
    preparing, cleaned_up = asyncio.Event(), list[bool]()

    async def prepare(execution: Execution) -> None:
        try:
            preparing.set()
            await asyncio.Event().wait()
        finally:
            cleaned_up.append(True)

    kind = Kind(prepare=prepare)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await preparing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(kind, scene)
    assert cleaned_up
    assert not kind.started.is_set()


def test_progress_reaches_the_loop_and_not_more_than_ten_times_a_second() -> None:
    seen = list[tuple[float, threading.Thread]]()
    took_s = 0.0

    def tell_often(execution: Execution) -> Artifact:
        nonlocal took_s
        began_s = time.monotonic()
        for step in range(20_000):
            execution.progress(step / 20_000)
        took_s = time.monotonic() - began_s
        return ARTIFACT

    async def scene(executors: Executors) -> None:
        await executors.execute(*work(), lambda fraction: seen.append((fraction, threading.current_thread())))

    play(Kind(tell_often), scene)
    assert seen[0] == (0.0, threading.main_thread())
    assert len(seen) <= 1 + took_s / 0.1


def test_a_canceled_work_tells_no_progress() -> None:
    seen = list[float]()

    def tell_late(execution: Execution) -> Artifact:
        try:
            return until_canceled(execution)
        finally:
            execution.progress(1.0)

    kind = Kind(tell_late)

    async def scene(executors: Executors) -> None:
        task = asyncio.create_task(executors.execute(*work(), seen.append))
        await wait_until(kind.started.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(kind, scene)
    assert not seen


def test_every_end_is_counted_and_timed() -> None:
    ends = list[tuple[WorkKind, Outcome]]()

    def note(kind: WorkKind, seconds: float, outcome: Outcome) -> None:
        assert 0 <= seconds < PATIENCE_S
        ends.append((kind, outcome))

    def do(execution: Execution) -> Artifact:
        match execution.attempt.key.work_id:
            case "w1":
                return ARTIFACT
            case "w2":
                raise QuarterdeckError(ErrorCode.WORK_FAILED, "it failed", "so", "do not")
            case _:
                return until_canceled(execution)

    kind = Kind(do)

    async def scene(executors: Executors) -> None:
        await begin(executors, 1)
        with pytest.raises(ExecutionFailedError):
            await begin(executors, 2)
        kind.started.clear()
        third = begin(executors, 3)
        await wait_until(kind.started.is_set)
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third

    play(kind, scene, on_finished=note)
    outcomes = [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELED]
    assert ends == [(SCAN, outcome) for outcome in outcomes]


def test_an_executor_of_two_kinds_is_warmed_up_once() -> None:
    kind = Kind()

    async def main(spool: ArtifactSpool) -> None:
        executors = Executors({SCAN: kind, LEAF: kind}, spool, slots=1)
        await executors.warm_up()
        assert await executors.close(timeout_s=PATIENCE_S)

    with spool_of_files() as spool:
        asyncio.run(main(spool))
    assert kind.warmed == 1


def test_a_leaf_has_a_thread_beside_a_scan_that_has_the_only_slot() -> None:
    scan, light = Kind(until_canceled), Kind()

    async def main(spool: ArtifactSpool) -> None:
        executors = Executors({SCAN: scan, LEAF: light}, spool, slots=1)
        async with asyncio.timeout(PATIENCE_S):
            long = begin(executors)
            await wait_until(scan.started.is_set)
            assert await executors.execute(*work(2, LEAF), ignore_progress) == ARTIFACT
            long.cancel()
            await asyncio.wait([long])
        assert await executors.close(timeout_s=PATIENCE_S)

    with spool_of_files() as spool:
        asyncio.run(main(spool))


@pytest.mark.parametrize("says", [True, False, None])
def test_an_error_that_says_so_tells_that_the_work_ended_its_engine(says: bool | None) -> None:
    error = QuarterdeckError(ErrorCode.UNAVAILABLE, "the work was not done", "its engine has died", "ask again")
    if says is not None:
        error.ended_its_engine = says  # pyright: ignore[reportAttributeAccessIssue] - as an engine's own error has it

    def die(execution: Execution) -> Artifact:
        raise error

    async def scene(executors: Executors) -> None:
        with pytest.raises(ExecutionFailedError) as caught:
            await begin(executors)
        assert caught.value.error.culprit is bool(says)

    play(Kind(die), scene)


def test_what_is_in_memory_alone_is_forgotten_and_needs_no_drop() -> None:
    async def scene(executors: Executors) -> None:
        await begin(executors)
        assert len(spool) == 1
        assert executors.forget(work()[0])
        assert len(spool) == 0

    with spool_of_files(memory_limit_bytes=MIB) as spool:
        play(written_before(finish), scene, spool=spool)
        assert spool.dropped == []


def test_a_drop_does_not_wait_for_a_slot() -> None:
    kind = Kind(until_canceled)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(kind.started.is_set)
        await executors.drop(work(2)[0])
        assert spool.dropped == [work(2)[0]]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with spool_of_files() as spool:
        play(kind, scene, slots=1, spool=spool)


def test_closing_cancels_what_runs_and_says_that_another_worker_may_run_it() -> None:
    kind = written_before(until_canceled)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(kind.started.is_set)
        assert await executors.close(timeout_s=PATIENCE_S)
        with pytest.raises(ExecutionFailedError) as caught:
            await task
        assert caught.value.error.code == ErrorCode.UNAVAILABLE
        assert caught.value.error.retryable
        assert len(spool) == 0
        assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("execute", "drop"))]
        with pytest.raises(ExecutionFailedError):
            await begin(executors)

    with spool_of_files() as spool:
        play(kind, scene, spool=spool)


def test_a_work_that_was_canceled_before_the_closing_ends_as_canceled() -> None:
    kind = Kind(until_canceled)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(kind.started.is_set)
        task.cancel()
        assert await executors.close(timeout_s=PATIENCE_S)
        with pytest.raises(asyncio.CancelledError):
            await task

    play(kind, scene)


def test_closing_does_not_wait_for_ever_and_says_so() -> None:
    may_end = threading.Event()

    def stay(execution: Execution) -> Artifact:
        assert may_end.wait(PATIENCE_S)
        execution.token.check()
        return ARTIFACT

    kind = written_before(stay)

    async def scene(executors: Executors) -> None:
        task = begin(executors)
        await wait_until(kind.started.is_set)
        assert not await executors.close(timeout_s=0.01)
        may_end.set()
        with pytest.raises(ExecutionFailedError):
            await task
        assert len(spool) == 0

    with spool_of_files() as spool:
        play(kind, scene, spool=spool)

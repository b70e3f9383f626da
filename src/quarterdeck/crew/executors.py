"""The worker's executor: one `KindExecutor` for each kind of work, the threads in which they compute, and the life of
the artifacts that they leave.

An execution has two phases, both inside `KindExecutor.execute`. What waits for the network is awaited on the event
loop. What computes goes through `Execution.run_in_thread` or `Execution.write`, for which there is a thread whenever
the machine gives a place: one for each slot, and one for each further kind, so that no kind waits for another. Canceled
in either, an execution has ended, thread included, and left nothing behind before the cancel is passed on: a slot that
is free is free.

A kind says which rows its answer has. The rest of an artifact's life is here: it is written, can be fetched, and goes
again. An execution that fails leaves nothing behind, whatever it had written.

It knows nothing of sessions, and nothing of what a kind does.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol, TypeVar

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import Artifact, AttemptId, Ended, WorkError, WorkSpec
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.crew.artifacts.writer import RowSink
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.crew.ports import ExecutionFailedError
from quarterdeck.stores.threads import in_thread
from quarterdeck.telemetry.traces import span

T = TypeVar("T")

_PROGRESS_INTERVAL_S: Final = 0.1
"""A person sees no more than this, and every report is a message to a coordinator."""
_MAX_WORDS: Final = 4_000
"""Characters of an error, as many as travel: it is logged before that, on the event loop."""


class Execution:
    """One attempt, as the executor of its kind sees it."""

    def __init__(
        self,
        attempt: AttemptId,
        spec: WorkSpec,
        progress: Callable[[float], None],
        pool: ThreadPoolExecutor,
        spool: ArtifactSpool,
    ) -> None:
        self.attempt: Final = attempt
        self.spec: Final = spec
        self.token: Final = CancelToken()
        self._tell = progress
        self._pool = pool
        self._spool = spool
        self._loop = asyncio.get_running_loop()
        self._last_progress_s = -_PROGRESS_INTERVAL_S

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """What it returns or raises. Canceled, it cancels the token and waits until the function has ended; a result
        that comes too late is lost."""
        return await in_thread(function, self._pool, self.token.cancel, may_be_skipped=True)

    async def write(self, fill: Callable[[RowSink], None]) -> Artifact:
        """The attempt's artifact, with the rows that `fill` gives to the sink, in a thread. It opens the sink once and
        stops soon after `token` is canceled. If it raises, nothing of it stays, and another `write` may follow."""
        return await self.run_in_thread(lambda: self._write(fill))

    def _write(self, fill: Callable[[RowSink], None]) -> Artifact:
        writer = self._spool.create(self.attempt)
        try:
            fill(writer)
            self.token.check()
            return writer.finish()
        finally:
            writer.abandon()  # nothing, once it is finished

    def progress(self, fraction: float) -> None:
        """From 0 to 1, from any thread and as often as is convenient: ten times a second somebody is told."""
        now_s = time.monotonic()
        if now_s - self._last_progress_s >= _PROGRESS_INTERVAL_S and not self.token.is_canceled:
            self._last_progress_s = now_s
            self._loop.call_soon_threadsafe(self._tell, fraction)


class KindExecutor(Protocol):
    """Does the work of one kind."""

    async def warm_up(self) -> None:
        """What the first work would have to wait for otherwise. Called once, before the worker takes any."""
        ...

    async def execute(self, execution: Execution) -> Artifact | Ended:
        """Does it and returns what `execution.write` returned, or `ENDED` if `execution.spec.leaves_nothing`; or raises
        a `QuarterdeckError`. The function it gives to `run_in_thread` stops soon after `execution.token` is canceled.

        An error with an attribute `ended_its_engine` that is True says that this work, and no other, ended the process
        of its engine: a work that does so twice is not tried again."""
        ...


class Executors:
    """Implements `crew.ports.Executor`."""

    def __init__(
        self,
        kinds: Mapping[WorkKind, KindExecutor],
        spool: ArtifactSpool,
        slots: int,
        on_finished: Callable[[WorkKind, float, Outcome], None] | None = None,
    ) -> None:
        """`on_finished` gets the seconds an execution took, waiting for a thread included."""
        self._kinds = dict(kinds)
        self._executors = tuple({id(executor): executor for executor in kinds.values()}.values())
        """Each once, though it may serve several kinds."""
        self._spool = spool
        self._on_finished = on_finished
        threads = slots + max(0, len(kinds) - 1)  # as many as `core.workcoord.load` lets run at once
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="execute")
        # Drops have a thread of their own, so that they never wait for an execution.
        self._drops = ThreadPoolExecutor(1, thread_name_prefix="drop")
        self._running: set[asyncio.Task[object]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @property
    def kinds(self) -> frozenset[WorkKind]:
        return frozenset(self._kinds)

    async def warm_up(self) -> None:
        async with asyncio.TaskGroup() as group:
            for executor in self._executors:
                group.create_task(executor.warm_up())

    async def execute(self, attempt: AttemptId, spec: WorkSpec, progress: Callable[[float], None]) -> Artifact | Ended:
        executor = self._kinds.get(spec.kind)
        if executor is None:
            served = ", ".join(sorted(self._kinds)) or "none"
            raise ExecutionFailedError(
                WorkError(
                    ErrorCode.INVALID_ARGUMENT,
                    f"work {attempt} was not run: this worker has no executor for {spec.kind} (it has: {served}); "
                    "start workers that do",
                    retryable=False,
                )
            )
        if self._closed:
            raise _stopping(attempt)
        started_s = time.monotonic()
        outcome = Outcome.FAILED
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self._idle.clear()
        try:
            key = attempt.key
            with span("execute", query_id=key.query_id, work_id=key.work_id, kind=spec.kind):
                end = await executor.execute(Execution(attempt, spec, progress, self._pool, self._spool))
            if isinstance(end, Ended) is not spec.leaves_nothing:
                raise _ended_otherwise(attempt, spec)
            outcome = Outcome.SUCCEEDED
        except asyncio.CancelledError:
            outcome = Outcome.CANCELED
            await self._leave_nothing(attempt)  # it may have finished in the moment in which it was canceled
            if self._closed and task.uncancel() == 0:  # canceled by `close`, and by nobody else
                raise _stopping(attempt) from None
            raise
        except QuarterdeckError as error:
            await self._leave_nothing(attempt)
            culprit = getattr(error, "ended_its_engine", False) is True
            words = error.message[:_MAX_WORDS]
            raise ExecutionFailedError(WorkError(error.code, words, error.retryable, culprit)) from error
        except Exception:
            await self._leave_nothing(attempt)
            raise
        finally:
            self._running.discard(task)
            if not self._running:
                self._idle.set()
            if self._on_finished is not None:
                self._on_finished(spec.kind, time.monotonic() - started_s, outcome)
        return end

    def release(self, attempt: AttemptId) -> None:
        self._spool.acknowledged(attempt)

    def forget(self, attempt: AttemptId) -> bool:
        return self._spool.forget(attempt)

    async def drop(self, attempt: AttemptId) -> None:
        await in_thread(partial(self._spool.drop, attempt), self._drops)

    async def _leave_nothing(self, attempt: AttemptId) -> None:
        """Of an execution that has not succeeded."""
        if not self._spool.forget(attempt):
            await self.drop(attempt)

    async def close(self, timeout_s: float) -> bool:
        """Cancels what runs and ends the threads; whether all have ended in time. One that has not ends by itself, or
        with the process."""
        self._closed = True
        for task in self._running:
            task.cancel()
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            self._pool.shutdown(wait=False, cancel_futures=True)
            return False  # the thread for drops stays: who is late still has to clean up
        await asyncio.to_thread(self._end_threads)
        return True

    def _end_threads(self) -> None:
        self._pool.shutdown()
        self._drops.shutdown()


def _stopping(attempt: AttemptId) -> ExecutionFailedError:
    return ExecutionFailedError(
        WorkError(ErrorCode.UNAVAILABLE, f"work {attempt} was not run: its worker is stopping; another one may run it")
    )


def _ended_otherwise(attempt: AttemptId, spec: WorkSpec) -> QuarterdeckError:
    expected, was = ("nothing", "an artifact") if spec.leaves_nothing else ("an artifact", "nothing")
    return QuarterdeckError(
        ErrorCode.INTERNAL,
        f"work {attempt} was not done",
        f"it was to leave {expected}, and the executor of {spec.kind} left {was}",
        "report it: an executor ended otherwise than its work says",
        retryable=False,
    )

"""A query that was refused, canceled or timed out is gone at once: nothing of it waits for the garbage collector."""

import asyncio
import gc
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.observers.timelines import Timelines
from quarterdeck.metrics.api import parameters as pm
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.promql.blocks import SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.flow.evalflow import EvalFlow
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.kernels.warm import warm
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.routes import QueryTimedOutError, run_query
from quarterdeck.metrics.running_query import QueryRequest, RunningQuery
from quarterdeck.metrics.service import MetricsService, QueryOptions
from tests.e2e.crew import until
from tests.e2e.samples import Samples
from tests.metrics.leaf_worker import LIMITS, leaf_worker
from tests.metrics.test_service import Known

HELD = (VectorBlock, SeriesBlock, Context, EvalFlow, RunningQuery)
HEAVY = "max_over_time((vector(1) * 2)[1d:1s])"
LONG = "vector(time())"


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    warm()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation goes on until it is told to stop."""

    def stand(self: EvalFlow) -> int:
        block, context = VectorBlock.empty(1), self._context  # pyright: ignore[reportPrivateUsage]
        while not context.should_stop():
            time.sleep(0.001)
        context.check_stop()
        raise AssertionError(f"it was not stopped at {block}")

    monkeypatch.setattr(EvalFlow, "_steps_at_once", stand)


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def census() -> "Counter[str]":
    # By its own type: to ask a weak proxy of another test for its class is to ask what may be gone.
    return Counter(type(one).__name__ for one in gc.get_objects() if issubclass(type(one), HELD))


async def check_that_nothing_stays(ask: Callable[[], Awaitable[None]]) -> None:
    """The first time caches are filled, such as those of plans."""
    await ask()
    await asyncio.sleep(0)
    before = census()
    await ask()
    await asyncio.sleep(0)  # the loop itself has the last future until the callback has ended that woke us
    # A thread of the pool may be about to let go of what it has just handed over.
    await asyncio.to_thread(until, lambda: census() <= before, "nothing is left of the query", 10.0)


@asynccontextmanager
async def service(memory_bytes: int) -> AsyncGenerator[MetricsService]:
    clock, nobody = MonotonicClock(), cast("Any", None)
    options = QueryOptions(at_once=2, limits=Limits(memory_bytes=memory_bytes))
    catalog = cast("Catalog", cast("Any", Known()))
    queries = MetricsService(nobody, catalog, RandomIds(), clock, Timelines(clock), options)
    queries.warmed.set()
    try:
        yield queries
    finally:
        queries.end()


async def ask(
    queries: MetricsService, text: str, step_ms: int = 0, begun: asyncio.Event | None = None, **conditions: str
) -> None:
    request = QueryRequest(text, 0, 3600 * step_ms, step_ms)
    form = {name: [value] for name, value in conditions.items()}
    begun = begun or asyncio.Event()
    with ExitStack() as held:
        await run_query(queries, request, pm.conditions_of(form), lambda query_id: begun.set(), held)


@pytest.mark.parametrize(
    ("text", "error"), [(HEAVY, LimitExceeded), ('label_replace(vector(1), "x", "y", "z", "(")', ExecutionError)]
)
def test_nothing_stays_of_a_query_that_was_refused(text: str, error: type[QuarterdeckError]) -> None:
    async def refuse() -> None:
        async with service(1 << 20) as queries:

            async def refused() -> None:
                try:
                    await ask(queries, text)
                except error:
                    return
                raise AssertionError("it was answered")

            await check_that_nothing_stays(refused)

    asyncio.run(refuse())


def test_nothing_stays_of_a_query_whose_time_was_over(endless: None) -> None:
    async def time_out() -> None:
        async with service(1 << 30) as queries:

            async def timed_out() -> None:
                try:
                    await ask(queries, LONG, 1000, timeout="100ms")
                except QueryTimedOutError:
                    return
                raise AssertionError("it was answered")

            await check_that_nothing_stays(timed_out)

    asyncio.run(time_out())


def test_nothing_stays_of_a_query_that_was_canceled(endless: None) -> None:
    async def cancel() -> None:
        async with service(1 << 30) as queries:

            async def canceled() -> None:
                begun = asyncio.Event()
                asking = asyncio.create_task(ask(queries, LONG, 1000, begun))
                await begun.wait()
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking

            await check_that_nothing_stays(canceled)

    asyncio.run(cancel())


def test_nothing_stays_on_a_worker_of_a_leaf_that_was_refused(tmp_path: Path) -> None:
    async def refuse() -> None:
        async with leaf_worker(tmp_path, Samples("m", 200, 400)) as worker:
            await worker.put()
            limits = replace(LIMITS, memory_bytes=1 << 18)
            leaf, task = await worker.planned("m * 2", step_ms=15_000, limits=limits)

            async def refused() -> None:
                report = worker.read(leaf, await worker.execute(task))[1]
                assert report["refused"] == "limit"

            await check_that_nothing_stays(refused)

    asyncio.run(refuse())


def test_nothing_stays_on_a_worker_of_a_leaf_that_was_canceled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()
    run = Threads.run

    async def cancel() -> None:
        loop = asyncio.get_running_loop()

        def watched(self: Threads, *arguments: Any) -> None:
            loop.call_soon_threadsafe(begun.set)
            run(self, *arguments)

        monkeypatch.setattr(Threads, "run", watched)
        async with leaf_worker(tmp_path, Samples("m", 200, 400)) as worker:
            await worker.put()
            _, task = await worker.planned("quantile_over_time(0.5, m[1h])", step_ms=20)

            async def canceled() -> None:
                begun.clear()
                executing = asyncio.create_task(worker.execute(task))
                await begun.wait()
                executing.cancel()
                with suppress(asyncio.CancelledError):
                    await executing
                assert executing.cancelled()

            await check_that_nothing_stays(canceled)

    asyncio.run(cancel())

"""Queries on the coordinator: a text becomes a plan, its leaves become works, and what comes back is evaluated.

There is one way for all queries. The coordinator waits until every work of every leaf is here, then evaluates what is
left of the plan in a thread, block by block. Nothing is written down: who leaves a running query cancels it on every
worker.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    aclosing,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeVar

from quarterdeck.core.ids import LeafId, WorkId
from quarterdeck.core.workcoord.model import WorkKey, WorkSpec
from quarterdeck.crew.admission import Admission
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.clocks import RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.harvest import Harvest, Window
from quarterdeck.crew.observers.timelines import Timelines
from quarterdeck.crew.ports import Clock
from quarterdeck.crew.process.memory_budget import FREE_BYTES, MemoryBudget
from quarterdeck.crew.query_log import AskedQuery, QueryLog
from quarterdeck.http.watched import OpenAnswers
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.memory_share import MemoryShare
from quarterdeck.metrics.model import LEAF, METRICS_QUERY
from quarterdeck.metrics.planning import WORK_ROWS, Division, Selection, divide, selections_of
from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.errors import LimitExceeded
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.flow.evalflow import EvalFlow, LeafStream
from quarterdeck.metrics.promql.flow.leaf import LeafBlock, evaluate_leaf
from quarterdeck.metrics.promql.kernels.threads import Stopped, Threads
from quarterdeck.metrics.promql.limits import Limits, Memory
from quarterdeck.metrics.promql.memory import MemorySource
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan, plan_query
from quarterdeck.metrics.promql.plan.rules.check_times import check_range, check_windows
from quarterdeck.metrics.promql.result import Result
from quarterdeck.metrics.running_query import PlannedWork, QueryRequest, RunningQuery
from quarterdeck.metrics.tasks import LeafTask, QueryTimes, WorkLimits, encode_task
from quarterdeck.metrics.transfer.leaf_blocks import LeafReader
from quarterdeck.metrics.transfer.refusals import raise_refusal
from quarterdeck.metrics.universe import Universe
from quarterdeck.metrics.weight import is_light
from quarterdeck.stores.threads import in_thread

T = TypeVar("T")

_SHORT_TEXT: Final = 2_000
"""Queries up to so many characters are planned on the event loop: a thread would take longer to come than that."""
_FEW_SEGMENTS: Final = 16
"""What is done for each of so many segments is done on the event loop; a label index takes up to 2 ms to be decoded and
searched by a regular expression."""
_AT_ONCE: Final = "metrics.queries_at_once"
_EMPTY: Final = MemorySource(SeriesBlock.empty())


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How all queries of a coordinator are run."""

    timeout_s: float = 120.0
    at_once: int = 20
    wait_limit_s: float = 30.0
    """How long a work may wait while no worker at all takes it."""
    lookback_ms: int = 300_000
    default_subquery_step_ms: int = 60_000
    limits: Limits = field(default_factory=Limits)
    max_samples: int = 200_000_000
    max_series: int = 1_000_000
    result_bytes: int = 4 << 30
    """What the results of all works of one query may take, before they are evaluated."""
    threads: int = 2
    work_rows: int = WORK_ROWS
    """About how many rows one work reads."""


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A query that was found light."""

    plan: QueryPlan
    universe: Universe
    divisions: tuple[Division, ...]


class MetricsService:
    """See the module."""

    def __init__(
        self,
        driver: CoordinatorDriver[FetchedArtifact],
        catalog: Catalog,
        ids: RandomIds,
        clock: Clock,
        timelines: Timelines,
        options: QueryOptions,
        budget: MemoryBudget | None = None,
        log: QueryLog | None = None,
    ) -> None:
        """`budget` is the memory that all queries share; without it each has its own limit only. `log` remembers the
        queries of the process."""
        self.options: Final = options
        self.log: Final = log or QueryLog(clock)
        self.budget: Final = budget or MemoryBudget()
        self.catalog: Final = catalog
        self.admission: Final = Admission(options.at_once, clock, what="query", setting=_AT_ONCE)
        self.light_admission: Final = Admission(options.at_once, clock, what="query", setting=_AT_ONCE)
        """The places of light queries, for when the others are taken."""
        self._driver = driver
        self._ids = ids
        self._clock = clock
        self._timelines = timelines
        self._threads = Threads(options.threads)
        # One for each query that may run, and for each one that is being sent.
        self._pool = ThreadPoolExecutor(2 * options.at_once, thread_name_prefix="evaluate")
        self._evaluating: Final = asyncio.Semaphore(options.threads)
        self._rendering: Final = asyncio.Semaphore(options.threads)
        """The turns of what is not light."""
        self.warmed: Final = asyncio.Event()
        """Whoever has seen to it that compiled code is loaded sets this; until then queries wait."""
        self.open_answers: Final = OpenAnswers()

    @property
    def running(self) -> int:
        return self.admission.running + self.light_admission.running

    @property
    def queued(self) -> int:
        """Those that wait for their turn."""
        return self.admission.depth + self.light_admission.depth

    @property
    def oldest_s(self) -> float:
        """How long the one has waited that has waited longest."""
        return max(self.admission.oldest_s, self.light_admission.oldest_s)

    def close(self) -> None:
        """No new queries: the process is on its way out. Those in line keep their place."""
        self.admission.close()
        self.light_admission.close()

    def end(self) -> None:
        """Ends the threads, when no query runs any more."""
        self._threads.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, function: Callable[[], T], stopped: threading.Event | None = None) -> T:
        """Evaluates or renders something. Canceled, it ends soon, and has ended when this returns."""
        return await in_thread(function, self._pool, None if stopped is None else stopped.set)

    async def over(self, universe: Universe, function: Callable[[], T]) -> T:
        """Does what takes a moment for each segment: at once where they are few, else in a thread."""
        return function() if len(universe.segments) <= _FEW_SEGMENTS else await self.in_thread(function)

    def asked(self, request: QueryRequest) -> AskedQuery:
        """A query that is to be opened: people see it from now on."""
        return self.log.asked(self._ids.query_id(), METRICS_QUERY, request.text, request.tenant)

    async def selections(self, request: QueryRequest, at_most: int) -> list[Selection]:
        """What the selectors of a query look for, the first of them; nothing is read."""
        await self.warmed.wait()
        plan = await self._plan(request)
        lookback_ms = self._lookback_ms(request)
        each = (one for leaf in plan.leaves for one in selections_of(leaf, lookback_ms, plan.instant))
        return await self.in_thread(lambda: list(islice(each, at_most)))

    @asynccontextmanager
    async def opened(self, request: QueryRequest, asked: AskedQuery | None = None) -> AsyncGenerator[RunningQuery]:
        """Runs all works of a query; it can be evaluated within the block. Leaving it cancels what is left. `asked` is
        what people see of it."""
        began_s = self._clock.now()
        async with AsyncExitStack() as stack:
            weighed = await self._weighed(request) if self.admission.is_full else None
            line = self.admission if weighed is None else self.light_admission
            queued_s = await stack.enter_async_context(line.admitted(self.options.timeout_s))
            if asked is not None:
                asked.begin()
            await self.warmed.wait()
            planning_s = self._clock.now()
            plan = await self._plan(request) if weighed is None else weighed.plan
            query_id = self._ids.query_id() if asked is None else asked.query_id
            running = RunningQuery(query_id, request, plan, began_s)
            running.phases.queued_s = queued_s
            stack.callback(running.let_go)
            stack.callback(running.stopped.set)
            await stack.enter_async_context(running.until_ended())
            share = stack.enter_context(self._share(running))
            if weighed is None:
                running.universe = await self.catalog.universe(request.tenant)
                await self.over(running.universe, lambda: self._divide(running))
            else:
                running.universe = weighed.universe
                self._divided(running, weighed.divisions)
            running.phases.planning_s = self._clock.now() - planning_s
            await self._run_works(running, stack)
            self._prepare(running, share)
            try:
                yield running
            except Stopped:
                if running.ended is None:
                    raise
                raise running.ended from None

    async def _weighed(self, request: QueryRequest) -> "_Weighed | None":
        """The plan of a light query; None of any other: it is planned when it has its turn, and holds nothing while it
        waits."""
        await self.warmed.wait()
        plan = await self._plan(request)
        universe = await self.catalog.universe(request.tenant)
        divisions = await self.over(universe, lambda: self._divisions(request, plan, universe))
        return _Weighed(plan, universe, divisions) if is_light(plan, divisions, _steps(request)) else None

    def _share(self, running: RunningQuery) -> MemoryShare:
        return MemoryShare(self.budget, running.query_id, running.request.text, running.end)

    def crew_of(self, tenant: str) -> str:
        """Whose workers do what a tenant asks for: its own if there are any, else those of the whole crew."""
        return self._driver.crew_of(tenant, LEAF)

    async def evaluated(self, running: RunningQuery) -> Result:
        """The whole answer of a query whose works are done."""
        began_s = self._clock.now()
        async with self.turn_of(running):
            result = await self.in_thread(running.result, running.stopped)
        running.phases.evaluating_s = self._clock.now() - began_s
        return result

    def keep(self, running: RunningQuery, result: Result, held: ExitStack) -> None:
        """An answer outlives its query while it is sent, and what it takes is on an account until `held` ends. The task
        that sends it is canceled, with the reason, if the memory is needed more urgently."""
        if result.size_bytes > FREE_BYTES:
            share = held.enter_context(self.share_of_this_task(running.query_id, running.request.text))
            share.draw(result.size_bytes)

    def share_of_this_task(self, query_id: str, text: str) -> MemoryShare:
        """An account of what this task has. The task is canceled if that is to end; `cut_off_by` knows why."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cut_off(error: LimitExceeded) -> None:
            loop.call_soon_threadsafe(task.cancel, error)

        return MemoryShare(self.budget, query_id, text, cut_off)

    def turn_of(self, running: RunningQuery) -> AbstractAsyncContextManager[None]:
        """The block evaluates some of a query. It waits for its turn, unless the query is light."""
        return nullcontext() if running.is_light else self._evaluating

    async def rendered(self, function: Callable[[], T], *, is_large: bool) -> T:
        """Writes down a piece of an answer, in a thread. Those of large answers wait for their turn."""
        async with self._rendering if is_large else nullcontext():
            return await self.in_thread(function)

    def now_s(self) -> float:
        """On the clock by which queries are timed."""
        return self._clock.now()

    # Planning

    async def _plan(self, request: QueryRequest) -> QueryPlan:
        limits = self.options.limits
        check_range(request.start_ms, request.end_ms, request.step_ms, limits.max_points)

        def plan() -> QueryPlan:
            step_ms = self.options.default_subquery_step_ms
            planned = plan_query(request.text, request.start_ms, request.end_ms, request.step_ms, step_ms)
            for part in (planned.plan, *(leaf.plan for leaf in planned.leaves)):
                check_windows(part, limits.memory_bytes)
            return planned

        return plan() if len(request.text) <= _SHORT_TEXT else await self.in_thread(plan)

    def _divisions(self, request: QueryRequest, plan: QueryPlan, universe: Universe) -> tuple[Division, ...]:
        lookback_ms = self._lookback_ms(request)
        selections = (selections_of(leaf, lookback_ms, plan.instant) for leaf in plan.leaves)
        return tuple(divide(universe, some, self.options.work_rows) for some in selections)

    def _divide(self, running: RunningQuery) -> None:
        self._divided(running, self._divisions(running.request, running.plan, running.universe))

    def _divided(self, running: RunningQuery, divisions: tuple[Division, ...]) -> None:
        plan = running.plan
        running.divisions = divisions
        running.is_light = is_light(plan, divisions, _steps(running.request))
        for number, (leaf, division) in enumerate(zip(plan.leaves, running.divisions, strict=True)):
            for place, work in enumerate(division.works):
                work_id = WorkId(f"{running.query_id}/{number}/{place}")
                key = WorkKey(running.query_id, LeafId(f"{number}-{leaf.id}"), work_id)
                running.works.append(PlannedWork(number, key, work))

    def _specs(self, running: RunningQuery) -> Iterator[WorkSpec]:
        request, options = running.request, self.options
        times = QueryTimes(
            request.start_ms,
            request.end_ms,
            request.step_ms,
            self._lookback_ms(request),
            options.default_subquery_step_ms,
        )
        limits = WorkLimits(
            options.limits.memory_bytes, options.max_samples, options.max_series, self._block_cells(running)
        )
        for work in running.works:
            leaf = running.plan.leaves[work.leaf]
            part, segments = work.shard_work.part, work.shard_work.segments
            partial = request.partial_allowed
            task = LeafTask(request.text, times, work.leaf, leaf.id, segments, part, limits, partial)
            yield WorkSpec(
                work.key,
                LEAF,
                encode_task(task),
                affinity_key=f"{request.tenant}/{work.shard_work.home}",
                tenant=self.crew_of(request.tenant),
                is_light=running.is_light,
            )

    def _lookback_ms(self, request: QueryRequest) -> int:
        return self.options.lookback_ms if request.lookback_ms is None else request.lookback_ms

    def _block_cells(self, running: RunningQuery) -> int:
        return self.options.limits.block_cells_of(max(1, len(running.works)))

    # Running

    async def _run_works(self, running: RunningQuery, stack: AsyncExitStack) -> None:
        """Gives out all works and waits for all results."""
        if not running.works:
            return
        if running.request.analyzed:
            running.timeline = self._timelines.follow(running.query_id)
            stack.callback(self._timelines.leave, running.query_id)
        began_s = self._clock.now()
        count = len(running.works)
        harvest = await stack.enter_async_context(
            Harvest(
                self._driver,
                running.query_id,
                self._specs(running),
                window=Window(count, self.options.result_bytes, first_works=count),
                size_of=lambda fetched: fetched.metadata.size_bytes,
                wait_limit_s=self.options.wait_limit_s,
            )
        )
        by_key = {work.key: work for work in running.works}
        share = stack.enter_context(self._share(running))
        stack.push_async_callback(self._release, running)
        total_bytes = here_bytes = 0
        async with aclosing(harvest.results()) as results:
            async for key, artifact in results:
                work = by_key[key]
                work.artifact, work.artifact_bytes = artifact, artifact.metadata.size_bytes
                total_bytes += work.artifact_bytes
                if total_bytes > self.options.result_bytes:
                    raise LimitExceeded(
                        f"its parts take more than {self.options.result_bytes:,} bytes together",
                        "ask for fewer series, a shorter range or a longer step",
                    )
                here_bytes += work.artifact_bytes if artifact.path is None else 0
                share.draw(here_bytes)
        running.phases.executing_s = self._clock.now() - began_s

    async def _release(self, running: RunningQuery) -> None:
        running.stopped.set()
        held = [work.artifact for work in running.works if work.artifact is not None]
        in_files = [artifact for artifact in held if artifact.path is not None]

        def release() -> None:
            for artifact in in_files:
                artifact.release()

        for artifact in held:
            if artifact.path is None:
                artifact.release()
        if in_files:
            await in_thread(release)

    def _prepare(self, running: RunningQuery, share: MemoryShare) -> None:
        """Results become streams of blocks, and these an evaluation. What has no segments at all is evaluated here,
        over no samples."""
        plan, options = running.plan, self.options
        memory = Memory(options.limits.memory_bytes, share)
        should_stop = running.stopped.is_set
        context = Context(
            self._threads.until(should_stop),
            memory,
            Notes(),
            self._lookback_ms(running.request),
            plan.instant,
            should_stop,
        )
        block_cells = self._block_cells(running)
        streams: list[LeafStream] = []
        readers: list[tuple[PlannedWork, LeafReader, Notes]] = []
        for number, leaf in enumerate(plan.leaves):
            notes = Notes()
            shards: list[Iterator[LeafBlock]] = []
            for work in running.works:
                if work.leaf == number and work.artifact is not None:
                    reader = LeafReader(leaf, work.artifact.read_batches(), memory)
                    readers.append((work, reader, notes))
                    shards.append(_checked(reader))
            if not shards:
                shards.append(evaluate_leaf(leaf, _EMPTY, replace(context, notes=notes), block_cells))
            streams.append(LeafStream(shards, notes))
        running.prepare(EvalFlow(plan, streams, context, block_cells), readers, memory)


def _steps(request: QueryRequest) -> int:
    return 1 if request.step_ms <= 0 else (request.end_ms - request.start_ms) // request.step_ms + 1


def cut_off_by(canceled: asyncio.CancelledError) -> LimitExceeded | None:
    """Why an answer is not to be made or sent any more, if that is what canceled this task; then it goes on."""
    reason: object = canceled.args[0] if canceled.args else None
    if not isinstance(reason, LimitExceeded):
        return None
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    return reason


def _checked(reader: LeafReader) -> Iterator[LeafBlock]:
    """The blocks of a work, unless what it answers is that the query cannot be answered."""
    yield from reader
    raise_refusal(reader.report)

"""Queries of one process share its memory: the largest goes, by name, and the small ones are answered."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from starlette.requests import Request
from starlette.types import Message

from quarterdeck.core.errors import ErrorCode
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.executors import ExecutionFailedError
from quarterdeck.crew.observers.timelines import Timelines
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.crew.process.memory_watch import MemoryWatch
from quarterdeck.metrics import series_service
from quarterdeck.metrics.api import parameters as pm
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.memory_share import MemoryShare
from quarterdeck.metrics.promql.blocks import Axis, SeriesBlock
from quarterdeck.metrics.promql.errors import LimitExceeded
from quarterdeck.metrics.promql.flow.evalflow import EvalFlow
from quarterdeck.metrics.promql.kernels.warm import warm
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.result import Result, Scalar
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.routes import PrometheusResponse, run_query
from quarterdeck.metrics.running_query import QueryRequest, RunningQuery
from quarterdeck.metrics.series_service import SeriesRequest, SeriesService
from quarterdeck.metrics.service import MetricsService, QueryOptions
from quarterdeck.metrics.tasks import LeafTask, SeriesTask
from tests.e2e.samples import Samples
from tests.metrics.leaf_worker import leaf_worker
from tests.metrics.test_service import Known

MIB = 1 << 20
HUGE = "max_over_time(vector(time())[30d:1s])"
"""Needs some 60 MiB."""


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    warm()


class Coordinator:
    """Queries without workers, and the memory that they share."""

    def __init__(self, queries: MetricsService, budget: MemoryBudget) -> None:
        self.queries = queries
        self.budget = budget
        self.names: dict[str, str] = {}

    async def ask(self, text: str) -> Result:
        request = QueryRequest(text, 0, 0, 0)
        with ExitStack() as held:
            return (
                await run_query(
                    self.queries, request, pm.conditions_of({}), lambda query_id: self._name(text, query_id), held
                )
            )[0]

    def _name(self, text: str, query_id: str) -> None:
        self.names[text] = query_id


@asynccontextmanager
async def coordinator(limit_bytes: int) -> AsyncGenerator[Coordinator]:
    clock, nobody = MonotonicClock(), cast("Any", None)
    budget = MemoryBudget(limit_bytes)
    catalog = cast("Catalog", cast("Any", Known()))
    queries = MetricsService(nobody, catalog, RandomIds(), clock, Timelines(clock), QueryOptions(at_once=4), budget)
    queries.warmed.set()
    try:
        yield Coordinator(queries, budget)
    finally:
        queries.end()
        assert budget.is_idle
        assert budget.used_bytes == 0


class Gate:
    """Holds up evaluations that have taken their memory, until they are let go or told to stop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, take_bytes: int) -> None:
        self.inside = threading.Event()
        self.opened = threading.Event()
        original = EvalFlow._steps_at_once  # pyright: ignore[reportPrivateUsage]

        def stand(flow: EvalFlow) -> int:
            context = flow._context  # pyright: ignore[reportPrivateUsage]
            if flow.query.text == HUGE:
                context.memory.hold(take_bytes)
                self.inside.set()
                while not self.opened.wait(0.001):
                    context.check_stop()
            return original(flow)

        monkeypatch.setattr(EvalFlow, "_steps_at_once", stand)


def test_a_query_beyond_what_is_left_is_refused_by_its_name() -> None:
    async def refuse() -> None:
        async with coordinator(20 * MIB) as here:
            with pytest.raises(LimitExceeded) as caught:
                await here.ask(HUGE)
            error = caught.value
            assert error.code is ErrorCode.RESOURCE_EXHAUSTED
            assert f"query {here.names[HUGE]} ({HUGE}) was ended: it needs" in error.reason
            assert "of 20 MiB that memory_bytes leaves for it" in error.reason
            assert "raise memory_bytes" in error.next_step
            assert here.budget.ended == 1
            assert (await here.ask("1 + 1")).value == Scalar(0, 2.0)

    asyncio.run(refuse())


def test_of_two_queries_the_huge_one_ends_by_name_and_the_small_one_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate(monkeypatch, 90 * MIB)
    small = "max_over_time(vector(time())[10d:1s])"

    async def compete() -> None:
        async with coordinator(100 * MIB) as here:
            huge = asyncio.create_task(here.ask(HUGE))
            await asyncio.to_thread(gate.inside.wait)
            found = (await here.ask(small)).value
            assert not isinstance(found, Scalar)
            with pytest.raises(LimitExceeded) as caught:
                await huge
            assert f"query {here.names[HUGE]} ({HUGE}) was ended: it has 90 MiB" in caught.value.reason
            assert here.budget.ended == 1

    asyncio.run(compete())


def test_when_the_process_really_takes_too_much_the_largest_query_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, 90 * MIB)

    async def look() -> None:
        async with coordinator(1 << 40) as here:
            taken_bytes = [100 * MIB]
            watch = MemoryWatch(here.budget, 1 << 30, trim=lambda: None, resident=lambda: taken_bytes[0])
            huge = asyncio.create_task(here.ask(HUGE))
            await asyncio.to_thread(gate.inside.wait)
            watch.look()
            assert not huge.done()
            taken_bytes[0] = 1000 * MIB
            watch.look()
            with pytest.raises(LimitExceeded, match="the process takes 1,000 MiB of the 1,024 MiB that it may"):
                await huge
            taken_bytes[0] = 100 * MIB
            watch.look()

    asyncio.run(look())


def test_an_answer_is_on_an_account_until_it_has_been_sent_and_its_sending_can_be_ended() -> None:
    count = 1_000_000
    block = SeriesBlock(Axis.of(((),)), np.array([0, count]), np.arange(count), np.zeros(count))

    async def send(queries: MetricsService, running: RunningQuery) -> None:
        with ExitStack() as held:
            queries.keep(running, Result(block), held)
            await asyncio.Event().wait()

    async def compete() -> None:
        async with coordinator(20 * MIB) as here:
            async with here.queries.opened(QueryRequest("1", 0, 0, 0)) as running:
                sending = asyncio.create_task(send(here.queries, running))
                await asyncio.sleep(0)
            assert here.budget.used_bytes == 16 * MIB
            with MemoryShare(here.budget, "other", "2") as other:
                other.draw(10 * MIB)
                with pytest.raises(asyncio.CancelledError) as caught:
                    await sending
                assert isinstance(caught.value.args[0], LimitExceeded)

    asyncio.run(compete())


class Slow(PrometheusResponse):
    """An answer of 16 MiB in two pieces, of which one is made when the test says so."""

    def __init__(self, queries: MetricsService, first_piece: bytes) -> None:
        super().__init__(queries, Request({"type": "http", "headers": []}))
        self.inside, self.go_on = threading.Event(), threading.Event()
        self._first_piece = first_piece
        self.sent: list[Message] = []

    async def answer(self) -> Iterable[bytes]:
        count = 1_000_000
        block = SeriesBlock(Axis.of(((),)), np.array([0, count]), np.arange(count), np.zeros(count))
        async with self._queries.opened(QueryRequest("1", 0, 0, 0)) as running:
            self._queries.keep(running, Result(block), self.held)
        return self._chunks()

    def _chunks(self) -> Iterator[bytes]:
        if self._first_piece:
            yield self._first_piece
        self.inside.set()
        self.go_on.wait()
        yield b"the rest"

    async def ask(self) -> None:
        async def receive() -> Message:
            await asyncio.Event().wait()
            raise NotImplementedError

        async def send(message: Message) -> None:
            self.sent.append(message)

        await self({"type": "http"}, receive, send)


def test_an_answer_whose_memory_is_needed_before_it_has_begun_is_an_error_like_any_other() -> None:
    async def compete() -> None:
        async with coordinator(20 * MIB) as here:
            response = Slow(here.queries, b"")
            asked = asyncio.create_task(response.ask())
            await asyncio.to_thread(response.inside.wait)
            with MemoryShare(here.budget, "other", "2") as other:
                other.draw(10 * MIB)
                response.go_on.set()
                await asked
            assert response.sent[0]["status"] == 422
            assert b"was ended: it has 16 MiB" in response.sent[1]["body"]

    asyncio.run(compete())


def test_an_answer_whose_memory_is_needed_when_it_has_begun_is_cut_off_with_the_reason() -> None:
    async def compete() -> None:
        async with coordinator(20 * MIB) as here:
            response = Slow(here.queries, b"x" * MIB)
            asked = asyncio.create_task(response.ask())
            await asyncio.to_thread(response.inside.wait)
            with MemoryShare(here.budget, "other", "2") as other:
                other.draw(10 * MIB)
                response.go_on.set()
                with pytest.raises(LimitExceeded, match="was ended: it has 16 MiB"):
                    await asked
            assert response.sent[0]["status"] == 200
            assert all(message.get("more_body", True) for message in response.sent)

    asyncio.run(compete())


def test_a_worker_refuses_the_work_that_its_memory_has_no_room_for(tmp_path: Path) -> None:
    async def refuse() -> None:
        async with leaf_worker(tmp_path, Samples("m", 200, 400)) as worker:
            worker.budget_of_leaves.limit_bytes = 3 * MIB
            await worker.put()
            leaf, task = await worker.planned("rate(m[5m])", step_ms=1000)
            report = worker.read(leaf, await worker.execute(task))[1]
            assert report["refused"] == "limit"
            assert str(report["reason"]).startswith("query q (rate(m[5m])) was ended: it needs")
            assert worker.budget_of_leaves.is_idle
            leaf, task = await worker.planned("m", step_ms=6_000_000)
            assert "refused" not in worker.read(leaf, await worker.execute(task))[1]

    asyncio.run(refuse())


def test_an_account_asks_for_shared_memory_only_when_it_has_grown() -> None:
    budget = MemoryBudget(100 * MIB)
    with MemoryShare(budget, "q", "up") as share:
        memory = Memory(1 << 40, share)
        with memory.frame():
            memory.need(MIB)
            assert budget.used_bytes == MIB
            memory.lend(30 * MIB)
            assert budget.used_bytes == 60 * MIB
            memory.hold(2 * MIB)
        assert budget.used_bytes == 2 * MIB
        with pytest.raises(LimitExceeded, match="the most of all"):
            memory.need(99 * MIB)
    assert budget.used_bytes == 0


def test_a_worker_refuses_a_list_of_series_that_its_memory_has_no_room_for(tmp_path: Path) -> None:
    def task(of: LeafTask, metric: str) -> SeriesTask:
        matchers = (Matcher(METRIC_NAME, MatchOp.EQUAL, metric),)
        return SeriesTask((matchers,), 0, 1 << 50, of.segments, of.part, 1_000_000)

    async def refuse() -> None:
        async with leaf_worker(tmp_path, Samples("m", 5000, 2)) as worker:
            await worker.put()
            _, leaf_task = await worker.planned("m")
            assert (await worker.execute(task(leaf_task, "m"))).row_count == 5001
            worker.budget_of_leaves.limit_bytes = 3 * MIB
            with pytest.raises(
                ExecutionFailedError, match=r"query q \(a list of series\) was ended: it needs"
            ) as caught:
                await worker.execute(task(leaf_task, "m"))
            assert caught.value.error.code == ErrorCode.RESOURCE_EXHAUSTED
            assert not caught.value.error.retryable
            assert worker.budget_of_leaves.is_idle
            assert (await worker.execute(task(leaf_task, "nothing"))).row_count == 1

    asyncio.run(refuse())


class PlayedHarvest:
    """Two lists of 10,000 series each."""

    def __init__(self, *_: object, **__: object) -> None:
        self.artifact: Any = SimpleNamespace(
            metadata=SimpleNamespace(row_count=10_000), read_batches=list[Any], release=lambda: None
        )

    async def __aenter__(self) -> "PlayedHarvest":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def results(self) -> AsyncGenerator[tuple[None, Any]]:
        for _ in range(2):
            yield None, self.artifact


def test_lists_of_series_are_on_an_account_until_they_have_been_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_service, "Harvest", PlayedHarvest)
    wanted = SeriesRequest(((Matcher("job", MatchOp.EQUAL, "a"),),), 0, 10)

    async def compete() -> None:
        async with coordinator(30 * MIB) as here:
            cast("Known", cast("Any", here.queries.catalog)).add((("job", "a"),))
            series = SeriesService(here.queries, cast("Any", SimpleNamespace()), RandomIds())
            monkeypatch.setattr(here.queries, "crew_of", str)
            with ExitStack() as held:
                await series.series(wanted, held)
                assert here.budget.used_bytes == 20 * MIB
                with ExitStack() as other, pytest.raises(LimitExceeded, match="a list of series"):
                    await series.series(wanted, other)
            assert here.budget.used_bytes == 0
            with ExitStack() as held:
                assert (await series.label_names(wanted, held)).values == ()
                assert here.budget.used_bytes == 20 * MIB

    asyncio.run(compete())

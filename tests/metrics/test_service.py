"""Queries on the coordinator that need no worker, and what is planned beside the event loop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.observers.timelines import Timelines
from quarterdeck.metrics import series_service
from quarterdeck.metrics import universe as universe_module
from quarterdeck.metrics.api.errors import error_answer
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.explaining import explain_analyzed
from quarterdeck.metrics.model import Segment
from quarterdeck.metrics.promql.errors import DefectError, LimitExceeded, ParseError
from quarterdeck.metrics.promql.exec import binary
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.result import Result, Scalar, Value, Vector, limited
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.running_query import QueryRequest
from quarterdeck.metrics.segments.label_index import LabelIndex
from quarterdeck.metrics.series_service import SeriesRequest, SeriesService
from quarterdeck.metrics.service import MetricsService, QueryOptions
from quarterdeck.metrics.universe import Universe
from quarterdeck.stores.objects import ObjectRef

HELD = ExitStack()
"""Of answers that no worker has a part in: nothing is in it."""
UP = Matcher(METRIC_NAME, MatchOp.EQUAL, "up")


class Known:
    """A catalog whose segments a test makes up."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    async def universe(self, tenant: str) -> Universe:
        del tenant
        return Universe(1, tuple(self.segments))

    def add(self, *labels: tuple[tuple[str, str], ...]) -> None:
        index = LabelIndex.of(labels, [1] * len(labels)).encoded()
        number = len(self.segments)
        self.segments.append(Segment(number, 0, 1, ObjectRef("/x", 1, ""), "", 0, 10, 1, len(labels), index))


class Scene:
    def __init__(self, at_once: int = 1) -> None:
        self.known = Known()
        nobody: Any = None  # there is no work for workers here
        catalog = cast("Catalog", cast("Any", self.known))
        clock = MonotonicClock()
        self.queries = MetricsService(
            nobody, catalog, RandomIds(), clock, Timelines(clock), QueryOptions(at_once=at_once)
        )
        self.queries.warmed.set()
        self.series = SeriesService(self.queries, nobody, RandomIds())

    def ask(self, text: str, step_ms: int = 0) -> Result:
        async def asked() -> Result:
            async with self.queries.opened(QueryRequest(text, 1_000, 1_000 + 4 * step_ms, step_ms)) as running:
                return await self.queries.evaluated(running)

        return asyncio.run(asked())


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.queries.end()


def test_what_needs_no_samples_is_answered_without_workers(scene: Scene) -> None:
    assert scene.ask("1 + 1").value == Scalar(1_000, 2.0)
    found = scene.ask("absent(nothing)").value
    assert isinstance(found, Vector)
    assert found.values.tolist() == [1.0]
    assert scene.queries.admission.running == 0


@pytest.mark.parametrize("text", ["up[100y:1ms]", "max_over_time(up[100y:1ms])[1h:1m]", "rate(sum(up)[100y:1ms])"])
def test_a_subquery_of_which_no_series_would_fit_is_refused_before_workers_evaluate_it(scene: Scene, text: str) -> None:
    scene.known.add(((METRIC_NAME, "up"),))  # there is a work to be done, and nobody to do it
    with pytest.raises(LimitExceeded, match=r"a subquery has 3,15[\d,]+ steps, and no more than"):
        scene.ask(text)


@pytest.mark.parametrize("step_ms", [0, 1_000])
def test_a_mistake_in_the_coordinators_part_of_a_query_has_a_name_and_a_traceback_in_the_log(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step_ms: int
) -> None:
    def breaks(*_: object) -> object:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(binary, "operate", breaks)
    with pytest.raises(DefectError, match="/ number on the right failed with ZeroDivisionError") as met:
        scene.ask("vector(1) / 2", step_ms)
    assert error_answer(met.value).status == 500
    assert error_answer(met.value).error_type == "internal"
    (record,) = [record for record in caplog.records if "met a defect" in record.message]
    assert "vector(1) / 2" in record.message
    assert record.exc_info is not None


HEAVY = "max_over_time(vector(1)[5m:1m])"


def test_a_light_query_has_a_place_when_all_are_taken_and_a_heavy_one_waits(scene: Scene) -> None:
    async def asked() -> None:
        queries = scene.queries
        async with queries.opened(QueryRequest(HEAVY, 1_000, 1_000, 0)):
            assert (queries.running, queries.queued) == (1, 0)
            waiting = asyncio.create_task(answered(HEAVY))
            while not queries.queued:  # noqa: ASYNC110 - nobody says that a query waits
                await asyncio.sleep(0)
            assert await answered("1 + 1") == Scalar(1_000, 2.0)
            assert queries.oldest_s >= 0
            assert (queries.running, queries.queued) == (1, 1)
        await waiting
        assert (queries.running, queries.queued) == (0, 0)

    async def answered(text: str) -> Value:
        async with scene.queries.opened(QueryRequest(text, 1_000, 1_000, 0)) as running:
            return (await scene.queries.evaluated(running)).value

    asyncio.run(asked())


def test_heavy_queries_are_evaluated_a_few_at_a_time_and_light_ones_at_once() -> None:
    scene = Scene(at_once=8)

    async def asked() -> int:
        queries = scene.queries
        inside = most = 0

        async def evaluated(text: str) -> None:
            nonlocal inside, most
            async with queries.opened(QueryRequest(text, 1_000, 1_000, 0)) as running, queries.turn_of(running):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1

        await asyncio.gather(*(evaluated(HEAVY) for _ in range(8)))
        assert most == queries.options.threads
        most = 0
        await asyncio.gather(*(evaluated("1") for _ in range(8)))
        return most

    try:
        assert asyncio.run(asked()) == 8
    finally:
        scene.queries.end()


def test_a_query_that_is_wrong_gives_its_place_back(scene: Scene) -> None:
    for _ in range(3):
        with pytest.raises(ParseError):
            scene.ask("sum(")
    assert scene.queries.admission.running == 0
    assert scene.ask("1").value == Scalar(1_000, 1.0)


def test_a_coordinator_that_is_closing_takes_no_query(scene: Scene) -> None:
    scene.queries.close()
    with pytest.raises(QuarterdeckError, match="shutting down") as caught:
        scene.ask("1")
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_a_coordinator_that_is_closing_takes_no_light_query_either(scene: Scene) -> None:
    async def asked() -> None:
        async with scene.queries.opened(QueryRequest(HEAVY, 1_000, 1_000, 0)):
            scene.queries.close()
            assert scene.queries.admission.is_full, "or it would not go beside it"
            with pytest.raises(QuarterdeckError, match="shutting down"):
                async with scene.queries.opened(QueryRequest("1", 1_000, 1_000, 0)):
                    pass

    asyncio.run(asked())


def test_what_a_query_did_can_be_told_though_no_work_was_needed(scene: Scene) -> None:
    scene.known.add(((METRIC_NAME, "other"),))

    async def explained() -> dict[str, object]:
        async with scene.queries.opened(QueryRequest("up", 5, 5, 0, analyzed=True)) as running:
            await scene.queries.evaluated(running)
            return explain_analyzed(running, scene.queries.now_s())

    told = asyncio.run(explained())
    assert told["segments"] == {"known": 1, "pruned": 1, "read": 0, "unreadable": 0}
    assert told["samples"] == 0


@pytest.mark.parametrize(("count", "beside"), [(16, False), (17, True)])
def test_many_segments_are_looked_at_beside_the_event_loop(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, count: int, beside: bool
) -> None:
    for _ in range(count):
        scene.known.add(((METRIC_NAME, "other"), ("job", "x")))
    threads: set[bool] = set()
    original = universe_module.index_of

    def watched(segment: Segment) -> LabelIndex:
        threads.add(threading.current_thread() is not threading.main_thread())
        return original(segment)

    for module in (universe_module, series_service):
        monkeypatch.setattr(module, "index_of", watched)
    everything = SeriesRequest((), 0, 10)
    for ask in (
        lambda: scene.ask("up", 1_000),
        lambda: asyncio.run(scene.series.label_names(everything, HELD)),
        lambda: asyncio.run(scene.series.label_values("job", everything, HELD)),
    ):
        threads.clear()
        ask()
        assert threads <= {beside}
    threads.clear()
    asyncio.run(scene.series.series(replace(everything, selectors=((UP,),)), HELD))
    assert threads == {True}, "there may be many selectors, whatever the segments"


def test_label_names_and_values_are_those_of_the_time_that_is_asked_for(scene: Scene) -> None:
    scene.known.add(((METRIC_NAME, "up"), ("job", "b")), ((METRIC_NAME, "down"), ("job", "a"), ("zone", "z")))
    scene.known.add((("nameless", "x"),))
    now, later = SeriesRequest((), 0, 5), SeriesRequest((), 11, 20)
    assert asyncio.run(scene.series.label_names(now, HELD)).values == (METRIC_NAME, "job", "nameless", "zone")
    assert asyncio.run(scene.series.label_names(later, HELD)).values == ()
    assert asyncio.run(scene.series.label_values("job", now, HELD)).values == ("a", "b")
    assert asyncio.run(scene.series.label_values(METRIC_NAME, now, HELD)).values == ("down", "up")
    assert asyncio.run(scene.series.label_values("job", later, HELD)).values == ()
    assert asyncio.run(scene.series.label_values("nowhere", now, HELD)).values == ()


def test_a_limit_cuts_series_and_says_so() -> None:
    vector = Vector(0, ((("a", "1"),), (("a", "2"),)), np.array([1.0, 2.0]))
    assert limited(Result(vector), 0, "cut").warnings == ()
    assert limited(Result(vector), 2, "cut").warnings == ()
    cut = limited(Result(vector, ("before",)), 1, "cut")
    assert isinstance(cut.value, Vector)
    assert (cut.value.labels, cut.value.values.tolist()) == (((("a", "1"),),), [1.0])
    assert cut.warnings == ("before", "cut")
    assert limited(Result(Scalar(0, 1.0)), 1, "cut").warnings == ()

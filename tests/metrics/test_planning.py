"""Works: each series in exactly one of them, always the same ones, and with all that their leaf reads."""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics.model import Part, Segment
from quarterdeck.metrics.planning import WORK_ROWS, Division, Selection, divide, selections_of
from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.flow.leaf import evaluate_leaf
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.memory import MemorySource
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan, plan_query
from quarterdeck.metrics.promql.source import unlimited
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.segments.label_index import LabelIndex
from quarterdeck.metrics.universe import Universe
from quarterdeck.stores.objects import ObjectRef
from tests.differential.queries import QueryMaker
from tests.each_seed import each_seed
from tests.metrics.promql.samples import source as samples_of

MINUTE_MS = 60_000


def matcher(name: str, value: str) -> Matcher:
    return Matcher(name, MatchOp.EQUAL, value)


UP = matcher(METRIC_NAME, "up")


def segment(
    number: int, shard: int = 0, shard_count: int = 1, times: tuple[int, int] = (0, 99), rows: int = 1, name: str = "up"
) -> Segment:
    index = LabelIndex.of([((METRIC_NAME, name),)], [rows]).encoded()
    return Segment(number, shard, shard_count, ObjectRef(f"/lake/{number}", 10, ""), "sum", *times, rows, 1, index)


def divided(segments: Sequence[Segment], work_rows: int = WORK_ROWS, *matchers: Matcher) -> Division:
    return divide(Universe(1, tuple(segments)), [Selection(matchers or (UP,), 0, 99)], work_rows)


# Division


@each_seed(range(30))
def test_each_series_of_each_segment_is_in_exactly_one_work(seed: int) -> None:
    random = Random(seed)
    segments: list[Segment] = []
    for _ in range(random.randint(1, 12)):
        shard_count = random.choice((1, 1, 2, 4, 8, 16, 64))
        rows = random.randint(1, 100)
        segments.append(segment(len(segments), random.randrange(shard_count), shard_count, rows=rows))
    works = divided(segments, random.choice((1, 10, 100, 1_000))).works
    for one in segments:
        for digest in range(one.shard, 256, one.shard_count):
            takers = [
                work
                for work in works
                if any(ref.segment_id == one.segment_id for ref in work.segments)
                and (not work.part.is_cut_from(one.shard_count) or digest % work.part.count == work.part.residue)
            ]
            assert len(takers) == 1


def test_a_work_has_all_segments_of_its_series_whatever_their_number_of_shards() -> None:
    segments = [segment(1), *(segment(2 + shard, shard, 4) for shard in range(4)), segment(6, 1, 2)]
    works = divided(segments, 1).works
    assert [[ref.segment_id for ref in work.segments] for work in works] == [[1, 2], [1, 3, 6], [1, 4], [1, 5, 6]]
    assert [work.part for work in works] == [Part(residue, 4) for residue in range(4)]


def test_the_works_depend_on_the_segments_and_not_on_their_order() -> None:
    segments = [segment(number, number % 4, 4, rows=100) for number in range(20)]
    shuffled = Random(1).sample(segments, len(segments))
    assert divided(shuffled, 100).works == divided(segments, 100).works


@pytest.mark.parametrize(
    ("rows", "count"), [(1, 1), (WORK_ROWS // 16, 1), (WORK_ROWS // 4, 2), (WORK_ROWS // 2, 4), (WORK_ROWS, 8)]
)
def test_there_are_as_many_works_as_there_is_to_read_and_no_more_than_shards(rows: int, count: int) -> None:
    segments = [segment(shard, shard, 8, rows=rows) for shard in range(8)]
    assert len(divided(segments).works) == count
    assert len(divided([segment(0, rows=100 * WORK_ROWS)]).works) == 1


def test_a_selector_of_a_few_series_is_one_work() -> None:
    labels = [((METRIC_NAME, "up"), ("i", str(i))) for i in range(1_000)]
    index = LabelIndex.of(labels, [10_000] * 1_000).encoded()
    segments = [Segment(i, i, 8, ObjectRef("/x", 1, ""), "sum", 0, 99, 10**7, 1_000, index) for i in range(8)]
    assert len(divided(segments).works) == 8
    assert len(divided(segments, 8 * WORK_ROWS, UP, matcher("i", "7")).works) == 1


def test_shards_without_samples_get_no_work() -> None:
    works = divided([segment(1, 0, 4), segment(2, 3, 4)], 1).works
    assert [work.part.residue for work in works] == [0, 3]
    assert divided([], 1).works == ()


def test_segments_of_other_times_and_metrics_are_pruned_and_counted() -> None:
    segments = [segment(1), segment(2, times=(100, 200)), segment(3, name="other"), segment(4, times=(-50, 0))]
    division = divided(segments)
    assert [ref.segment_id for ref in division.works[0].segments] == [1, 4]
    assert (division.segments_read, division.segments_pruned) == (2, 2)


def test_what_two_selectors_need_is_read_once() -> None:
    universe = Universe(1, (segment(1, rows=100), segment(2, rows=100, name="other")))
    selections = [Selection((UP,), 0, 9), Selection((UP,), 0, 99), Selection((matcher(METRIC_NAME, "other"),), 0, 99)]
    (work,) = divide(universe, selections).works
    assert [ref.segment_id for ref in work.segments] == [1, 2]
    assert work.rows == 2 * (100 + 100 // 32 + 1)


def test_works_of_one_shard_have_one_home_and_small_ones_that_of_their_metric() -> None:
    segments = [segment(shard, shard, 4, rows=100) for shard in range(4)]
    assert [work.home for work in divided(segments, 1).works] == [f"shard {shard}" for shard in range(4)]
    assert [work.home for work in divided(segments).works] == ["metric up"]
    assert [work.home for work in divided(segments[2:3]).works] == ["shard 2"]
    assert [work.home for work in divided(segments, WORK_ROWS, Matcher("a", MatchOp.EQUAL, "")).works] == ["shard 0"]
    assert divided(segments).works[0].shards == (0, 1, 2, 3)


# Selections


class Recording:
    """A source that remembers what it was asked for."""

    def __init__(self, source: MemorySource) -> None:
        self._source = source
        self.asked: list[Selection] = []

    def select(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, need: Callable[[int], None] = unlimited
    ) -> SeriesBlock:
        self.asked.append(Selection(tuple(matchers), start_ms, end_ms))
        return self._source.select(matchers, start_ms, end_ms, need)


def planned(query: str, start_ms: int = 0, end_ms: int = 10 * MINUTE_MS, step_ms: int = MINUTE_MS) -> QueryPlan:
    return plan_query(query, start_ms, end_ms, step_ms, MINUTE_MS)


def really_selected(plan: QueryPlan, source: MemorySource, lookback_ms: int) -> list[set[Selection]]:
    found: list[set[Selection]] = []
    for leaf in plan.leaves:
        recording = Recording(source)
        context = Context(Threads(1), Memory(1 << 30), Notes(), lookback_ms, plan.instant)
        try:
            for _ in evaluate_leaf(leaf, recording, context, 100):
                pass
        except ExecutionError:
            pass  # of the query: what was read before that counts
        found.append(set(recording.asked))
    return found


def test_what_is_planned_is_what_leaves_really_select() -> None:
    names = ("http_requests_total", "temperature", "up", "latency_seconds", "latency_seconds_bucket")
    source = samples_of({f"{name} job={job}": np.arange(20.0).tolist() for name in names for job in "ab"})
    maker, checked = QueryMaker(Random(5)), 0
    for number in range(250):
        instant = number % 2 == 0
        text = maker.query(instant)
        try:
            plan = planned(text, 0, 0, 0) if instant else planned(text)
        except QuarterdeckError:  # some are wrong on purpose
            continue
        for leaf, asked in zip(plan.leaves, really_selected(plan, source, 5 * MINUTE_MS), strict=True):
            try:
                selections = selections_of(leaf, 5 * MINUTE_MS, plan.instant)
            except ExecutionError:
                assert not asked, text
                continue
            assert asked <= set(selections), text
            checked += bool(asked)
    assert checked > 150


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("up", -4.999983333, 10),
        ("up offset 3m", -7.999983333, 7),
        ("up offset -3m", -1.999983333, 13),
        ("up @ 120", -2.999983333, 2),
        ("up @ end()", 5.000016667, 10),
        ("rate(up[2m])", -1.999983333, 10),
        ("rate(up[2m] @ 120)", 0.000016667, 2),
        ("max_over_time(up[4m:1m])", -7.999983333, 10),
        ("max_over_time(up[4m:1m] offset 1m)", -8.999983333, 9),
        ("max_over_time(rate(up[2m])[4m:1m])", -4.999983333, 10),
    ],
)
def test_times_are_those_of_windows_lookback_offset_at_and_subqueries(query: str, start: float, end: float) -> None:
    plan = planned(query)
    ((selection,),) = [selections_of(leaf, 5 * MINUTE_MS, plan.instant) for leaf in plan.leaves]
    assert selection == Selection((UP,), round(start * MINUTE_MS), round(end * MINUTE_MS))


@pytest.mark.parametrize("modifier", ["anchored", "smoothed"])
def test_anchored_and_smoothed_windows_read_around_themselves(modifier: str) -> None:
    plan = planned(f"rate(up[2m] {modifier})")
    (asked,) = really_selected(plan, samples_of({"up": np.arange(20.0).tolist()}), 5 * MINUTE_MS)
    (leaf,) = plan.leaves
    assert asked == set(selections_of(leaf, 5 * MINUTE_MS, plan.instant))
    (selection,) = asked
    assert selection.start_ms < -2 * MINUTE_MS - 4 * MINUTE_MS
    assert (selection.end_ms > 10 * MINUTE_MS) == (modifier == "smoothed")

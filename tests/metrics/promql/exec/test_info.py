"""`info` where scripts cannot look: against an evaluation step by step, in pieces, and what it holds on to."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import STALE_BITS, Axis, Grid, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded
from quarterdeck.metrics.promql.exec.info import InfoNode
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.limits import Limits, Memory
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from tests.each_seed import each_seed
from tests.metrics.promql.samples import labels, source

MINUTE_MS = 60_000
LOOKBACK_MS = 300_000
STALE = float(np.array([STALE_BITS], np.uint64).view(np.float64)[0])

TARGET_INFO = Matcher(lb.METRIC_NAME, MatchOp.EQUAL, "target_info")


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(threads=1) as engine:
        yield engine


def answer(
    engine: Engine, sources: list[MemorySource], query: str, steps: int = 10
) -> dict[Labels, list[tuple[int, float]]]:
    """The series of a range query over the first minutes."""
    block = engine.range(sources, query, 0, (steps - 1) * MINUTE_MS, MINUTE_MS).value
    assert isinstance(block, SeriesBlock)
    bounds = zip(block.axis.labels, block.offsets[:-1].tolist(), block.offsets[1:].tolist(), strict=True)
    return {
        one: list(zip(block.timestamps[low:high].tolist(), block.values[low:high].tolist(), strict=True))
        for one, low, high in bounds
    }


def some_series(seed: int) -> list[Series]:
    """Series and info series that come, go and follow each other; no two samples are of the same time."""
    rng = random.Random(seed)
    made: dict[Labels, Series] = {}
    for number in range(30):
        name = rng.choice(["m", "m", "target_info", "crew_info"])
        kind = {"m": "own", "target_info": "rig", "crew_info": "crew"}[name]
        pairs = {"instance": rng.choice(["", "a", "b"]), "job": rng.choice(["j", "k"]), kind: rng.choice("xyz")}
        minutes = [minute for minute in range(rng.randrange(9), 10) if rng.random() < 0.4]
        times = [minute * MINUTE_MS + number * 100 for minute in minutes]
        values = [STALE if rng.random() < 0.2 else rng.random() for _ in times]
        one = lb.from_mapping({lb.METRIC_NAME: name, **pairs})
        made[one] = Series(one, np.array(times, np.int64), np.array(values))
    return list(made.values())


def newest(one: Series, time_ms: int) -> tuple[int, float] | None:
    """The sample of a series that counts at a time."""
    seen = [index for index, at in enumerate(one.timestamps.tolist()) if time_ms - LOOKBACK_MS < at <= time_ms]
    if not seen or one.values[seen[-1] : seen[-1] + 1].view(np.uint64)[0] == STALE_BITS:
        return None
    return int(one.timestamps[seen[-1]]), float(one.values[seen[-1]])


def step_by_step(series: list[Series], steps: int) -> dict[Labels, list[tuple[int, float]]]:
    """`info(m, {__name__=~".+_info"})`, as one would tell it."""
    found: dict[Labels, list[tuple[int, float]]] = {}
    times = [step * MINUTE_MS for step in range(steps)]
    base = [s for s in series if lb.get(s.labels, "__name__") == "m" and any(newest(s, t) for t in times)]
    infos = [s for s in series if lb.get(s.labels, "__name__").endswith("_info")]
    for name in lb.IDENTIFYING:
        values = {lb.get(s.labels, name) for s in base} - {""}
        infos = [s for s in infos if not values or lb.get(s.labels, name) in values]
    for time_ms in times:
        for one in base:
            if (sample := newest(one, time_ms)) is None:
                continue
            result = dict(one.labels)
            for metric in ("target_info", "crew_info"):
                there = [
                    (at[0], info.labels)
                    for info in infos
                    if lb.get(info.labels, "__name__") == metric
                    and lb.keep(info.labels, lb.IDENTIFYING) == lb.keep(one.labels, lb.IDENTIFYING)
                    and (at := newest(info, time_ms)) is not None
                ]
                if there:
                    result = dict(max(there)[1]) | result
            found.setdefault(lb.from_mapping(result), []).append((time_ms, sample[1]))
    return found


@each_seed(range(40))
def test_the_answer_is_that_of_a_walk_over_the_steps_whatever_the_shards_and_blocks(seed: int) -> None:
    series = some_series(seed)
    whole = MemorySource.of(series)
    expected = step_by_step(series, 15)
    for cells, shards in ((2_000_000, 1), (2_000_000, 3), (1, 1), (20, 2)):
        with Engine(EngineOptions(limits=Limits(block_cells=cells)), threads=1) as engine:
            came = answer(engine, list(whole.shards(shards)), 'info(m, {__name__=~".+_info"})', 15)
        assert came == expected


def test_the_random_series_are_enriched_by_one_by_two_and_by_changing_info_series() -> None:
    answers = [step_by_step(some_series(seed), 15) for seed in range(40)]
    results = [one for found in answers for one in found]
    assert any(lb.get(one, "rig") and lb.get(one, "crew") for one in results)
    assert any(lb.get(one, "rig") and not lb.get(one, "crew") for one in results)
    own = frozenset({"__name__", "instance", "job", "own"})
    assert any(len({lb.keep(one, own) for one in found}) < len(found) for found in answers)


def test_of_equally_new_info_series_a_later_one_that_is_newer_comes_too_late(engine: Engine) -> None:
    at = np.array([0], np.int64)
    base = Series(labels("m instance=a"), at + MINUTE_MS, np.ones(1))

    def infos(*minutes: int) -> MemorySource:
        made = (Series(labels(f"target_info instance=a n={n}"), at + m, np.ones(1)) for n, m in enumerate(minutes))
        return MemorySource.of((base, *made))

    for minutes in ((1, 1), (1, 1, 2), (0, 2, 1, 2)):
        with pytest.raises(ExecutionError, match="found duplicate series for info metric"):
            engine.instant([infos(*minutes)], "info(m)", MINUTE_MS)
    for minutes in ((2, 1, 1), (1, 2, 1), (0, 1, 2)):
        engine.instant([infos(*minutes)], "info(m)", MINUTE_MS)


def test_duplicates_count_where_instance_and_job_are_known_and_not_of_one_series(engine: Engine) -> None:
    """Prometheus asks its storage for all these instances and all these jobs, and looks at whatever comes back."""
    series = {"m instance=a job=1": [1.0], "m instance=b job=2": [1.0]}
    odd = {"target_info instance=a job=2 x=1": [1.0], "target_info instance=a job=2 x=2": [1.0]}
    with pytest.raises(ExecutionError, match="found duplicate series for info metric"):
        engine.instant([source(series | odd)], "info(m)", 0)
    others = {"target_info instance=c job=2 x=1": [1.0], "target_info instance=c job=2 x=2": [1.0]}
    engine.instant([source(series | others)], "info(m)", 0)


def test_where_there_is_no_series_nobody_looks_at_info_series(engine: Engine) -> None:
    late = Series(labels("m instance=a"), np.array([6 * MINUTE_MS], np.int64), np.ones(1))
    made = [Series(labels(f"target_info instance=a x={x}"), np.zeros(1, np.int64), np.ones(1)) for x in (1, 2)]
    assert answer(engine, [MemorySource.of((late, *made))], "info(m)", 7) == {late.labels: [(6 * MINUTE_MS, 1.0)]}


@dataclass
class Given:
    """A node that has its answer already."""

    block: VectorBlock

    def eval(self, grid: Grid) -> VectorBlock:
        return self.block


def given(*rows: tuple[str, Sequence[float | None]]) -> VectorBlock:
    values = np.array([[0.0 if value is None else value for value in row] for _, row in rows])
    present = np.array([[value is not None for value in row] for _, row in rows])
    return VectorBlock(Axis.of([labels(name) for name, _ in rows]), values, present)


@pytest.fixture
def context() -> Iterator[Context]:
    threads = Threads(1)
    yield Context(threads, Memory(1 << 20), Notes(), LOOKBACK_MS, instant=False)
    threads.close()


def node(base: VectorBlock, infos: VectorBlock, context: Context) -> InfoNode:
    plan = pn.Info(pn.LeafRef(0, 0), pn.LeafRef(1, 0), (TARGET_INFO,))
    return InfoNode(plan, Given(base), Given(infos), context)


def test_while_the_same_info_series_win_the_axis_is_the_same(context: Context) -> None:
    base = given(("m instance=a", [1.0, 2.0]), ("m instance=b", [3.0, 4.0]))
    infos = given(("target_info instance=a x=1", [0.0, 1.0]), ("target_info instance=a x=2", [None, None]))
    info = node(base, infos, context)
    first = info.eval(Grid(0, 1, 2))
    assert info.eval(Grid(2, 1, 2)).axis is first.axis
    assert first.axis.labels == (labels("m instance=a x=1"), labels("m instance=b"))
    info.series = Given(VectorBlock(infos.axis, infos.values, ~infos.present))
    assert info.eval(Grid(4, 1, 2)).axis.labels == (labels("m instance=a x=2"), labels("m instance=b"))


def test_rows_are_in_the_order_of_their_labels(context: Context) -> None:
    base = given(("m instance=a z=1", [1.0, 1.0]), ("m instance=a z=2", [2.0, 2.0]))
    infos = given(("target_info instance=a x=1", [None, 1.0]), ("target_info instance=a x=2", [0.0, 0.0]))
    block = node(base, infos, context).eval(Grid(0, 1, 2))
    assert block.axis.labels == tuple(labels(f"m instance=a x={x} z={z}") for x in (1, 2) for z in (1, 2))
    assert block.present.tolist() == [[False, True], [False, True], [True, False], [True, False]]
    assert block.values[block.present].tolist() == [1.0, 2.0, 1.0, 2.0]


def test_histograms_are_handed_on_and_refused_as_info_series(context: Context) -> None:
    base, infos = given(("m instance=a", [0.0, 0.0])), given(("target_info instance=a x=1", [0.0, None]))
    histogram = NativeHistogram(count=4.0, total=5.0)
    cells = np.full((1, 2), None, object)
    cells[0, 0] = histogram
    block = node(VectorBlock(base.axis, base.values, base.present, cells), infos, context).eval(Grid(0, 1, 2))
    assert block.histograms is not None
    assert block.axis.labels == (labels("m instance=a"), labels("m instance=a x=1"))
    assert block.present.tolist() == [[False, True], [True, False]]
    assert block.histograms[block.present].tolist() == [None, histogram]
    with pytest.raises(ExecutionError, match="info sample should be float"):
        node(base, VectorBlock(infos.axis, infos.values, infos.present, cells), context).eval(Grid(0, 1, 2))
    later = VectorBlock(base.axis, base.values, np.array([[False, True]]))
    node(later, VectorBlock(infos.axis, infos.values, infos.present, cells), context).eval(Grid(0, 1, 2))


def test_names_go_away_at_the_end_where_they_would_have(context: Context) -> None:
    base = given(("m instance=a", [1.0]), ("target_info instance=a", [1.0]))
    flagged = VectorBlock(Axis(base.axis.labels, np.array([True, False])), base.values, base.present)
    block = node(flagged, given(("target_info instance=a x=1", [0.0])), context).eval(Grid(0, 1, 1))
    assert dict(zip(block.axis.labels, block.axis.nameless.tolist(), strict=True)) == {
        labels("m instance=a x=1"): True,
        labels("target_info instance=a"): False,
    }


def test_what_does_not_fit_into_memory_is_refused_before_it_is_made(context: Context) -> None:
    base = given(*((f"m instance=a i={i}", [1.0] * 100) for i in range(10)))
    infos = given(("target_info instance=a x=1", [0.0] * 100))
    tight = Context(context.threads, Memory(10_000), Notes(), LOOKBACK_MS, instant=False)
    with pytest.raises(LimitExceeded):
        node(base, infos, tight).eval(Grid(0, 1, 100))

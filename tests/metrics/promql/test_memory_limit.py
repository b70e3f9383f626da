"""The memory of a query: no shape of it takes much more than the limit, and what has been used is given back."""

import gc
import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest

from quarterdeck.metrics.promql import engine as engine_module
from quarterdeck.metrics.promql.blocks import Axis, Grid, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.errors import LimitExceeded
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.flow.leaf import LeafBlock
from quarterdeck.metrics.promql.flow.merge import ShardReader
from quarterdeck.metrics.promql.kernels.warm import warm
from quarterdeck.metrics.promql.labels import from_mapping
from quarterdeck.metrics.promql.limits import Limits, Memory
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.result import Vector
from tests.metrics.promql.samples import many

MIB = 1 << 20
HOUR_MS = 3_600_000
LIMIT_BYTES = 4 * MIB


def different(count: int, steps: int = 61) -> MemorySource:
    """Many series, no two values alike."""
    times = np.arange(steps, dtype=np.int64) * 60_000
    return MemorySource.of(
        Series(from_mapping({"__name__": "m", "i": str(i), "job": str(i % 3)}), times, i + times / HOUR_MS / 2)
        for i in range(count)
    )


SAMPLES = different(500)

TOO_MUCH = [
    "m",
    "-m",
    "m * 2 > bool 1",
    "rate(m[5m])",
    "quantile_over_time(scalar(sum(m)), m[5m])",
    "sum by (i) (m)",
    "stddev by (i) (m)",
    "topk(1e18, m)",
    "limitk(500, m)",
    "quantile by (i) (0.5, m)",
    "m @ 600",
    "vector(1) or m @ 600",
    "max_over_time(m[1h:1m] @ 3600)",
    "m or on(job, i) (m offset 1m)",
    "m + on(i) m",
    "m + on(i) fill(0) m",
    "m + on(job) group_left max by (job) (m)",
    'count_values("v", m)',
    'label_replace(m, "x", "$1", "i", "(.*)")',
    'label_replace(m, "x", "' + "$1" * 5000 + '", "i", "(.*)")',
    'label_join(m, "x", "' + "-" * 10_000 + '", "i", "i", "i")',
    'max_over_time(count_values("v", m)[1h:1m])',
    "max_over_time((m @ 600)[1h:1s])",
    "max_over_time(m[30m:1s])",
    "max_over_time(sum by (i) (m)[30m:1s])",
    "max_over_time(rate(m[5m])[1h:1s])",
    "max_over_time(min_over_time(m[10m:1s])[10m:1s])",
    " + ".join(f"(m offset {second}s)" for second in range(1, 40)),
    " or ".join(f"(m offset {second}s)" for second in range(1, 40)),
]


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """Compiled code is no memory of a query."""
    warm()


@pytest.mark.parametrize("query", TOO_MUCH, ids=lambda query: query[:50])
def test_no_query_takes_much_more_than_the_limit(query: str) -> None:
    with Engine(EngineOptions(limits=Limits(memory_bytes=LIMIT_BYTES)), threads=1) as engine:
        gc.collect()
        tracemalloc.start()
        try:
            with pytest.raises(LimitExceeded, match="the limit of a query is 4 MiB"):
                engine.range([SAMPLES], query, 0, HOUR_MS, 1000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 1.5 * LIMIT_BYTES


@pytest.mark.parametrize("query", ["m + on(job) group_left(i) m", "m * on() group_left m"])
def test_pairs_are_counted_before_they_are_made(query: str) -> None:
    with Engine(EngineOptions(limits=Limits(memory_bytes=LIMIT_BYTES)), threads=1) as engine:
        tracemalloc.start()
        try:
            with pytest.raises(LimitExceeded):
                engine.instant([SAMPLES], query, 0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < LIMIT_BYTES


STREAMED = [
    "m",
    "rate(m[5m]) + m",
    "sum by (job) (m) / on(job) group_right m",
    "m or m offset 1m",
    "max_over_time(m[5m:10s])",
    "max_over_time(sum by (i) (m)[5m:10s])",
    "m @ 600 * m",
    'count_values("v", m % 3)',
    'sum(count_values("v", m))',
    'label_replace(m, "x", "$1", "i", "(.*)")',
]


@dataclass
class Accounts:
    """The accounts of the queries that were asked."""

    opened: list[Memory] = field(default_factory=list[Memory])

    def open(self, limit_bytes: int) -> Memory:
        self.opened.append(Memory(limit_bytes))
        return self.opened[-1]


@pytest.mark.parametrize("query", STREAMED)
@pytest.mark.parametrize("shards", [1, 3])
def test_a_stream_holds_no_more_at_its_end_than_at_its_beginning(
    query: str, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = Accounts()
    monkeypatch.setattr(engine_module, "Memory", accounts.open)
    with Engine(EngineOptions(limits=Limits(block_cells=60)), threads=1) as engine:
        held = [
            accounts.opened[0].held_bytes for _ in engine.stream(many(20).shards(shards), query, 0, HOUR_MS, 60_000)
        ]
    assert len(held) > 5
    assert max(held[len(held) // 2 :]) <= 1.2 * max(held[: len(held) // 2])
    assert min(held) > 0


def test_a_long_range_over_many_series_streams_in_memory_that_does_not_hold_its_answer() -> None:
    cells = 0
    with Engine(EngineOptions(limits=Limits(memory_bytes=LIMIT_BYTES)), threads=1) as engine:
        tracemalloc.start()
        try:
            for _, block in engine.stream([SAMPLES], "rate(m[5m]) * 2", 0, HOUR_MS, 1000):
                assert isinstance(block, VectorBlock)
                cells += block.values.size
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert cells == 500 * 3601
    assert peak < LIMIT_BYTES < cells * 9 / 3


def test_a_deep_query_needs_no_more_than_a_shallow_one() -> None:
    query = "abs(" * 60 + "m" + ")" * 60
    with Engine(EngineOptions(limits=Limits(memory_bytes=LIMIT_BYTES)), threads=1) as engine:
        assert sum(grid.count for grid, _ in engine.stream([SAMPLES], query, 0, HOUR_MS, 10_000)) == 361


def test_windows_that_lie_far_apart_do_not_pay_for_what_is_between_them() -> None:
    day_ms = 24 * HOUR_MS
    samples = different(5)
    with Engine(EngineOptions(limits=Limits(memory_bytes=LIMIT_BYTES)), threads=1) as engine:
        for query in ("max_over_time(m[10m:1s])", "max_over_time(sum(m)[10m:1s])"):
            found = engine.range([samples], query, HOUR_MS // 2, HOUR_MS // 2 + 20 * day_ms, day_ms).value
            alone = engine.instant([samples], query, HOUR_MS // 2).value
            assert isinstance(found, SeriesBlock)
            assert isinstance(alone, Vector)
            np.testing.assert_array_equal(np.sort(found.values), np.sort(alone.values))


def test_what_is_lent_within_a_frame_is_given_back_at_its_end() -> None:
    memory = Memory(100)
    memory.hold(10)
    with memory.frame():
        memory.lend(20)
        with memory.frame():
            memory.lend(5)
            assert memory.held_bytes == 35
        assert memory.held_bytes == 30
        with pytest.raises(LimitExceeded):
            memory.lend(36)  # what is made of it would not fit
    assert memory.held_bytes == 10
    assert memory.peak_bytes == 102


def test_only_what_belongs_to_the_last_axes_is_remembered() -> None:
    remembered: Remembered[int] = Remembered()
    one, other = Axis.of(()), Axis.of(())
    assert remembered.of((one,), lambda: 1) == 1
    assert remembered.of((one,), lambda: 2) == 1
    assert remembered.of((other,), lambda: 3) == 3
    assert remembered.of((one,), lambda: 4) == 4


def test_a_block_is_held_until_its_last_step_is_handed_out() -> None:
    memory = Memory(MIB)
    axis = Axis.of(((),))
    blocks = [
        LeafBlock(Grid(start, 1, 4), VectorBlock(axis, np.zeros((1, 4)), np.ones((1, 4), np.bool_))) for start in (0, 4)
    ]
    reader = ShardReader(iter(blocks), memory)
    for grid, held_bytes in ((Grid(0, 1, 3), 36), (Grid(3, 1, 1), 0), (Grid(6, 1, 2), 0)):  # nobody asks for 4 and 5
        with memory.frame():
            assert len(reader.take(grid)) == 1
        assert memory.held_bytes == held_bytes

"""What becomes of start timestamps in a query: who sees them, who does not, and what impossible ones do."""

import numpy as np
import pytest

from quarterdeck.metrics.promql.blocks import I64, SeriesBlock
from quarterdeck.metrics.promql.engine import Engine
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.flow.leaf import evaluate_leaf
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.leaves import Merge
from quarterdeck.metrics.promql.result import Vector

TIMES = np.arange(0, 600_000, 60_000)
FAR = 2**63 - 1


def series(starts: I64 | None, pump: str = "a") -> Series:
    """It is 0, 60, 120 and so on, a minute apart."""
    labels = (("__name__", "pumped_total"), ("pump", pump))
    return Series(labels, TIMES, np.arange(len(TIMES), dtype=np.float64) * 60, None, starts)


def each_minute(offset_ms: int) -> I64:
    return TIMES + offset_ms


def ask(query: str, *some: Series, time_ms: int = 540_000, shards: int = 1) -> tuple[list[float], tuple[str, ...]]:
    with Engine() as engine:
        answer = engine.instant(MemorySource.of(some).shards(shards), query, time_ms)
    assert isinstance(answer.value, Vector)
    return answer.value.values.tolist(), answer.warnings


@pytest.mark.parametrize(
    "query",
    [
        "rate(pumped_total[10m])",
        "sort(increase(pumped_total[10m]))",
        "quantile(0.5, irate(pumped_total[10m]))",
        "max_over_time(resets(pumped_total[10m])[5m:1m])",
        "absent(rate(pumped_total[10m]))",
        "sum by (pump) (rate(pumped_total[10m] offset 1m)) / on (pump) rate(pumped_total[10m] @ 300)",
        "quantile_over_time(scalar(up), pumped_total[10m])",
    ],
)
def test_whatever_looks_at_starts_is_evaluated_where_the_samples_are(query: str) -> None:
    """Samples travel without their starts: so no such function may be left above the leaves."""
    with Engine() as engine:
        plan = engine.plan(query, 0, 600_000, 60_000)
    calls = [node for node in pn.walk(plan.plan) if isinstance(node, pn.RangeCall)]
    left = {call.function for call in calls if isinstance(call.range, pn.LeafRange)}
    assert not left & {"rate", "increase", "irate", "resets"}


def test_samples_leave_their_leaf_without_starts() -> None:
    with Engine() as engine:
        [leaf] = engine.plan("pumped_total[10m]", 540_000, 540_000, 0).leaves
    assert leaf.merge is Merge.SAMPLES
    with Threads(1) as threads:
        context = Context(threads, Memory(1 << 30), Notes(), 300_000, instant=True)
        [block] = evaluate_leaf(leaf, MemorySource.of([series(each_minute(-1))]), context, 100)
    assert isinstance(block.values, SeriesBlock)
    assert block.values.starts is None
    assert len(block.values.timestamps) == 10


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_series_with_and_without_starts_stand_side_by_side(shards: int) -> None:
    # The second sample of b has the start 0, which is none: so the third does not know what it follows.
    some = [series(None, "a"), series(each_minute(-60_000), "b"), series(np.zeros(10, np.int64), "c")]
    assert ask("resets(pumped_total[10m])", *some, shards=shards)[0] == [0, 7, 0]
    assert ask("start_timestamp(pumped_total)", *some, shards=shards)[0] == [0, 480, 0]


@pytest.mark.parametrize("offset_ms", [0, 1, 10**15, FAR - 600_000, -FAR + 600_000])
def test_a_start_that_is_not_before_its_sample_or_that_is_very_long_ago_is_no_reset(offset_ms: int) -> None:
    [found], _ = ask("resets(pumped_total[10m])", series(each_minute(offset_ms)))
    assert found == 0
    silent, _ = ask("increase(pumped_total[9m])", series(None))
    assert ask("increase(pumped_total[9m])", series(each_minute(offset_ms)))[0] == silent


@pytest.mark.parametrize("start", [FAR, -FAR - 1])
def test_the_farthest_starts_do_no_harm(start: int) -> None:
    starts = np.full(10, start)
    for function in ("increase", "rate", "irate", "resets"):
        silent, _ = ask(f"{function}(pumped_total[9m])", series(None))
        assert ask(f"{function}(pumped_total[9m])", series(starts)) == (silent, ())


def test_contradicting_starts_are_told_once_and_only_for_windows_that_have_them() -> None:
    starts = np.array([0, *[-5] * 5, -9, -9, -9, -9])
    _, warnings = ask("rate(pumped_total[10m])", series(starts, "a"), series(starts, "b"))
    [text] = warnings
    assert text.endswith('overlaps with previous sample timestamp for metric "pumped_total" (1:6)')
    assert not ask("rate(pumped_total[3m])", series(starts))[1]
    assert not ask("irate(pumped_total[10m])", series(starts))[1]


def test_samples_without_starts_take_no_room_for_them() -> None:
    without, with_starts = (MemorySource.of([series(one)]).select((), 0, 600_000) for one in (None, each_minute(-1)))
    assert without.starts is None
    assert with_starts.size_bytes - without.size_bytes == 80
    nothing = MemorySource.of([series(np.zeros(10, np.int64))]).select((), 0, 600_000)
    assert nothing.starts is None

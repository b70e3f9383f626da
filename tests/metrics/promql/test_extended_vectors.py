"""`anchored` and `smoothed` through the engine: shards, blocks of steps, samples by themselves, native histograms."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.plan.explain import explain
from quarterdeck.metrics.promql.result import Vector
from quarterdeck.metrics.promql.source import Source
from tests.metrics.promql.samples import labels, source

MINUTE_MS = 60_000


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine


def saw(shift: int) -> list[float]:
    """A counter that starts over every seven steps."""
    return [float((step + shift) % 7 * (shift + 1)) for step in range(61)]


SERIES = {f"m i={i} job={i % 3}": saw(i) for i in range(9)}

QUERIES = [
    "sum by (job) (rate(m[5m] anchored))",
    "increase(m[90s] smoothed)",
    "max by (job) (delta(m[150s] smoothed offset 1m))",
    "changes(m[2m] anchored) + resets(m[2m] anchored)",
    "avg_over_time(increase(m[90s] smoothed)[5m:25s])",
    "sum(m smoothed)",
    "m smoothed / on(i) m @ 600",
    "topk(2, m smoothed @ 615)",
]


def answer(sources: Sequence[Source], text: str, block_cells: int) -> SeriesBlock:
    with Engine(EngineOptions(limits=Limits(block_cells=block_cells)), threads=1) as engine:
        value = engine.range(sources, text, 0, 50 * MINUTE_MS, 47_000).value
    assert isinstance(value, SeriesBlock)
    return value


@pytest.mark.parametrize("text", QUERIES)
def test_shards_and_blocks_of_steps_make_no_difference(text: str) -> None:
    whole = answer([source(SERIES)], text, 2_000_000)
    shards = [source(dict(list(SERIES.items())[first::4])) for first in range(4)]
    pieces = answer(shards, text, 20)
    assert whole.axis.labels == pieces.axis.labels
    assert whole.timestamps.tolist() == pieces.timestamps.tolist()
    np.testing.assert_allclose(pieces.values, whole.values, rtol=1e-12)
    assert len(whole.values)


@pytest.mark.parametrize(
    ("text", "times_s", "values"),
    [
        # Samples at 0, 60, 120, 180 s; the window is (90, 150].
        ("m[1m] anchored", [90, 120, 150], [1, 3, 3]),
        ("m[1m] smoothed", [90, 120, 150], [2, 3, 5]),
        ("m[30s] anchored", [], []),
        ("m[30s] smoothed", [120, 150], [3, 5]),
        ("m[10m] anchored", [-450, 0, 60, 120, 150], [0, 0, 1, 3, 3]),
    ],
)
def test_a_range_by_itself_has_a_sample_at_each_edge(
    engine: Engine, text: str, times_s: list[int], values: list[float]
) -> None:
    found = engine.instant([source({"m": [0, 1, 3, 7]})], text, 150_000).value
    assert isinstance(found, SeriesBlock)
    assert found.timestamps.tolist() == [time_s * 1000 for time_s in times_s]
    assert found.values.tolist() == values


def histograms() -> MemorySource:
    """A counter that has grown by 6 a minute."""
    cells = np.array(
        [NativeHistogram(count=6.0 * n, total=3.0 * n, positive=((0, 6.0 * n),)) for n in range(5)], object
    )
    return MemorySource.of([Series(labels("h"), np.arange(5) * MINUTE_MS, np.zeros(5), cells)])


@pytest.mark.parametrize("extension", ["anchored", "smoothed"])
def test_a_range_of_native_histograms_by_itself_is_refused(engine: Engine, extension: str) -> None:
    with pytest.raises(ExecutionError, match=f"{extension} modifier is not supported with histograms"):
        engine.instant([histograms()], f"h[1m] {extension}", 150_000)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("increase(h[1m] anchored)", 6),
        ("increase(h[90s] smoothed)", 9),
        ("rate(h[1m] smoothed)", 0.1),
        ("h smoothed", 14),
        ("h smoothed offset -10m", None),
        ("h smoothed offset -5m", 24),
    ],
)
def test_native_histograms_have_edges_too(engine: Engine, text: str, count: float | None) -> None:
    found = engine.range([histograms()], f"histogram_count({text})", 140_000, 140_000, 1000).value
    assert isinstance(found, SeriesBlock)
    np.testing.assert_allclose(found.values, [] if count is None else [count])


def test_a_plan_says_what_a_selector_is_told_of_the_samples_around(engine: Engine) -> None:
    shown = explain(engine.plan("rate(m[5m] anchored offset 1m) + m smoothed", 0, 60_000, 1000))
    assert "m[5m] anchored offset 1m" in shown
    assert "m smoothed" in shown


def test_the_lookback_is_how_far_around_a_window_samples_count() -> None:
    with Engine(EngineOptions(lookback_ms=30_000), threads=1) as engine:
        sparse = source({"m_total": [1, 2, 4, 8]})
        near = engine.instant([sparse], "increase(m_total[40s] anchored)", 125_000).value
        far = engine.instant([sparse], "increase(m_total[20s] anchored)", 125_000).value
    # (85, 125] is 25 s after the sample at 60 s, (105, 125] is 45 s after it.
    assert isinstance(near, Vector)
    assert isinstance(far, Vector)
    assert (near.values.tolist(), far.values.tolist()) == ([2], [0])

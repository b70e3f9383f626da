"""Queries over native histograms have the same answer however steps are cut into blocks, and one by one.

Samples are random, from a seed: exponential and custom buckets, with floats among them, gaps, resets and markers. Most
blocks of one or of seven cells have no histograms at all, or no samples, which the blocks beside them have.
"""

from random import Random
from typing import Final

import numpy as np
import pytest

from quarterdeck.metrics.promql.blocks import STALE_BITS, SeriesBlock
from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.histograms.bounds import CUSTOM
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.result import Result, Vector
from tests.metrics.promql.samples import labels

START_MS: Final = 300_001
END_MS: Final = 900_000
STEP_MS: Final = 75_000
MARKER: Final = float(np.array([STALE_BITS], np.uint64).view(np.float64)[0])

QUERIES: Final = [
    "h",
    "sum by (job) (rate(h[2m]))",
    "avg(mix)",
    "sum(histogram_count(mix)) or vector(0)",
    "max_over_time(sum(histogram_count(mix))[5m:1m])",
    "increase(mix[5m:20s])",
    "last_over_time(mix[45s:1m])",
    "last_over_time((h unless h)[45s:90s]) or vector(1)",
    "irate((h and on (job) c)[5m:30s])",
    "changes(mix[2m]) + on (i, job) resets(h[5m] offset -90s)",
    "histogram_quantile(0.5, sum by (job) (increase(h[5m])))",
    "count_values by (job) ('v', c)",
    "topk(2, mix)",
    "quantile_over_time(time() / 600, mix[5m])",
    "h - on (i, job) h offset 2m",
    "h == on (i, job) h offset 30s",
    "c * 2 > bool 1",
    "absent(c @ 400) or -c",
]


def _histogram(random: Random, is_custom: bool, least: int) -> NativeHistogram:
    counts = [float(least + random.randint(0, 3)) for _ in range(3)]
    total, buckets = 2 * sum(counts), tuple(enumerate(counts))
    if is_custom:
        return NativeHistogram(CUSTOM, count=sum(counts), total=total, positive=buckets, custom_bounds=(1.0, 2.0))
    return NativeHistogram(random.choice((0, 0, 1)), count=sum(counts), total=total, positive=buckets)


def _series(random: Random, name: str) -> Series:
    times = sorted(random.sample(range(0, 1_000_000, 7000), 30))
    values = np.zeros(len(times))
    histograms = np.full(len(times), None, object)
    least = 0
    for place in range(len(times)):
        kind = random.random()
        least = least + random.randint(0, 3) if random.random() < 0.9 else 0
        if kind < 0.05:
            values[place] = MARKER
        elif name.startswith("mix") and kind < 0.6:
            values[place] = float(least)
        else:
            histograms[place] = _histogram(random, name.startswith("c"), least)
    return Series(labels(name), np.array(times, np.int64), values, histograms)


def _source() -> MemorySource:
    random = Random(7)
    return MemorySource.of(
        _series(random, f"{name} job={job} i={i}") for name in ("h", "c", "mix") for job in "ab" for i in "12"
    )


def _cells(result: Result) -> dict[tuple[Labels, int], object]:
    """Every value of an answer, as text: what is not a number is not even equal to itself."""
    value = result.value
    if isinstance(value, Vector):
        histograms = [None] * len(value.labels) if value.histograms is None else value.histograms.tolist()
        rows = zip(value.labels, value.values.tolist(), histograms, strict=True)
        return {
            (one, value.time_ms): str(number if histogram is None else histogram) for one, number, histogram in rows
        }
    assert isinstance(value, SeriesBlock)
    shown = np.repeat(np.arange(len(value.axis)), np.diff(value.offsets)).tolist()
    histograms = [None] * len(shown) if value.histograms is None else value.histograms.tolist()
    samples = zip(shown, value.timestamps.tolist(), value.values.tolist(), histograms, strict=True)
    return {
        (value.axis.shown[row], time_ms): str(number if histogram is None else histogram)
        for row, time_ms, number, histogram in samples
    }


@pytest.mark.parametrize("query", QUERIES)
def test_blocks_of_histograms_may_be_cut_anywhere(query: str) -> None:
    source = _source()
    with Engine(threads=1) as engine:
        whole = engine.range([source], query, START_MS, END_MS, STEP_MS)
    assert _cells(whole) or whole.warnings or whole.infos
    for cells in (1, 7):
        with Engine(EngineOptions(limits=Limits(block_cells=cells)), threads=1) as engine:
            pieces = engine.range([source], query, START_MS, END_MS, STEP_MS)
        assert _cells(pieces) == _cells(whole)
        assert (pieces.warnings, pieces.infos) == (whole.warnings, whole.infos)


@pytest.mark.parametrize("query", QUERIES)
def test_each_step_of_histograms_is_an_instant_query_of_its_own(query: str) -> None:
    source = _source()
    with Engine(threads=1) as engine:
        whole = _cells(engine.range([source], query, START_MS, END_MS, STEP_MS))
        for time_ms in range(START_MS, END_MS, STEP_MS):
            step = {cell: value for cell, value in whole.items() if cell[1] == time_ms}
            assert _cells(engine.instant([source], query, time_ms)) == step

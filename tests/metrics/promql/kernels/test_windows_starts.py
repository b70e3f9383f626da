"""Rates, increases and resets of samples with start timestamps, against a plain model: one window at a time.

The model works with a list of pairs and the rules as they are told in docs/promql.md; it shares no code with the
kernels.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.promql.blocks import Axis, Grid, SeriesBlock
from quarterdeck.metrics.promql.engine import Engine
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.kernels.windows import WindowFunction as Fn
from quarterdeck.metrics.promql.kernels.windows import over_windows
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.result import Vector


class Point(NamedTuple):
    time: int
    value: float
    start: int


def is_restart(before: Point, after: Point) -> bool:
    if after.start == 0 or after.start >= after.time:
        return False
    if after.start == before.time:
        return before.start != 0 and before.start < before.time
    return after.start > before.time


def is_reset(before: Point, after: Point) -> bool:
    return after.value < before.value or is_restart(before, after)


def model_increase(window: Sequence[Point], begin_ms: int, end_ms: int, per_s: float = 1.0) -> float | None:
    """As `increase`, or as `rate` over so many seconds; None: no result."""
    if not window:
        return None
    first, last = window[0], window[-1]
    begins = first.start != 0 and begin_ms < first.start < first.time
    if len(window) == 1 and not begins:
        return None
    change = last.value - first.value
    for before, after in pairwise(window):
        if is_reset(before, after):
            change += before.value
    sampled_s = (last.time - first.time) / 1000
    gap_s = sampled_s / (len(window) - 1) if len(window) > 1 else 0.0
    to_end_s = (end_ms - last.time) / 1000
    if to_end_s >= gap_s * 1.1:
        to_end_s = gap_s / 2
    if begins:
        change += first.value
        sampled_s, to_start_s = (last.time - first.start) / 1000, 0.0
    else:
        to_start_s = (first.time - begin_ms) / 1000
        if to_start_s >= gap_s * 1.1:
            to_start_s = gap_s / 2
        if change > 0 and first.value >= 0:
            to_zero_s = sampled_s * (first.value / change)
            to_start_s = min(to_start_s, to_zero_s)
    return change * ((sampled_s + to_start_s + to_end_s) / sampled_s / per_s)


def model_irate(window: Sequence[Point]) -> float | None:
    if len(window) < 2:
        return None
    before, after = window[-2:]
    change = after.value if is_reset(before, after) else after.value - before.value
    return change / ((after.time - before.time) / 1000)


def model_resets(window: Sequence[Point]) -> float | None:
    return float(sum(is_reset(before, after) for before, after in pairwise(window))) if window else None


def series_of(start_ms: int, drawn: Sequence[tuple[int, float, str, int]]) -> list[Point]:
    """Start timestamps that mean something: far off, as the sample before, at it, just after it, at the sample itself,
    after it, or none."""
    points: list[Point] = []
    time = start_ms
    for gap, value, kind, off in drawn:
        before = points[-1].time if points else time
        time += gap
        starts = {
            "none": 0,
            "same": points[-1].start if points else 0,
            "previous": before,
            "after previous": before + 1,
            "self": time,
            "late": time + off,
            "any": time - off,
        }
        points.append(Point(time, value, starts[kind]))
    return points


values = st.one_of(
    st.integers(0, 9).map(float),
    st.integers(0, 9).map(float),
    st.floats(-1e6, 1e6),
    st.sampled_from([math.nan, math.inf, -math.inf, 1.7e308, -0.0]),
)
kinds = st.sampled_from(["none", "same", "previous", "after previous", "self", "late", "any"])
a_series = st.builds(
    series_of,
    st.integers(-5000, 5000),
    st.lists(
        st.tuples(st.sampled_from([1, 500, 1000, 1000, 9000]), values, kinds, st.sampled_from([1, 700, 5000, 2**62])),
        max_size=14,
    ),
)
grids = st.builds(Grid, st.integers(-8000, 40_000), st.sampled_from([1, 700, 1000, 5000]), st.integers(1, 10))
ranges = st.sampled_from([1, 300, 1000, 2500, 7001, 200_000])


def block_of(series: Sequence[Sequence[Point]]) -> SeriesBlock:
    flat = [point for points in series for point in points]
    return SeriesBlock(
        Axis.of(()),
        np.cumsum([0, *(len(points) for points in series)], dtype=np.int64),
        np.array([point.time for point in flat], np.int64),
        np.array([point.value for point in flat], np.float64),
        None,
        np.array([point.start for point in flat], np.int64),
    )


def window_of(points: Sequence[Point], end_ms: int, range_ms: int) -> list[Point]:
    return [point for point in points if end_ms - range_ms < point.time <= end_ms]


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@settings(max_examples=400, deadline=None)
@given(st.lists(a_series, min_size=1, max_size=3), grids, ranges, st.sampled_from([0, -3000, 1500]))
def test_the_kernels_do_what_the_plain_model_does(
    series: list[list[Point]], grid: Grid, range_ms: int, offset_ms: int
) -> None:
    block = block_of(series)
    with Threads(2) as threads, np.errstate(all="ignore"):
        for function in (Fn.INCREASE, Fn.RATE, Fn.IRATE):
            found, present = over_windows(function, block, grid, range_ms, threads, offset_ms=offset_ms)
            for row, points in enumerate(series):
                for step, time in enumerate(grid.times().tolist()):
                    end_ms = time - offset_ms
                    window = window_of(points, end_ms, range_ms)
                    if function is Fn.IRATE:
                        wanted = model_irate(window)
                    else:
                        per_s = range_ms / 1000 if function is Fn.RATE else 1.0
                        wanted = model_increase(window, end_ms - range_ms, end_ms, per_s)
                    assert present[row, step] == (wanted is not None)
                    if wanted is None:
                        continue
                    if function is Fn.RATE:
                        assert found[row, step] == pytest.approx(wanted, rel=1e-12, nan_ok=True)
                    else:
                        assert same(found[row, step], wanted)


@settings(max_examples=150, deadline=None)
@given(a_series, st.integers(0, 40_000), ranges)
def test_resets_are_counted_as_the_plain_model_does(points: list[Point], time_ms: int, range_ms: int) -> None:
    if not points:
        return
    columns = zip(*points, strict=True)
    times, found, starts = (np.array(column) for column in columns)
    series = Series(
        (("__name__", "m"),), times.astype(np.int64), found.astype(np.float64), None, starts.astype(np.int64)
    )
    with Engine() as engine:
        answer = engine.instant([MemorySource.of([series])], f"resets(m[{range_ms}ms])", time_ms)
    assert isinstance(answer.value, Vector)
    wanted = model_resets(window_of(points, time_ms, range_ms))
    assert answer.value.values.tolist() == ([] if wanted is None else [wanted])


@settings(max_examples=100, deadline=None)
@given(st.lists(a_series, min_size=1, max_size=3), grids, ranges)
def test_starts_that_say_nothing_change_nothing(series: list[list[Point]], grid: Grid, range_ms: int) -> None:
    """To the last bit: neither the kernels for samples without starts nor those for samples with them are favoured."""
    block = block_of([[point._replace(start=0) for point in points] for points in series])
    with Threads(1) as threads:
        for function in (Fn.INCREASE, Fn.RATE, Fn.IRATE):
            found = over_windows(function, block, grid, range_ms, threads)
            wanted = over_windows(function, replace(block, starts=None), grid, range_ms, threads)
            np.testing.assert_array_equal(found[0].view(np.int64), wanted[0].view(np.int64))
            np.testing.assert_array_equal(found[1], wanted[1])


def test_many_steps_are_cut_into_pieces_and_start_timestamps_count_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    points = series_of(0, [(1000, float(at), "previous" if at % 3 else "none", 0) for at in range(50)])
    block = block_of([points])
    grid = Grid(0, 1000, 60)
    with Threads(1) as threads:
        whole = over_windows(Fn.INCREASE, block, grid, 7000, threads)
        monkeypatch.setattr("quarterdeck.metrics.promql.kernels.windows._SERIES_WORK", 10)
        cut = over_windows(Fn.INCREASE, block, grid, 7000, threads)
    np.testing.assert_array_equal(cut[0], whole[0])
    np.testing.assert_array_equal(cut[1], whole[1])

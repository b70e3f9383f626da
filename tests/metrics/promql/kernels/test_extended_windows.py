"""Windows that know the samples around them, against a reference: one window at a time, in plain Python."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.promql.blocks import Grid
from quarterdeck.metrics.promql.kernels.compile import kernels
from quarterdeck.metrics.promql.kernels.extended import (
    over_extended_windows,
    smoothed_instant,
    warm_extended_windows,
)
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.kernels.windows import WindowFunction as Fn
from tests.metrics.promql.kernels.test_windows import a_series, block_of, grids, long_series, ranges, same
from tests.metrics.promql.kernels.windows_reference import Samples

lookbacks = st.sampled_from([1, 900, 5000, 300_000])
ASKED = [
    *((function, smoothed) for function in (Fn.RATE, Fn.INCREASE, Fn.DELTA) for smoothed in (False, True)),
    (Fn.RESETS, False),
    (Fn.CHANGES, False),
]


def between(one: tuple[int, float], other: tuple[int, float], time_ms: int, is_counter: bool) -> float:
    start = 0.0 if is_counter and other[1] < one[1] else one[1]
    return start + (other[1] - start) * float(time_ms - one[0]) / float(other[0] - one[0])


def differs(function: Fn, one: float, other: float) -> bool:
    if function is Fn.RESETS:
        return other < one
    return one != other and not (math.isnan(one) and math.isnan(other))


def transitions(function: Fn, samples: Samples, begin_ms: int) -> float | None:
    before = [sample for sample in samples if sample[0] <= begin_ms]
    inside = [sample for sample in samples if sample[0] > begin_ms]
    if not inside:
        return None
    counted = [*before[-1:], *inside]
    return float(sum(differs(function, one[1], other[1]) for one, other in itertools.pairwise(counted)))


def reference(
    function: Fn, series: Samples, end_ms: int, range_ms: int, lookback_ms: int, smoothed: bool
) -> float | None:
    begin_ms = end_ms - range_ms
    limit_ms = end_ms + lookback_ms if smoothed else end_ms
    samples = [sample for sample in series if begin_ms - lookback_ms < sample[0] <= limit_ms]
    if function in (Fn.RESETS, Fn.CHANGES):
        return transitions(function, samples, begin_ms)
    first = max((at for at, sample in enumerate(samples) if sample[0] <= begin_ms), default=0)
    last = len(samples) - 1
    if smoothed:
        last = next((at for at, sample in enumerate(samples) if sample[0] >= end_ms), last)
    if last < 0 or samples[last][0] <= begin_ms or (smoothed and samples[first][0] > end_ms):
        return None
    is_counter = function is not Fn.DELTA
    left, right = samples[first][1], samples[last][1]
    if smoothed and samples[first][0] < begin_ms:
        left = between(samples[first], samples[first + 1], begin_ms, is_counter)
    if samples[last][0] > end_ms:
        right = between(samples[last - 1], samples[last], end_ms, is_counter)
    change = right - left
    if is_counter:
        within = [value for time_ms, value in samples if begin_ms < time_ms < end_ms]
        reached, previous = 0.0, left
        for value in [*within, right]:
            reached += previous if value < previous else 0.0
            previous = value
        change += reached
    return change / (range_ms / 1000) if function is Fn.RATE else change


def check(function: Fn, smoothed: bool, series: list[Samples], grid: Grid, range_ms: int, lookback_ms: int) -> None:
    with Threads(1) as threads:
        block = block_of(series)
        got, present = over_extended_windows(function, block, grid, range_ms, lookback_ms, threads, smoothed=smoothed)
    for row, samples in enumerate(series):
        for step, time_ms in enumerate(grid.times().tolist()):
            expected = reference(function, samples, time_ms, range_ms, lookback_ms, smoothed)
            where = (row, step, samples, got[row, step], expected)
            assert present[row, step] == (expected is not None), where
            assert same(float(got[row, step]), math.nan if expected is None else expected, 0), where


@pytest.mark.parametrize("function, smoothed", ASKED)
def test_windows_with_edges_give_bit_for_bit_what_the_reference_gives(function: Fn, smoothed: bool) -> None:
    @settings(max_examples=80, deadline=None)
    @given(st.lists(a_series, max_size=3), grids, ranges, lookbacks)
    def run(series: list[Samples], grid: Grid, range_ms: int, lookback_ms: int) -> None:
        check(function, smoothed, series, grid, range_ms, lookback_ms)

    run()


@pytest.mark.parametrize("function, smoothed", ASKED)
def test_many_windows_over_long_series_give_what_the_reference_gives(function: Fn, smoothed: bool) -> None:
    check(function, smoothed, long_series(seed=5), Grid(-5_000, 7_000, 90), 20_000, 15_000)


@settings(max_examples=150, deadline=None)
@given(st.lists(a_series, max_size=3), grids, lookbacks)
def test_a_smoothed_instant_lies_between_the_samples_around_it(
    series: list[Samples], grid: Grid, lookback_ms: int
) -> None:
    with Threads(1) as threads:
        got, present = smoothed_instant(block_of(series), grid, lookback_ms, threads)
    for row, samples in enumerate(series):
        for step, time_ms in enumerate(grid.times().tolist()):
            before = [sample for sample in samples if time_ms - lookback_ms < sample[0] <= time_ms]
            following = [sample for sample in samples if time_ms <= sample[0] <= time_ms + lookback_ms]
            assert present[row, step] == bool(before)
            if not before:
                assert math.isnan(got[row, step])
            elif not following or before[-1][0] == time_ms:
                assert same(float(got[row, step]), before[-1][1], 0)
            else:
                assert same(float(got[row, step]), between(before[-1], following[0], time_ms, False), 0)


def test_only_functions_of_change_know_the_samples_around_a_window() -> None:
    with Threads(1) as threads:
        for function, smoothed in ((Fn.SUM, False), (Fn.RESETS, True)):
            with pytest.raises(ValueError, match="does not know the samples around a window"):
                over_extended_windows(function, block_of([]), Grid(0, 1, 1), 1, 1, threads, smoothed=smoothed)


def test_anchored_and_smoothed_share_one_compiled_form() -> None:
    warm_extended_windows()
    check(Fn.RATE, False, [[(0, 1.0), (1000, 2.0)]], Grid(1000, 1000, 2), 1000, 1000)
    assert [each.is_loaded for each in kernels() if "extended_windows" in each.name] == [True] * 3

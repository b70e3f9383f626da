"""The window functions against the reference: one window at a time, in plain Python."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.promql.blocks import STALE_BITS, Axis, Grid, SeriesBlock
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.kernels.windows import WindowFunction as Fn
from quarterdeck.metrics.promql.kernels.windows import instant, over_windows, window_bounds
from tests.metrics.promql.kernels.windows_reference import Samples, evaluate, exact_variance, rounding

PARAMETERS = {Fn.QUANTILE: 1, Fn.PREDICT_LINEAR: 1, Fn.DOUBLE_EXPONENTIAL: 2}

SPREADS = {Fn.STDVAR, Fn.STDDEV}
"""Where the last bits may differ."""
ROUNDED = {Fn.SUM, Fn.AVG, Fn.DERIV, Fn.PREDICT_LINEAR, *SPREADS}
"""Where they may as well when large windows share work."""

values = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 1e301, 0.0, -0.0, 5e-324]),
    st.integers(-5, 5).map(float),
    st.integers(-5, 5).map(float),
    st.floats(-1e6, 1e6),
    st.floats(1e306, 1e308),
)
a_series = st.tuples(
    st.integers(-5000, 5000), st.lists(st.tuples(st.sampled_from([1, 500, 1000, 1000, 9000]), values), max_size=14)
).map(lambda drawn: series_from(*drawn))
grids = st.builds(Grid, st.integers(-8000, 40_000), st.sampled_from([1, 700, 1000, 5000]), st.integers(1, 10))
ranges = st.sampled_from([1, 300, 1000, 2500, 7001, 200_000])
offsets = st.sampled_from([0, 0, -3000, 1500, 60_000])


def series_from(start_ms: int, gaps: Sequence[tuple[int, float]]) -> Samples:
    time_ms = start_ms
    samples: list[tuple[int, float]] = []
    for gap_ms, value in gaps:
        time_ms += gap_ms
        samples.append((time_ms, value))
    return samples


def block_of(series: Sequence[Samples]) -> SeriesBlock:
    flat = [sample for samples in series for sample in samples]
    return SeriesBlock(
        Axis.of(()),
        np.cumsum([0, *(len(samples) for samples in series)], dtype=np.int64),
        np.array([t for t, _ in flat], np.int64),
        np.array([v for _, v in flat], np.float64),
    )


def check(
    function: Fn,
    series: Sequence[Samples],
    grid: Grid,
    range_ms: int,
    offset_ms: int,
    parameters: Sequence[Sequence[float]],
    tolerance: float,
) -> None:
    """Every cell of the kernel's against the reference's: with no tolerance to the last bit."""
    rows = tuple(np.array(parameter, np.float64) for parameter in parameters)
    with Threads(1) as threads:
        got, present = over_windows(function, block_of(series), grid, range_ms, threads, rows, offset_ms)
    assert got.shape == present.shape == (len(series), grid.count)
    for row, samples in enumerate(series):
        for step, time_ms in enumerate(grid.times().tolist()):
            at_step = [parameter[step] for parameter in parameters]
            expected = evaluate(function, samples, time_ms, range_ms, offset_ms, at_step)
            where = (row, step, samples, got[row, step], expected)
            assert present[row, step] == (expected is not None), where
            if expected is None:
                assert math.isnan(got[row, step]), where
            elif tolerance == 0:
                assert same(float(got[row, step]), expected, 0), where
            else:
                end_ms = time_ms - offset_ms
                window = [(t, v) for t, v in samples if end_ms - range_ms < t <= end_ms]
                allowed = tolerance * abs(expected) + rounding(function, window, time_ms, expected, at_step)
                assert same(float(got[row, step]), expected, allowed), where


def same(got: float, expected: float, allowed: float) -> bool:
    if math.isnan(expected):
        return math.isnan(got)
    return got == expected or abs(got - expected) <= allowed


@pytest.mark.parametrize("function", Fn)
def test_small_windows_give_what_the_reference_gives_bit_for_bit_but_for_spreads(function: Fn) -> None:
    phis = st.one_of(st.floats(0, 1), st.sampled_from([0.5, -1.0, 2.0, math.nan]))
    factors = st.floats(0.01, 0.99) if function is Fn.DOUBLE_EXPONENTIAL else phis

    @settings(max_examples=40, deadline=None)
    @given(st.data(), st.lists(a_series, max_size=3), grids, ranges, offsets)
    def run(data: st.DataObject, series: list[Samples], grid: Grid, range_ms: int, offset_ms: int) -> None:
        one_each = st.lists(factors, min_size=grid.count, max_size=grid.count)
        parameters = [data.draw(one_each) for _ in range(PARAMETERS.get(function, 0))]
        check(function, series, grid, range_ms, offset_ms, parameters, tolerance=1e-12 if function in SPREADS else 0)

    run()


def long_series(seed: int) -> list[Samples]:
    """Eight series of some hundred samples: what makes windows that share work go astray."""
    rng = np.random.default_rng(seed)
    times = (np.cumsum(rng.choice([1000, 1000, 1000, 2000, 45_000], 400, p=[0.5, 0.2, 0.2, 0.09, 0.01]))).tolist()
    gauge = rng.normal(10, 3, 400)
    counter = np.cumsum(rng.random(400) * 5)
    counter[250:] -= counter[250]
    few_values = rng.integers(0, 3, 400).astype(np.float64)
    around_a_large_number = 1e6 + rng.normal(0, 100, 400)
    spikes = np.where(rng.random(400) < 0.02, 1e12, gauge)
    constant = np.full(400, 0.1)
    holes = np.where(rng.random(400) < 0.2, np.nan, gauge)
    holes[100:180] = np.nan
    wild = rng.choice(np.array([1.0, -2.0, 3.5, np.nan, np.inf, -np.inf, 1.7e308]), 400)
    rows = [gauge, counter, few_values, around_a_large_number, spikes, constant, holes, wild]
    return [list(zip(times, row.tolist(), strict=True)) for row in rows]


@pytest.mark.parametrize("range_ms", [20_000, 100_000, 10_000_000])
@pytest.mark.parametrize("function", Fn)
def test_large_windows_that_overlap_give_what_the_reference_gives(function: Fn, range_ms: int) -> None:
    grid = Grid(-5_000, 7_000, 90)
    series = long_series(seed=3)
    parameters = [[0.1 + 0.8 * (step % 7) / 7 for step in range(grid.count)]] * PARAMETERS.get(function, 0)
    if function in SPREADS:
        series.pop(4)  # with spikes Prometheus' own rounding is larger; see below
    check(function, series, grid, range_ms, 0, parameters, tolerance=1e-12 if function in ROUNDED else 0)


@pytest.mark.parametrize("step_ms", [1_000, 30_000, 120_000])
def test_sorted_windows_are_right_however_far_they_move(step_ms: int) -> None:
    grid = Grid(60_000, step_ms, 25)
    for function in (Fn.QUANTILE, Fn.MAD):
        parameters = [[0.9] * grid.count] * PARAMETERS.get(function, 0)
        check(function, long_series(seed=5), grid, 130_000, 0, parameters, tolerance=0)


def test_windows_of_thousands_of_samples_give_what_the_reference_gives() -> None:
    rng = np.random.default_rng(8)
    numbers = np.where(rng.random(9000) < 0.1, np.nan, rng.normal(-5, 1e3, 9000)).tolist()
    samples = [(1000 * at, number) for at, number in enumerate(numbers)]
    grid = Grid(6_500_000, 100_000, 15)
    for phi in (0.0, 0.05, 0.3, 0.99, 1.0):
        check(Fn.QUANTILE, [samples], grid, 6_000_000, 0, [[phi] * grid.count], tolerance=0)
    check(Fn.MAD, [samples], grid, 6_000_000, 0, [], tolerance=0)
    check(Fn.MAX, [samples], grid, 6_000_000, 0, [], tolerance=0)


@pytest.mark.parametrize("series", range(6))
def test_variance_of_large_windows_is_right_to_twelve_digits(series: int) -> None:
    samples = long_series(seed=4)[series]
    grid = Grid(60_000, 3_000, 100)
    with Threads(1) as threads:
        got, present = over_windows(Fn.STDVAR, block_of([samples]), grid, 60_000, threads)
    assert present.all()
    for step, time_ms in enumerate(grid.times().tolist()):
        expected = exact_variance([v for t, v in samples if time_ms - 60_000 < t <= time_ms])
        assert got[0, step] == pytest.approx(expected, rel=1e-12, abs=0), (step, time_ms)


def test_sums_of_large_windows_are_the_exact_ones_rounded() -> None:
    for samples in long_series(seed=6)[:6]:
        grid = Grid(60_000, 3_000, 100)
        with Threads(1) as threads:
            got, _ = over_windows(Fn.SUM, block_of([samples]), grid, 60_000, threads)
        for step, time_ms in enumerate(grid.times().tolist()):
            assert got[0, step] == math.fsum(v for t, v in samples if time_ms - 60_000 < t <= time_ms)


def test_a_mean_whose_sum_overflows_keeps_what_rounding_took() -> None:
    numbers = np.random.default_rng(1).normal(1e307, 1e306, 60).tolist()
    grid = Grid(0, 1000, 60)
    check(Fn.AVG, [[(1000 * at, number) for at, number in enumerate(numbers)]], grid, 100_000, 0, [], tolerance=0)


@pytest.mark.parametrize("function, at_three", [(Fn.DERIV, 0.0), (Fn.PREDICT_LINEAR, 3.0)])
def test_a_level_line_has_no_slope_unless_it_is_at_infinity(function: Fn, at_three: float) -> None:
    series = [[(0, 3.0), (1000, 3.0)], [(0, math.inf), (1000, math.inf)]]
    parameters = (np.full(1, 60.0),) * PARAMETERS.get(function, 0)
    with Threads(1) as threads:
        got, present = over_windows(function, block_of(series), Grid(1000, 1, 1), 5000, threads, parameters)
    assert present.all()
    assert got[0, 0] == at_three
    assert math.isnan(got[1, 0])


def test_of_zeros_with_two_signs_the_first_is_the_extreme() -> None:
    series = [[(0, 0.0), (1, -0.0)], [(0, -0.0), (1, 0.0)]]
    with Threads(1) as threads:
        for function in (Fn.MIN, Fn.MAX):
            got, _ = over_windows(function, block_of(series), Grid(1, 1, 1), 10, threads)
            assert np.signbit(got).tolist() == [[False], [True]]


def test_a_call_without_series_or_without_steps_gives_an_empty_result() -> None:
    block = block_of([[(0, 1.0), (1, 2.0)]])
    with Threads(2) as threads:
        for function in Fn:
            parameters = tuple(np.zeros(3) for _ in range(PARAMETERS.get(function, 0)))
            assert over_windows(function, SeriesBlock.empty(), Grid(0, 1, 3), 10, threads, parameters)[0].shape == (
                0,
                3,
            )
            parameters = tuple(np.zeros(0) for _ in parameters)
            assert over_windows(function, block, Grid(0, 1, 0), 10, threads, parameters)[0].shape == (1, 0)
        assert instant(SeriesBlock.empty(), Grid(0, 1, 3), 10, threads)[0].shape == (0, 3)
        assert window_bounds(SeriesBlock.empty(), Grid(0, 1, 3), 10, threads)[0].shape == (0, 3)


def test_a_missing_or_surplus_parameter_is_an_error() -> None:
    with Threads(1) as threads:
        with pytest.raises(ValueError, match="quantile takes 1 parameters, not 0"):
            over_windows(Fn.QUANTILE, SeriesBlock.empty(), Grid(0, 1, 1), 10, threads)
        with pytest.raises(ValueError, match="rate takes 0 parameters, not 1"):
            over_windows(Fn.RATE, SeriesBlock.empty(), Grid(0, 1, 1), 10, threads, (np.zeros(1),))


@settings(max_examples=100, deadline=None)
@given(st.lists(a_series, max_size=3), grids, ranges, offsets)
def test_bounds_are_those_of_the_left_open_window(
    series: list[Samples], grid: Grid, range_ms: int, offset_ms: int
) -> None:
    block = block_of(series)
    with Threads(1) as threads:
        lows, highs = window_bounds(block, grid, range_ms, threads, offset_ms)
    for row, samples in enumerate(series):
        for step, time_ms in enumerate(grid.times().tolist()):
            end_ms = time_ms - offset_ms
            within = [t for t, _ in samples if end_ms - range_ms < t <= end_ms]
            assert block.timestamps[lows[row, step] : highs[row, step]].tolist() == within
            assert block.offsets[row] <= lows[row, step] <= highs[row, step] <= block.offsets[row + 1]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(a_series, max_size=3), grids, ranges, offsets)
def test_instant_takes_the_last_sample_unless_it_is_old_or_stale(
    data: st.DataObject, series: list[Samples], grid: Grid, lookback_ms: int, offset_ms: int
) -> None:
    block = block_of(series)
    stale = data.draw(st.lists(st.booleans(), min_size=len(block.values), max_size=len(block.values)))
    block.values.view(np.uint64)[np.array(stale, np.bool_)] = STALE_BITS
    with Threads(1) as threads:
        got, present, found = instant(block, grid, lookback_ms, threads, offset_ms)
    for row in range(len(series)):
        for step, time_ms in enumerate(grid.times().tolist()):
            end_ms = time_ms - offset_ms
            low, high = block.offsets[row], block.offsets[row + 1]
            within = [at for at in range(low, high) if end_ms - lookback_ms < block.timestamps[at] <= end_ms]
            if within and not stale[within[-1]]:
                assert present[row, step]
                assert found[row, step] == within[-1]
                assert same(got[row, step], block.values[within[-1]], 0)
            else:
                assert not present[row, step]
                assert found[row, step] == -1
                assert math.isnan(got[row, step])

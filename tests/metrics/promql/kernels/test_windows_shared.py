"""Lines, spreads and smoothings of windows that overlap: what they share must not show in the results."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.promql.blocks import F64, I64, Grid
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.kernels.windows import WindowFunction as Fn
from quarterdeck.metrics.promql.kernels.windows import over_windows
from tests.metrics.promql.kernels.test_windows import PARAMETERS, block_of, check
from tests.metrics.promql.kernels.windows_reference import Samples, exact_line, exact_variance

NOW_MS = 1_700_000_000_000
SHAPES = ("noise", "counter", "resets", "few values", "constant", "constant in parts", "spikes", "a NaN", "infinities")
LINES = (Fn.DERIV, Fn.PREDICT_LINEAR)

grids = st.builds(
    Grid, st.integers(NOW_MS - 20_000, NOW_MS + 60_000), st.sampled_from([500, 1000, 3000, 30_000]), st.integers(1, 25)
)
ranges = st.sampled_from([1500, 2000, 10_000, 25_000, 60_000, 1_000_000])
offsets = st.sampled_from([0, 0, 5000, -7000, 100_000_000])


def values_of(rng: np.random.Generator, shape: str, count: int) -> F64:
    numbers = rng.normal(0, 1, count)
    counter = np.cumsum(rng.random(count))
    half = count // 2
    match shape:
        case "noise":
            return numbers
        case "counter":
            return counter
        case "resets":
            return np.concatenate([counter[:half], counter[half:] - counter[half]])
        case "few values":
            return rng.integers(-1, 2, count).astype(np.float64)
        case "constant":
            return np.full(count, 0.1)
        case "constant in parts":
            return np.repeat(rng.normal(0, 1, count), 40)[:count]
        case "spikes":
            return np.where(rng.random(count) < 0.05, 1e9, numbers)
        case "a NaN":
            return np.where(np.arange(count) == half, np.nan, numbers)
        case _:
            return np.where(rng.random(count) < 0.1, np.inf, numbers)


def times_of(rng: np.random.Generator, count: int) -> I64:
    """About one a second from now on, with gaps."""
    gaps = rng.choice([1000, 1000, 997, 1003, 1, 40_000], count, p=[0.5, 0.17, 0.15, 0.15, 0.01, 0.02])
    return NOW_MS + np.cumsum(gaps, dtype=np.int64)


def samples_of(rng: np.random.Generator, shape: str, count: int, base: float, scale: float) -> Samples:
    numbers = base + scale * values_of(rng, shape, count)
    return list(zip(times_of(rng, count).tolist(), numbers.tolist(), strict=True))


@st.composite
def a_series(draw: st.DrawFn) -> Samples:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    base = draw(st.sampled_from([0.0, 0.0, -3.0, 1e6, 1e12]))
    scale = draw(st.sampled_from([1.0, 1.0, 1e-3, 1e4, 1e-290, 1e100, 1e240]))
    return samples_of(rng, draw(st.sampled_from(SHAPES)), 90, base, scale)


def windows_of(samples: Samples, grid: Grid, range_ms: int) -> Sequence[Samples]:
    return [[(t, v) for t, v in samples if end - range_ms < t <= end] for end in grid.times().tolist()]


@pytest.mark.parametrize("function", [Fn.DERIV, Fn.PREDICT_LINEAR, Fn.STDVAR, Fn.STDDEV])
def test_windows_that_move_give_what_the_reference_gives(function: Fn) -> None:
    @settings(max_examples=60, deadline=None)
    @given(a_series(), grids, ranges, offsets, st.floats(-1e4, 1e4))
    def run(samples: Samples, grid: Grid, range_ms: int, offset_ms: int, seconds: float) -> None:
        parameters = [[seconds] * grid.count] * PARAMETERS.get(function, 0)
        check(function, [samples], grid, range_ms, offset_ms, parameters, tolerance=1e-12)

    run()


@settings(max_examples=100, deadline=None)
@given(st.data(), a_series(), grids, ranges)
def test_smoothings_side_by_side_are_bit_for_bit_those_of_one_window_at_a_time(
    data: st.DataObject, samples: Samples, grid: Grid, range_ms: int
) -> None:
    factor = st.floats(0.01, 0.99)
    parameters = [[data.draw(factor)] * grid.count for _ in range(2)]
    if data.draw(st.integers(0, 3)) == 0:
        parameters[data.draw(st.integers(0, 1))] = data.draw(st.lists(factor, min_size=grid.count, max_size=grid.count))
    check(Fn.DOUBLE_EXPONENTIAL, [samples], grid, range_ms, 0, parameters, tolerance=0)


@pytest.mark.parametrize(
    "base, scale", [(0.0, 1.0), (0.0, 1e9), (1e12, 1.0), (-1e12, 1e3), (0.0, 1e-280), (0.0, 1e240)]
)
@pytest.mark.parametrize("shape", ["noise", "counter", "resets", "few values", "constant in parts", "spikes"])
def test_a_shared_line_is_right_to_fourteen_digits_of_what_the_window_spans(
    shape: str, base: float, scale: float
) -> None:
    """However large the values are beside their differences; the windows are of up to six hours at 15 s."""
    rng = np.random.default_rng(11)
    times = (NOW_MS + 15 * (times_of(rng, 1440) - NOW_MS)).tolist()
    samples = list(zip(times, (base + scale * values_of(rng, shape, 1440)).tolist(), strict=True))
    for range_ms, grid in (
        (1_200_000, Grid(NOW_MS + 3_000_000, 200_000, 20)),
        (21_600_000, Grid(NOW_MS + 8_000_000, 1_500_000, 15)),
    ):
        with Threads(1) as threads:
            slopes, _ = over_windows(Fn.DERIV, block_of([samples]), grid, range_ms, threads)
            ahead, present = over_windows(
                Fn.PREDICT_LINEAR, block_of([samples]), grid, range_ms, threads, (np.full(grid.count, 600.0),)
            )
        for step, window in enumerate(windows_of(samples, grid, range_ms)):
            if len(window) < 2:
                assert not present[0, step]
                continue
            values = [v for _, v in window]
            slope, level = exact_line(window, int(grid.times()[step]))
            span_s = (window[-1][0] - window[0][0]) / 1000
            per_s = 1e-14 * (max(values) - min(values)) / span_s
            assert abs(Fraction(float(slopes[0, step])) - slope) <= per_s, (step, slopes[0, step], float(slope))
            # Where one line is evaluated, its value is rounded as well.
            away_s = 600 + abs(int(grid.times()[step]) - window[0][0]) / 1000
            expected = slope * 600 + level
            allowed = per_s * (span_s + away_s) + 1e-15 * max(map(abs, values)) + 1e-15 * abs(float(expected))
            assert abs(Fraction(float(ahead[0, step])) - expected) <= allowed, (step, ahead[0, step], float(expected))


@pytest.mark.parametrize("level", [0.1, -3.0, 1e12, 1e-300, 1e249])
def test_constant_windows_within_a_series_that_changes_are_exactly_level(level: float) -> None:
    values = [level * (1 + at / 50) for at in range(50)] + [level] * 100 + [level * 2.5] * 60
    samples = [(NOW_MS + 1000 * at, value) for at, value in enumerate(values)]
    grid = Grid(NOW_MS, 2000, 105)
    seconds = (np.full(grid.count, 1e6),)
    with Threads(1) as threads:
        slopes, _ = over_windows(Fn.DERIV, block_of([samples]), grid, 30_000, threads)
        ahead, _ = over_windows(Fn.PREDICT_LINEAR, block_of([samples]), grid, 30_000, threads, seconds)
        small, _ = over_windows(Fn.STDDEV, block_of([samples]), grid, 6_000, threads)
        large, _ = over_windows(Fn.STDDEV, block_of([samples]), grid, 30_000, threads)
    level_windows = 0
    for step, window in enumerate(windows_of(samples, grid, 30_000)):
        if len(window) >= 2 and len({v for _, v in window}) == 1:
            level_windows += 1
            assert slopes[0, step] == 0.0
            assert ahead[0, step] == window[0][1]
            if abs(level) < 1e140:  # else as Prometheus does it
                assert large[0, step] == small[0, step] == 0.0
        elif len(window) >= 2:
            assert slopes[0, step] != 0.0
    assert level_windows > 40


def test_zeros_with_two_signs_make_a_level_line_with_the_sign_of_the_first() -> None:
    samples = [(NOW_MS + 1000 * at, -0.0 if at % 3 else 0.0) for at in range(100)]
    grid = Grid(NOW_MS + 40_000, 1000, 50)
    with Threads(1) as threads:
        ahead, _ = over_windows(
            Fn.PREDICT_LINEAR, block_of([samples]), grid, 30_000, threads, (np.full(grid.count, -1.0),)
        )
    firsts = [math.copysign(1, window[0][1]) for window in windows_of(samples, grid, 30_000)]
    assert [math.copysign(1, value) for value in ahead[0].tolist()] == firsts


@pytest.mark.parametrize("function", [*LINES, Fn.STDVAR, Fn.STDDEV])
@pytest.mark.parametrize(
    "odd", [[math.inf], [-math.inf], [1.7e308, -1.7e308], [1e300, 2e300], [math.nan], [0.0, 1e251]]
)
def test_values_that_overflow_are_bit_for_bit_as_in_the_reference(function: Fn, odd: list[float]) -> None:
    values = [0.5 * at for at in range(60)] + odd * (60 // len(odd)) + [1.0, 3.0] * 30
    samples = [(NOW_MS + 1000 * at, value) for at, value in enumerate(values)]
    grid = Grid(NOW_MS, 4000, 45)
    parameters = [[60.0] * grid.count] * PARAMETERS.get(function, 0)
    for range_ms in (8000, 30_000):
        check(function, [samples], grid, range_ms, 0, parameters, tolerance=0)


def test_lines_far_from_the_window_are_rounded_as_in_the_reference() -> None:
    samples = samples_of(np.random.default_rng(2), "counter", 400, 1e3, 1.0)
    grid = Grid(NOW_MS + 30 * 86_400_000, 2000, 60)
    offset_ms = 30 * 86_400_000 - 60_000
    check(Fn.PREDICT_LINEAR, [samples], grid, 40_000, offset_ms, [[60.0] * grid.count], tolerance=0)


def test_factors_that_change_from_step_to_step_are_each_for_their_own_window() -> None:
    samples = samples_of(np.random.default_rng(3), "noise", 300, 10.0, 1.0)
    grid = Grid(NOW_MS + 60_000, 2000, 60)
    rising = np.linspace(0.1, 0.9, grid.count).tolist()
    for parameters in ([rising, [0.5] * 60], [[0.5] * 60, rising]):
        check(Fn.DOUBLE_EXPONENTIAL, [samples], grid, 40_000, 0, parameters, tolerance=0)


@pytest.mark.parametrize("count", [2, 3, 7, 16, 20, 300])
@pytest.mark.parametrize("base", [0.0, 1e3, 1e12])
def test_variance_is_right_to_fourteen_digits_however_large_the_window_and_the_mean(count: int, base: float) -> None:
    rng = np.random.default_rng(count)
    samples = samples_of(rng, "noise", 600, base, 10.0)
    for step_ms in (1000, 1000 * count):
        grid = Grid(NOW_MS + 1000 * count, step_ms, 20)
        with Threads(1) as threads:
            got, _ = over_windows(Fn.STDVAR, block_of([samples]), grid, 1000 * count, threads)
        for step, window in enumerate(windows_of(samples, grid, 1000 * count)):
            if window:
                expected = exact_variance([v for _, v in window])
                assert got[0, step] == pytest.approx(expected, rel=1e-14, abs=0), step


@pytest.mark.parametrize("function", LINES)
def test_a_line_through_two_samples_goes_through_both(function: Fn) -> None:
    samples = [(NOW_MS + 1000 * at, float(at * at)) for at in range(50)]
    grid = Grid(NOW_MS + 1000, 1000, 49)
    parameters = [[0.0] * grid.count] * PARAMETERS.get(function, 0)
    check(function, [samples], grid, 2000, 0, parameters, tolerance=0)
    with Threads(1) as threads:
        rows = tuple(np.array(row) for row in parameters)
        got, _ = over_windows(function, block_of([samples]), grid, 2000, threads, rows)
    ends = [float(at * at) for at in range(1, 50)]
    slopes = [float(2 * at - 1) for at in range(1, 50)]
    assert got[0] == pytest.approx(slopes if function is Fn.DERIV else ends, rel=1e-14)


@pytest.mark.parametrize("function", [*LINES, Fn.STDVAR, Fn.STDDEV, Fn.DOUBLE_EXPONENTIAL])
def test_the_number_of_threads_does_not_change_a_bit(function: Fn) -> None:
    rng = np.random.default_rng(5)
    series = [samples_of(rng, SHAPES[at % len(SHAPES)], 300, 1e3 * (at % 3), 2.0) for at in range(300)]
    grid = Grid(NOW_MS + 20_000, 3000, 100)
    parameters = tuple(np.full(grid.count, 0.3) for _ in range(PARAMETERS.get(function, 0)))
    results: list[bytes] = []
    for count in (1, 2, 5):
        with Threads(count) as threads:
            got, present = over_windows(function, block_of(series), grid, 40_000, threads, parameters)
        results.append(got.tobytes() + present.tobytes())
    assert len(set(results)) == 1

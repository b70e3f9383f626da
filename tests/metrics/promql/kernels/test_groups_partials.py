"""sum, avg, count, group, min, max, stddev and stdvar, and their combination over shards."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels import groups as g

ODD = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.0, -1.0, 0.1, 1e16]
HUGE = [1.7e308, -1.7e308, 1e308]
ANY = st.sampled_from(ODD) | st.sampled_from(HUGE) | st.floats()
MODEST = st.floats(-1e6, 1e6)
NO_OVERFLOW = st.sampled_from(ODD) | MODEST
WHOLE = st.integers(-(10**6), 10**6).map(float)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Else the first example takes the time of the compiler."""
    g.warm()


@dataclass(frozen=True)
class Case:
    values: F64
    present: Bool
    groups: I64
    n_groups: int

    def samples(self, group: int, step: int) -> list[float]:
        rows = self.present[:, step] & (self.groups == group)
        return [float(value) for value in self.values[rows, step]]

    def rows(self, chosen: I64) -> "Case":
        return Case(self.values[chosen], self.present[chosen], self.groups[chosen], self.n_groups)


@st.composite
def cases(draw: st.DrawFn, cells: st.SearchStrategy[float] = ANY) -> Case:
    rows, steps, n_groups = draw(st.integers(0, 9)), draw(st.integers(0, 3)), draw(st.integers(1, 4))
    size = rows * steps
    values = draw(st.lists(cells, min_size=size, max_size=size))
    present = draw(st.lists(st.sampled_from([True, True, True, False]), min_size=size, max_size=size))
    groups = draw(st.lists(st.integers(0, n_groups - 1), min_size=rows, max_size=rows))
    return Case(
        np.array(values, np.float64).reshape(rows, steps),
        np.array(present, np.bool_).reshape(rows, steps),
        np.array(groups, np.int64),
        n_groups,
    )


def check(case: Case, result: tuple[F64, Bool], matches: Callable[[float, list[float]], bool]) -> None:
    """Each cell is present where there are samples, and then matches them."""
    values, present = result
    assert values.shape == present.shape == (case.n_groups, case.values.shape[1])
    for group in range(case.n_groups):
        for step in range(case.values.shape[1]):
            samples = case.samples(group, step)
            assert present[group, step] == bool(samples)
            if samples:
                assert matches(float(values[group, step]), samples), (values[group, step], samples)


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def is_sum(result: float, samples: list[float]) -> bool:
    naive = -0.0
    for sample in samples:
        naive += sample
    if not math.isfinite(naive):
        return same(result, naive)
    exact = sum(map(Fraction, samples))
    return abs(Fraction(result) - exact) <= sum(abs(Fraction(sample)) for sample in samples) / 10**15


def is_avg(result: float, samples: list[float]) -> bool:
    infinite = [sample for sample in samples if not math.isfinite(sample)]
    if infinite:
        return same(result, sum(infinite))
    exact = sum(map(Fraction, samples)) / len(samples)
    return abs(Fraction(result) - exact) <= Fraction(max(map(abs, samples))) / 10**14 + Fraction(1e-320)


def is_variance(result: float, samples: list[float]) -> bool:
    if not all(map(math.isfinite, samples)):
        return math.isnan(result)
    mean = sum(map(Fraction, samples)) / len(samples)
    exact = sum((Fraction(sample) - mean) ** 2 for sample in samples) / len(samples)
    # Welford's error grows with the mean.
    allowed = exact / 10**12 + Fraction(max(map(abs, samples))) ** 2 / 10**14 + Fraction(1e-300)
    return abs(Fraction(result) - exact) <= allowed


def extreme_of(samples: list[float], choose: Callable[[list[float]], float]) -> float:
    """Python's min and max keep the first of equal ones, as upstream."""
    numbers = [sample for sample in samples if not math.isnan(sample)]
    return choose(numbers) if numbers else math.nan


@given(cases())
def test_a_sum_is_exact_to_rounding_and_infinite_or_not_a_number_as_plain_addition_is(case: Case) -> None:
    check(case, g.sum_groups(case.values, case.present, case.groups, case.n_groups).finish(), is_sum)


@given(cases())
def test_an_average_is_exact_to_rounding_even_where_the_sum_overflows(case: Case) -> None:
    check(case, g.avg_groups(case.values, case.present, case.groups, case.n_groups).finish(), is_avg)


@given(cases())
def test_minimum_and_maximum_are_not_numbers_only_if_all_samples_are_not(case: Case) -> None:
    arguments = (case.values, case.present, case.groups, case.n_groups)
    check(case, g.min_groups(*arguments).finish(), lambda result, of: same(result, extreme_of(of, min)))
    check(case, g.max_groups(*arguments).finish(), lambda result, of: same(result, extreme_of(of, max)))


@given(cases())
def test_count_says_how_many_and_group_says_one(case: Case) -> None:
    arguments = (case.values, case.present, case.groups, case.n_groups)
    check(case, g.count_groups(*arguments).finish(), lambda result, of: result == len(of))
    check(case, g.group_groups(*arguments).finish(), lambda result, of: result == 1)


@given(cases(st.sampled_from(ODD[:-1]) | MODEST))
def test_variance_and_deviation_are_close_to_exact_and_not_a_number_for_what_is_not_finite(case: Case) -> None:
    moments = g.moments_groups(case.values, case.present, case.groups, case.n_groups)
    check(case, moments.finish_stdvar(), is_variance)
    variance, _ = moments.finish_stdvar()
    deviation, _ = moments.finish_stddev()
    np.testing.assert_array_equal(deviation, np.sqrt(variance))


def test_a_sum_keeps_what_big_numbers_that_cancel_out_would_swallow() -> None:
    values = np.array([[1.0], [1e100], [1.0], [-1e100]])
    present, groups = np.ones((4, 1), np.bool_), np.zeros(4, np.int64)
    assert g.sum_groups(values, present, groups, 1).finish()[0].tolist() == [[2.0]]
    assert g.avg_groups(values, present, groups, 1).finish()[0].tolist() == [[0.5]]


def test_adding_to_an_infinite_sum_leaves_it_infinite_and_the_average_finite() -> None:
    values = np.array([[1.7e308], [1.7e308], [-1.7e308], [-1.7e308]])
    present, groups = np.ones((4, 1), np.bool_), np.zeros(4, np.int64)
    assert g.sum_groups(values, present, groups, 1).finish()[0].tolist() == [[math.inf]]
    assert abs(g.avg_groups(values, present, groups, 1).finish()[0][0, 0]) < 1e294


@pytest.mark.parametrize("zeros", [[0.0, -0.0], [-0.0, 0.0]])
def test_of_two_zeros_the_first_is_the_minimum_and_the_maximum(zeros: list[float]) -> None:
    values, present, groups = np.array(zeros).reshape(2, 1), np.ones((2, 1), np.bool_), np.zeros(2, np.int64)
    for partial in (g.min_groups(values, present, groups, 1), g.max_groups(values, present, groups, 1)):
        assert same(float(partial.finish()[0][0, 0]), zeros[0])


AGGREGATIONS: list[tuple[Callable[..., Any], Callable[..., Any], str]] = [
    (g.sum_groups, g.combine_sum, "finish"),
    (g.avg_groups, g.combine_avg, "finish"),
    (g.count_groups, g.combine_count, "finish"),
    (g.group_groups, g.combine_group, "finish"),
    (g.min_groups, g.combine_min, "finish"),
    (g.max_groups, g.combine_max, "finish"),
    (g.moments_groups, g.combine_moments, "finish_stdvar"),
    (g.moments_groups, g.combine_moments, "finish_stddev"),
]


def sharded(
    case: Case, cuts: Sequence[int], aggregate: Callable[..., Any], combine: Callable[..., Any], finish: str
) -> tuple[F64, Bool]:
    """The result of shards that are stretches of rows, each of which knows only of its own groups."""
    partials: list[Any] = []
    maps: list[I64] = []
    for shard in np.split(np.arange(len(case.groups)), sorted(cuts)):
        part = case.rows(shard)
        of_shard, local = np.unique(part.groups[::-1], return_inverse=True)
        partials.append(aggregate(part.values, part.present, local[::-1], len(of_shard)))
        maps.append(of_shard)
    return getattr(combine(partials, maps, case.n_groups), finish)()


def whole(case: Case, aggregate: Callable[..., Any], finish: str) -> tuple[F64, Bool]:
    return getattr(aggregate(case.values, case.present, case.groups, case.n_groups), finish)()


CUTS = st.sampled_from([0, 1, 6]).flatmap(lambda n: st.lists(st.integers(0, 9), min_size=n, max_size=n))


@pytest.mark.parametrize("aggregate, combine, finish", AGGREGATIONS)
@settings(max_examples=30)
@given(cases(NO_OVERFLOW), CUTS)
def test_shards_give_what_the_whole_gives_to_rounding(
    aggregate: Callable[..., Any], combine: Callable[..., Any], finish: str, case: Case, cuts: list[int]
) -> None:
    expected, present = whole(case, aggregate, finish)
    result, result_present = sharded(case, cuts, aggregate, combine, finish)
    np.testing.assert_array_equal(result_present, present)
    for group in range(case.n_groups):
        for step in range(case.values.shape[1]):
            if present[group, step]:
                sizes = [abs(value) for value in case.samples(group, step) if math.isfinite(value)]
                scale = max(sizes, default=0.0)
                # A variance of numbers that are close to each other has lost their square's digits, a deviation
                # half as many.
                allowed = {
                    "finish": 1e-12 * scale,
                    "finish_stdvar": 1e-14 * scale**2 + 1e-300,
                    "finish_stddev": 1e-7 * scale,
                }
                np.testing.assert_allclose(result[group, step], expected[group, step], rtol=1e-12, atol=allowed[finish])


@pytest.mark.parametrize("aggregate, combine, finish", AGGREGATIONS[:6])
@settings(max_examples=20)
@given(cases(WHOLE), CUTS)
def test_shards_of_whole_numbers_give_exactly_what_the_whole_gives(
    aggregate: Callable[..., Any], combine: Callable[..., Any], finish: str, case: Case, cuts: list[int]
) -> None:
    expected, present = whole(case, aggregate, finish)
    result, result_present = sharded(case, cuts, aggregate, combine, finish)
    np.testing.assert_array_equal(result_present, present)
    np.testing.assert_array_equal(result[present], expected[present])


@settings(max_examples=30)
@given(cases(st.floats(1.0, 100.0)), CUTS)
def test_shards_of_well_behaved_numbers_agree_to_twelve_digits(case: Case, cuts: list[int]) -> None:
    for aggregate, combine, finish in AGGREGATIONS[:6]:
        expected, present = whole(case, aggregate, finish)
        result, _ = sharded(case, cuts, aggregate, combine, finish)
        np.testing.assert_allclose(result[present], expected[present], rtol=1e-12)


def test_deviations_of_many_shards_agree_to_twelve_digits() -> None:
    rng = np.random.default_rng(3)
    case = Case(rng.normal(5, 20, (700, 20)), rng.random((700, 20)) < 0.9, rng.integers(0, 3, 700), 3)
    for cuts in ([], [350], [100, 200, 300, 400, 500, 600]):
        for finish in ("finish_stdvar", "finish_stddev"):
            expected, _ = whole(case, g.moments_groups, finish)
            result, _ = sharded(case, cuts, g.moments_groups, g.combine_moments, finish)
            np.testing.assert_allclose(result, expected, rtol=1e-12)


@given(cases(), CUTS)
def test_a_sharded_average_is_exact_to_rounding_even_where_sums_overflow(case: Case, cuts: list[int]) -> None:
    check(case, sharded(case, cuts, g.avg_groups, g.combine_avg, "finish"), is_avg)


def test_shards_hand_on_what_big_numbers_would_swallow() -> None:
    case = Case(np.array([[1.0], [1e100], [1.0], [-1e100]]), np.ones((4, 1), np.bool_), np.zeros(4, np.int64), 1)
    assert sharded(case, [2], g.sum_groups, g.combine_sum, "finish")[0].tolist() == [[2.0]]
    assert sharded(case, [2], g.avg_groups, g.combine_avg, "finish")[0].tolist() == [[0.5]]


def test_a_sum_that_overflows_only_when_shards_meet_is_infinite() -> None:
    case = Case(np.array([[1.7e308], [1.7e308]]), np.ones((2, 1), np.bool_), np.zeros(2, np.int64), 1)
    assert sharded(case, [1], g.sum_groups, g.combine_sum, "finish")[0].tolist() == [[math.inf]]
    assert sharded(case, [1], g.avg_groups, g.combine_avg, "finish")[0].tolist() == [[1.7e308]]


def test_rows_that_lie_apart_and_are_read_only_are_taken_as_well() -> None:
    spread = np.arange(24.0).reshape(4, 6)[:, ::2]
    spread.flags.writeable = False
    present, groups = np.ones((4, 3), np.bool_), np.zeros(4, np.int64)
    assert g.sum_groups(spread, present, groups, 1).finish()[0].tolist() == [[36.0, 44.0, 52.0]]

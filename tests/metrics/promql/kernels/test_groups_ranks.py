"""quantile, topk and bottomk over groups, against sorting."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels import groups as g
from quarterdeck.metrics.promql.kernels.compile import kernels
from quarterdeck.metrics.promql.kernels.threads import Threads

# Few different values, so that there are ties.
CELLS = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 1e308]) | st.floats()


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

    def rows(self, group: int, step: int) -> list[int]:
        return np.flatnonzero(self.present[:, step] & (self.groups == group)).tolist()


@st.composite
def cases(draw: st.DrawFn, cells: st.SearchStrategy[float] = CELLS) -> Case:
    rows, steps, n_groups = draw(st.integers(0, 20)), draw(st.integers(0, 3)), draw(st.integers(1, 3))
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


def quantile_of(phi: float, samples: list[float]) -> float:
    if math.isnan(phi):
        return math.nan
    if not 0 <= phi <= 1:
        return math.copysign(math.inf, phi)
    ordered = sorted(samples, key=lambda sample: (not math.isnan(sample), 0.0 if math.isnan(sample) else sample))
    rank = phi * (len(ordered) - 1)
    lower = math.floor(rank)
    upper = min(lower + 1, len(ordered) - 1)
    weight = rank - lower
    return ordered[lower] * (1 - weight) + ordered[upper] * weight


PHIS = st.sampled_from([0.0, 0.5, 1.0, -1.0, 2.0, math.nan, -math.inf, math.inf]) | st.floats(0, 1)


@given(cases(), st.lists(PHIS, min_size=3, max_size=3))
def test_a_quantile_is_weighed_from_the_two_samples_around_it(case: Case, phis: list[float]) -> None:
    steps = case.values.shape[1]
    phi = np.array(phis[:steps], np.float64)
    values, present = g.quantile_groups(case.values, case.present, case.groups, case.n_groups, phi)
    for group in range(case.n_groups):
        for step in range(steps):
            samples: list[float] = case.values[case.rows(group, step), step].tolist()
            assert present[group, step] == bool(samples)
            if samples:
                np.testing.assert_equal(float(values[group, step]) + 0.0, quantile_of(phis[step], samples) + 0.0)


@pytest.mark.parametrize("shape", ["rising", "falling", "equal", "saw", "random"])
def test_quantiles_of_many_samples_are_right_in_whatever_order_they_come(shape: str) -> None:
    many = np.arange(10_001.0)
    samples = {
        "rising": many,
        "falling": many[::-1],
        "equal": np.ones(10_001),
        "saw": many % 100,
        "random": np.random.default_rng(1).permutation(many),
    }[shape].reshape(-1, 1)
    present, groups = np.ones(samples.shape, np.bool_), np.zeros(len(samples), np.int64)
    for phi in (0.0, 0.123, 0.5, 0.999, 1.0):
        values, _ = g.quantile_groups(samples, present, groups, 1, np.array([phi]))
        assert values[0, 0] == quantile_of(phi, samples[:, 0].tolist())


def best_of(case: Case, group: int, step: int, k: int, bottom: bool) -> list[int]:
    """The rows to choose, best first: by value, what is not a number last, then by row."""

    def rank(row: int) -> tuple[bool, float, int]:
        key = float(case.values[row, step] if bottom else -case.values[row, step])
        return math.isnan(key), 0.0 if math.isnan(key) else key, row

    return sorted(case.rows(group, step), key=rank)[: max(k, 0)]


KS = st.integers(-2, 6) | st.sampled_from([10, 25, 2**62, -(2**63)])


@given(cases(), st.lists(KS, min_size=3, max_size=3), st.booleans())
def test_topk_selects_the_best_rows_and_of_equal_ones_the_earlier(case: Case, ks: list[int], bottom: bool) -> None:
    steps = case.values.shape[1]
    k = np.array(ks[:steps], np.int64)
    selected = g.topk_groups(case.values, case.present, case.groups, case.n_groups, k, bottom)
    assert selected.shape == case.values.shape
    for step in range(steps):
        chosen: set[int] = set()
        for group in range(case.n_groups):
            chosen.update(best_of(case, group, step, ks[step], bottom))
        assert set(np.flatnonzero(selected[:, step]).tolist()) == chosen


@pytest.mark.parametrize("bottom", [False, True])
def test_among_many_equal_values_the_earlier_rows_are_chosen(bottom: bool) -> None:
    rng = np.random.default_rng(11)
    case = Case(rng.integers(0, 6, (60, 40)) / 2, rng.random((60, 40)) < 0.9, rng.integers(0, 2, 60), 2)
    k = np.arange(40) % 13
    selected = g.topk_groups(case.values, case.present, case.groups, 2, k, bottom)
    for step in range(40):
        chosen = [row for group in (0, 1) for row in best_of(case, group, step, int(k[step]), bottom)]
        assert np.flatnonzero(selected[:, step]).tolist() == sorted(chosen)


@given(cases(), KS, st.booleans())
def test_topk_selects_the_best_values_and_prefers_none_that_is_not_a_number(case: Case, k: int, bottom: bool) -> None:
    steps = case.values.shape[1]
    selected = g.topk_groups(
        case.values, case.present, case.groups, case.n_groups, np.array([k] * steps, np.int64), bottom
    )
    for step in range(steps):
        for group in range(case.n_groups):
            rows = case.rows(group, step)
            samples = np.sort(-case.values[rows, step] if not bottom else case.values[rows, step])
            kept = case.values[[row for row in rows if selected[row, step]], step]
            np.testing.assert_array_equal(np.sort(-kept if not bottom else kept), samples[: max(k, 0)])


@given(cases(), st.integers(-1, 12) | st.just(2**62), st.booleans())
def test_an_instant_query_gets_the_selected_rows_group_by_group_best_first(case: Case, k: int, bottom: bool) -> None:
    for step in range(case.values.shape[1]):
        order = g.topk_order(
            case.values[:, step], case.present[:, step], case.groups, case.n_groups, k, bottom
        ).tolist()
        assert order == [row for group in range(case.n_groups) for row in best_of(case, group, step, k, bottom)]


@given(cases(), st.integers(0, 4), st.booleans(), st.integers(0, 7))
def test_shards_that_name_their_candidates_change_nothing(case: Case, k: int, bottom: bool, at: int) -> None:
    ks = np.full(case.values.shape[1], k)
    whole = g.topk_groups(case.values, case.present, case.groups, case.n_groups, ks, bottom)
    candidates = np.concatenate(
        [
            g.topk_groups(case.values[part], case.present[part], case.groups[part], case.n_groups, ks, bottom)
            for part in (slice(0, at), slice(at, None))
        ]
    )
    again = g.topk_groups(case.values, candidates, case.groups, case.n_groups, ks, bottom)
    np.testing.assert_array_equal(again, whole)


def test_a_better_value_displaces_the_later_of_two_equal_ones_and_an_equal_one_displaces_none() -> None:
    values = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    present, groups = np.ones((3, 2), np.bool_), np.zeros(3, np.int64)
    selected = g.topk_groups(values, present, groups, 1, np.array([2, 2]), False)
    assert selected.T.tolist() == [[True, False, True], [True, True, False]]
    assert g.topk_order(values[:, 0], present[:, 0], groups, 1, 2, False).tolist() == [2, 0]


def test_a_long_answer_has_the_best_first_and_what_is_not_a_number_last() -> None:
    values = np.array([math.nan, *np.arange(20.0), math.nan])
    present, groups = np.ones(22, np.bool_), np.zeros(22, np.int64)
    top = g.topk_order(values, present, groups, 1, 22, False).tolist()
    bottom = g.topk_order(values, present, groups, 1, 22, True).tolist()
    assert (top[:20], sorted(top[20:])) == (list(range(20, 0, -1)), [0, 21])
    assert (bottom[:20], sorted(bottom[20:])) == (list(range(1, 21)), [0, 21])


def test_the_number_of_threads_changes_no_bit() -> None:
    rng = np.random.default_rng(5)
    values, present = rng.integers(0, 50, (400, 300)) / 7, rng.random((400, 300)) < 0.9
    groups, k, phi = rng.integers(0, 3, 400), rng.integers(-1, 40, 300), rng.random(300)
    alone = (
        g.quantile_groups(values, present, groups, 3, phi)[0].tobytes(),
        g.topk_groups(values, present, groups, 3, k, True).tobytes(),
    )
    for count in (1, 2, 3):
        with Threads(count) as threads:
            assert g.quantile_groups(values, present, groups, 3, phi, threads)[0].tobytes() == alone[0]
            assert g.topk_groups(values, present, groups, 3, k, True, threads).tobytes() == alone[1]


def test_what_warms_groups_loads_each_of_their_kernels() -> None:
    g.warm()
    loaded = [each.is_loaded for each in kernels() if ".groups_" in each.name]
    assert loaded == [True] * 11

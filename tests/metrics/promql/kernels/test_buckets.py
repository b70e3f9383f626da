"""histogram_quantile and histogram_fraction of classic histograms, against upstream's rules written out plainly."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.blocks import Bool
from quarterdeck.metrics.promql.kernels import buckets
from quarterdeck.metrics.promql.kernels.compile import kernels
from quarterdeck.metrics.promql.kernels.threads import Threads

INF = math.inf
Bucket = tuple[float, float]
Row = tuple[float, float | None, float | None]
"""A bound and the counts at two steps, where there are any."""


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Else the first example takes the time of the compiler."""
    buckets.warm()


def quantile(phi: float, *rows: Bucket) -> float:
    """Of one group at one step."""
    return float(quantiles(phi, *rows).values[0, 0])


def quantiles(phi: float, *rows: Bucket) -> buckets.BucketQuantiles:
    bounds, counts = np.array([bound for bound, _ in rows]), np.array([[count] for _, count in rows])
    offsets = np.array([0, len(rows)], np.int64)
    return buckets.histogram_quantile(np.array([phi]), offsets, bounds, counts, np.ones(counts.shape, np.bool_))


def fraction(lower: float, upper: float, *rows: Bucket) -> float:
    bounds, counts = np.array([bound for bound, _ in rows]), np.array([[count] for _, count in rows])
    offsets = np.array([0, len(rows)], np.int64)
    values, _ = buckets.histogram_fraction(
        np.array([lower]), np.array([upper]), offsets, bounds, counts, np.ones(counts.shape, np.bool_)
    )
    return float(values[0, 0])


FOUR = [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0), (INF, 50.0)]


@pytest.mark.parametrize(
    "phi, expected", [(0.0, 0.0), (0.1, 0.5), (0.2, 1.0), (0.3, 1.5), (0.6, 3.0), (0.8, 4.0), (0.9, 4.0), (1.0, 4.0)]
)
def test_a_quantile_lies_evenly_within_its_bucket_and_at_the_last_bound_above_it(phi: float, expected: float) -> None:
    assert quantile(phi, *FOUR) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("phi, expected", [(-0.1, -INF), (1.1, INF), (math.nan, math.nan), (INF, INF), (-INF, -INF)])
def test_a_quantile_outside_zero_to_one_is_infinite_even_for_buckets_that_have_no_quantiles(
    phi: float, expected: float
) -> None:
    np.testing.assert_equal(quantile(phi, *FOUR), expected)
    np.testing.assert_equal(quantile(phi, (1.0, 0.0)), expected)


def test_there_is_no_quantile_without_observations_or_a_second_bucket_or_the_infinite_one() -> None:
    assert math.isnan(quantile(0.5, (1.0, 0.0), (INF, 0.0)))
    assert math.isnan(quantile(0.5, (INF, 5.0)))
    assert math.isnan(quantile(0.5, (INF, 2.0), (INF, 3.0)))
    assert math.isnan(quantile(0.5, (1.0, 3.0), (2.0, 5.0)))


def test_a_first_bucket_at_or_below_zero_has_no_beginning() -> None:
    assert quantile(0.1, (-1.0, 5.0), (INF, 10.0)) == -1.0
    assert quantile(0.1, (0.0, 5.0), (INF, 10.0)) == 0.0
    assert quantile(0.0, (0.0, 0.0), (INF, 10.0)) == 0.0


def test_rows_of_one_bound_are_one_bucket() -> None:
    split = [(1.0, 4.0), (1.0, 6.0), (2.0, 20.0), (4.0, 40.0), (INF, 20.0), (INF, 30.0)]
    assert quantile(0.1, *split) == quantile(0.1, *FOUR)
    assert fraction(0.0, 0.5, *split) == fraction(0.0, 0.5, *FOUR)


def test_counts_that_fall_are_lifted_and_it_is_told_where_and_how_much() -> None:
    result = quantiles(0.9, (1.0, 10.0), (2.0, 8.0), (3.0, 20.0), (4.0, 15.0), (INF, 20.0))
    assert result.forced.tolist() == [[True]]
    assert (result.lowest_forced[0, 0], result.highest_forced[0, 0], result.biggest_lift[0, 0]) == (2.0, 4.0, 5.0)
    assert result.values[0, 0] == quantile(0.9, (1.0, 10.0), (2.0, 10.0), (3.0, 20.0), (4.0, 20.0), (INF, 20.0))


def test_differences_of_rounding_are_ignored_in_silence_and_bigger_ones_are_not() -> None:
    for slightly, forced in ((10 - 1e-11, False), (10 + 1e-11, False), (10 - 3e-11, True), (10 + 3e-11, False)):
        result = quantiles(0.5, (1.0, 10.0), (2.0, slightly), (INF, 11.0))
        assert result.forced[0, 0] == forced
        assert result.values[0, 0] == pytest.approx(0.55)
    # The rank would fall into the second bucket if its small difference counted.
    assert quantile(1.0, (1.0, 10.0), (2.0, 10 + 1e-11), (INF, 10 + 1e-11)) == 1.0


@pytest.mark.parametrize(
    "lower, upper, expected",
    [
        (-INF, INF, 1.0),
        (0.0, 1.0, 0.2),
        (0.5, 1.5, 0.2),
        (4.0, INF, 0.2),
        (5.0, 6.0, 0.0),
        (2.0, 1.0, 0.0),
        (1.0, 1.0, 0.0),
        (-5.0, -1.0, 0.0),
        (math.nan, 1.0, math.nan),
        (1.0, math.nan, math.nan),
    ],
)
def test_a_fraction_is_of_all_observations(lower: float, upper: float, expected: float) -> None:
    np.testing.assert_allclose(fraction(lower, upper, *FOUR), expected, rtol=1e-15)


def test_there_is_no_fraction_without_observations_or_the_infinite_bucket() -> None:
    assert math.isnan(fraction(0.0, 1.0, (1.0, 0.0), (INF, 0.0)))
    assert math.isnan(fraction(0.0, 1.0, (1.0, 5.0)))
    assert fraction(0.0, 1.0, (INF, 5.0)) == 0.0


def test_all_of_a_first_bucket_at_or_below_zero_lies_below_any_bound_within() -> None:
    assert fraction(-INF, -2.0, (-1.0, 4.0), (1.0, 8.0), (INF, 8.0)) == 0.5
    assert fraction(-2.0, 0.0, (-1.0, 4.0), (1.0, 8.0), (INF, 8.0)) == 0.25


def merged(rows: Sequence[Bucket]) -> list[list[float]]:
    result: list[list[float]] = []
    for bound, count in rows:
        if result and result[-1][0] == bound:
            result[-1][1] += count
        else:
            result.append([bound, count])
    return result


def almost(a: float, b: float) -> bool:
    if math.isnan(a) and math.isnan(b):
        return True
    if a == 0 or b == 0 or abs(a) + abs(b) < 2.0**-1022:
        return abs(a - b) < 1e-12 * 2.0**-1022
    return abs(a - b) / min(abs(a) + abs(b), 1.7976931348623157e308) < 1e-12


def expected_quantile(phi: float, rows: Sequence[Bucket]) -> tuple[float, bool]:
    if math.isnan(phi):
        return math.nan, False
    if not 0 <= phi <= 1:
        return math.copysign(INF, phi), False
    if rows[-1][0] != INF:
        return math.nan, False
    bins = merged(rows)
    forced, last = False, bins[0][1]
    for bucket in bins[1:]:
        if bucket[1] == last:
            continue
        if almost(bucket[1], last):
            bucket[1] = last
        elif bucket[1] < last:
            bucket[1], forced = last, True
        else:
            last = bucket[1]
    total = bins[-1][1]
    if len(bins) < 2 or total == 0:
        return math.nan, forced
    rank = phi * total
    at = next((i for i, bucket in enumerate(bins[:-1]) if bucket[1] >= rank), len(bins) - 1)
    if at == len(bins) - 1:
        return bins[-2][0], forced
    if at == 0 and bins[0][0] <= 0:
        return bins[0][0], forced
    start, below = (bins[at - 1][0], bins[at - 1][1]) if at else (0.0, 0.0)
    width, inside = np.float64(bins[at][0] - start), np.float64(rank - below)
    with np.errstate(all="ignore"):
        return float(start + width * (inside / np.float64(bins[at][1] - below))), forced


def rank_of(bound: float, bins: list[list[float]]) -> float:
    """How many observations lie below."""
    start, below = (0.0 if bins[0][0] > 0 else -INF), 0.0
    if bound <= start:
        return 0.0
    for upper, count in bins:
        if start >= bound:
            return below
        if bound < upper:
            if start == -INF:
                return count
            with np.errstate(all="ignore"):
                return float(
                    np.float64(below) + np.float64(count - below) * (bound - start) / np.float64(upper - start)
                )
        start, below = upper, count
    return bins[-1][1]


def expected_fraction(lower: float, upper: float, rows: Sequence[Bucket]) -> float:
    if rows[-1][0] != INF:
        return math.nan
    bins = merged(rows)
    total = bins[-1][1]
    if total == 0 or math.isnan(lower) or math.isnan(upper):
        return math.nan
    if lower >= upper:
        return 0.0
    # Of two arguments of which one is not a number Python's min returns the first.
    above, below = min(rank_of(upper, bins), total), min(rank_of(lower, bins), total)
    with np.errstate(all="ignore"):
        return float(np.float64(above - below) / total)


BOUNDS = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0, INF, INF])
COUNTS = st.sampled_from([0.0, 1.0, 5.0, 5.0 + 1e-12, 4.0, 9.0, 10.0, INF]) | st.floats(0, 100)
PHIS = st.sampled_from([0.0, 0.5, 1.0, -1.0, 2.0, math.nan]) | st.floats(0, 1)
LIMITS = st.sampled_from([-INF, -3.0, -1.0, 0.0, 0.5, 1.0, 3.0, INF, math.nan]) | st.floats(-3, 6)


@st.composite
def histograms(draw: st.DrawFn) -> list[list[Row]]:
    """For each group its rows."""
    counts = COUNTS | st.none()
    groups = draw(st.lists(st.lists(st.tuples(BOUNDS, counts, counts), max_size=7), max_size=3))
    return [sorted(group, key=lambda row: row[0]) for group in groups]


@given(histograms(), st.tuples(PHIS, PHIS), st.tuples(LIMITS, LIMITS), st.tuples(LIMITS, LIMITS))
def test_groups_of_buckets_give_what_upstream_s_rules_say(
    groups: list[list[Row]],
    phis: tuple[float, float],
    lowers: tuple[float, float],
    uppers: tuple[float, float],
) -> None:
    rows = [row for group in groups for row in group]
    offsets = np.cumsum([0, *(len(group) for group in groups)], dtype=np.int64)
    bounds = np.array([row[0] for row in rows])
    cells = np.array([row[1:] for row in rows], np.float64).reshape(len(rows), 2)
    present: Bool = ~np.isnan(cells)

    result = buckets.histogram_quantile(np.array(phis), offsets, bounds, cells, present)
    fractions, fractions_present = buckets.histogram_fraction(
        np.array(lowers), np.array(uppers), offsets, bounds, cells, present
    )

    np.testing.assert_array_equal(result.present, fractions_present)
    for group, of_group in enumerate(groups):
        for step in (0, 1):
            there = [(row[0], count) for row in of_group if (count := row[step + 1]) is not None]
            assert result.present[group, step] == bool(there)
            if there:
                value, forced = expected_quantile(phis[step], there)
                np.testing.assert_equal(float(result.values[group, step]) + 0.0, value + 0.0)
                assert result.forced[group, step] == forced
                assert (result.biggest_lift[group, step] > 0) == forced
                expected = expected_fraction(lowers[step], uppers[step], there)
                np.testing.assert_equal(float(fractions[group, step]) + 0.0, expected + 0.0)


@given(st.lists(COUNTS | st.just(math.nan), min_size=3, max_size=3), LIMITS, LIMITS)
def test_counts_that_are_not_numbers_make_fractions_that_are_not(
    counts: list[float], lower: float, upper: float
) -> None:
    assume(any(map(math.isnan, counts)))
    rows = list(zip([1.0, 2.0, INF], counts, strict=True))
    np.testing.assert_equal(fraction(lower, upper, *rows) + 0.0, expected_fraction(lower, upper, rows) + 0.0)


def test_the_number_of_threads_changes_no_bit() -> None:
    rng = np.random.default_rng(7)
    bounds, offsets = np.tile([0.1, 0.5, 1.0, 5.0, INF], 100), np.arange(0, 501, 5)
    values, present = rng.random((500, 300)), rng.random((500, 300)) < 0.9
    phi, high = rng.random(300), rng.random(300) * 5
    alone = (
        buckets.histogram_quantile(phi, offsets, bounds, values, present).values.tobytes(),
        buckets.histogram_fraction(phi, high, offsets, bounds, values, present)[0].tobytes(),
    )
    for count in (1, 2, 3):
        with Threads(count) as threads:
            result = buckets.histogram_quantile(phi, offsets, bounds, values, present, threads)
            fractions, _ = buckets.histogram_fraction(phi, high, offsets, bounds, values, present, threads)
            assert (result.values.tobytes(), fractions.tobytes()) == alone


def test_what_warms_buckets_loads_each_of_their_kernels() -> None:
    buckets.warm()
    assert [each.is_loaded for each in kernels() if ".buckets." in each.name] == [True, True]

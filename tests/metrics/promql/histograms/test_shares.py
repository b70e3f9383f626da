"""Quantiles, fractions, trimming and the numbers about a whole histogram."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.histograms.bounds import CUSTOM, Bucket
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.quantiles import (
    NotNumbers,
    Quantile,
    fraction,
    has_uncounted,
    quantile,
    share_below,
)
from quarterdeck.metrics.promql.histograms.statistics import deviation, mean, variance
from quarterdeck.metrics.promql.histograms.trim import trim_above, trim_below
from tests.metrics.promql.histograms.strategies import custom, exponential, in_buckets

POSITIVE = NativeHistogram(0, 0.001, 2.0, 12.0, 100.0, ((0, 2.0), (1, 3.0), (3, 1.0), (4, 4.0)))
MIRRORED = replace(POSITIVE, positive=(), negative=POSITIVE.positive)
BOUNDED = NativeHistogram(
    CUSTOM,
    count=15,
    total=172.5,
    custom_bounds=(5, 10, 15, 20),
    positive=((0, 1.0), (1, 6.0), (2, 4.0), (3, 3.0), (4, 1.0)),
)
WITH_NAN = NativeHistogram(count=15, total=math.nan, positive=((0, 12.0),))
SHARES = st.floats(0, 1)
VALUES = st.floats(-100, 100)
ANY = st.one_of(exponential(-1, 3), custom())


@pytest.mark.parametrize(
    ("histogram", "phi", "value"),
    [
        (POSITIVE, 1.001, math.inf),
        (POSITIVE, 1.0, 16.0),
        (POSITIVE, 0.99, 15.67072476139083),
        (POSITIVE, 0.6, 4.594793419988138),
        (POSITIVE, 0.1, 0.0006),
        (POSITIVE, 0.0, 0.0),
        (POSITIVE, -1.0, -math.inf),
        (POSITIVE, math.nan, math.nan),
        (MIRRORED, 0.9, -0.0006),
        (MIRRORED, 0.5, -1.5874010519681996),
        (NativeHistogram(), 0.5, math.nan),
        (BOUNDED, 0.5, 10.625),
        (BOUNDED, 1.0, 20.0),
        (BOUNDED, 0.0, 0.0),
        (NativeHistogram(CUSTOM, count=2, positive=((0, 1.0), (1, 1.0)), custom_bounds=(-5,)), 0.1, -5.0),
    ],
)
def test_quantiles_are_interpolated_within_a_bucket(histogram: NativeHistogram, phi: float, value: float) -> None:
    assert quantile(histogram, phi).value == pytest.approx(value, nan_ok=True)


def test_observations_that_are_not_numbers_count_as_the_largest() -> None:
    assert quantile(WITH_NAN, 0.8) == Quantile(1.0, NotNumbers.SKEW)
    beyond = quantile(WITH_NAN, 0.81)
    assert (math.isnan(beyond.value), beyond.not_numbers) == (True, NotNumbers.ASKED_FOR)


@pytest.mark.parametrize(("phi", "part"), [(0.0, NotNumbers.SKEW), (0.1, NotNumbers.ASKED_FOR)])
def test_where_all_observations_are_no_numbers_every_quantile_is_but_the_lowest_is_not_asked_for_as_one(
    phi: float, part: NotNumbers
) -> None:
    for empty in ((), ((0, 0.0), (3, 0.0))):
        found = quantile(NativeHistogram(count=3, total=math.nan, positive=empty), phi)
        assert (math.isnan(found.value), found.not_numbers) == (True, part)


@given(ANY, SHARES, SHARES)
def test_a_larger_share_has_a_larger_quantile(histogram: NativeHistogram, one: float, other: float) -> None:
    assume(histogram.count > 0)
    assume(not histogram.is_custom or histogram.custom_bounds)  # nobody knows where in a bucket without bounds
    low, high = (quantile(histogram, phi).value for phi in sorted((one, other)))
    assert low <= high or low == pytest.approx(high)


@given(exponential(-1, 3), SHARES)
def test_the_fraction_below_a_quantile_is_its_share(histogram: NativeHistogram, phi: float) -> None:
    assume(histogram.count > 0)
    value = quantile(histogram, phi).value
    below = fraction(histogram, -math.inf, value)
    # A value in a gap between buckets belongs to all shares that end there.
    assert below == pytest.approx(phi, abs=1e-9) or quantile(histogram, below).value <= value * (1 + 1e-9) + 1e-9


@given(ANY, VALUES, VALUES)
def test_fractions_add_up(histogram: NativeHistogram, one: float, other: float) -> None:
    assume(histogram.count > 0)
    low, high = sorted((one, other))
    assume(low < high)
    parts = (fraction(histogram, *ends) for ends in ((-math.inf, low), (low, high), (high, math.inf)))
    assert sum(parts) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("histogram", "lower", "upper", "share"),
    [
        (POSITIVE, 0.0, 1.5, 0.4795739585136224),
        (POSITIVE, 0.0, 0.0005, 1 / 12),
        (POSITIVE, -0.001, 0.0, 0.0),
        (MIRRORED, -math.inf, -6.0, 0.36791979160657035),
        (POSITIVE, 42.0, 3.0, 0.0),
        (POSITIVE, math.nan, 3.0, math.nan),
        (NativeHistogram(), 0.0, 1.0, math.nan),
        (BOUNDED, 5.0, 10.0, 0.4),
        (BOUNDED, -math.inf, 2.5, 0.5 / 15),
        (BOUNDED, 20.0, math.inf, 1 / 15),
        (WITH_NAN, -math.inf, math.inf, 0.8),
    ],
)
def test_fractions_are_interpolated_within_a_bucket(
    histogram: NativeHistogram, lower: float, upper: float, share: float
) -> None:
    assert fraction(histogram, lower, upper) == pytest.approx(share, nan_ok=True)


@given(ANY, VALUES)
def test_what_is_trimmed_off_on_either_side_is_everything(histogram: NativeHistogram, value: float) -> None:
    # A zero bucket of no width is on neither side of zero.
    assume(value != 0 or histogram.zero_threshold > 0)
    above, below = trim_above(histogram, value), trim_below(histogram, value)
    assert above.hint is below.hint is histogram.hint
    # The buckets that reach to infinity are cut as a whole, on the side that is careful.
    reaching = sum(count for index, count in histogram.positive if index in {0, len(histogram.custom_bounds)})
    both = in_buckets(above) + in_buckets(below)
    if histogram.is_custom:
        assert abs(both - in_buckets(histogram)) <= reaching + 1e-6
    else:
        assert both == pytest.approx(in_buckets(histogram))


@given(ANY)
def test_a_trim_that_cuts_nothing_changes_nothing(histogram: NativeHistogram) -> None:
    assert trim_above(histogram, math.inf) == histogram
    assert trim_below(histogram, -math.inf) == histogram
    assert in_buckets(trim_above(histogram, -math.inf)) == 0
    assert in_buckets(trim_below(histogram, math.inf)) == 0


@pytest.mark.parametrize(
    ("trimmed", "count", "total"),
    [
        (trim_above(BOUNDED, 13.0), 9.4, 75.1),
        (trim_below(BOUNDED, 13.0), 5.6, 94.9),
        (trim_above(BOUNDED, 50.0), 14.0, 150.0),
        (trim_above(POSITIVE, 0.0005), 1.0, 0.00025),
        (trim_below(POSITIVE, 8.0), 4.0, 4 * math.sqrt(128)),
        (trim_below(MIRRORED, -0.0005), 1.0, -0.00025),
    ],
)
def test_a_trimmed_histogram_counts_what_is_left(trimmed: NativeHistogram, count: float, total: float) -> None:
    assert (trimmed.count, trimmed.total) == (pytest.approx(count), pytest.approx(total))


@pytest.mark.parametrize(
    ("histogram", "spread"),
    [
        (NativeHistogram(2, count=4, total=10, positive=((0, 1.0), (4, 1.0), (7, 1.0), (8, 1.0))), 1.163807968526718),
        (NativeHistogram(count=10, total=-100, negative=((4, 10.0),)), 1.725830020304794),
        (NativeHistogram(count=1, total=math.inf, positive=((0, 1.0),)), math.inf),
        (replace(WITH_NAN), math.nan),
        (NativeHistogram(), math.nan),
        (BOUNDED, math.inf),
        (replace(BOUNDED, positive=((1, 2.0),), count=2.0, total=15.0), 0.0),
    ],
)
def test_the_variance_takes_observations_to_be_in_the_middle_of_their_bucket(
    histogram: NativeHistogram, spread: float
) -> None:
    assert variance(histogram) == pytest.approx(spread, nan_ok=True)
    assert deviation(histogram) == pytest.approx(math.sqrt(spread), nan_ok=True)


def test_the_mean_of_nothing_is_not_a_number() -> None:
    assert math.isnan(mean(NativeHistogram()))
    assert mean(NativeHistogram(total=2.0)) == math.inf
    assert mean(POSITIVE) == 100 / 12


def test_the_mean_of_no_observations_has_the_signs_of_hardware() -> None:
    assert mean(NativeHistogram(count=-0.0, total=2.0)) == -math.inf
    assert math.isnan(mean(NativeHistogram(count=0.0, total=math.nan)))


def test_the_variance_of_buckets_that_do_not_add_up_to_the_count_is_what_division_gives() -> None:
    assert variance(NativeHistogram(count=0.0, total=2.0, positive=((0, 1.0),))) == math.inf
    assert math.isnan(variance(NativeHistogram(count=0.0, positive=((0, 1.0),))))
    assert math.isnan(deviation(NativeHistogram(count=-1.0, total=-4.0, positive=((0, 1.0),))))


@pytest.mark.parametrize(
    ("histogram", "phi", "value"),
    [
        # No bucket at all, and buckets that count nothing: the last of them is what there is.
        (NativeHistogram(count=2.0), 0.5, 0.0),
        (NativeHistogram(count=2.0), 0.0, math.nan),
        (NativeHistogram(count=2.0, positive=((0, 0.0), (1, 0.0))), 0.4, 2.0),
        (NativeHistogram(count=9.0, total=4.0, positive=((0, 1.0), (2, 0.0))), 0.4, 4.0),
        # The buckets of the largest and the smallest numbers.
        (NativeHistogram(count=1.0, total=1.0, positive=((1024, 1.0),)), 1.0, math.inf),
        (NativeHistogram(count=1.0, total=1.0, negative=((1024, 1.0),)), 0.0, -math.inf),
        (NativeHistogram(count=1.0, total=math.inf, positive=((1025, 1.0),)), 0.5, math.inf),
        (NativeHistogram(-4, count=1.0, total=0.0, positive=((-100, 1.0),)), 0.5, 0.0),
        # Less than nothing.
        (NativeHistogram(count=-4.0, total=-4.0, positive=((0, -2.0), (1, -2.0))), 0.25, 2.0),
    ],
)
def test_quantiles_of_what_no_observations_could_have_made(
    histogram: NativeHistogram, phi: float, value: float
) -> None:
    assert quantile(histogram, phi).value == pytest.approx(value, nan_ok=True)


def test_only_a_sum_that_is_no_number_and_a_count_beyond_the_buckets_tell_of_lost_observations() -> None:
    whole = NativeHistogram(count=3.0, total=math.nan, positive=((0, 1.0), (1, 2.0)))
    assert quantile(whole, 0.1).not_numbers is None
    assert not has_uncounted(whole)
    lacking = replace(whole, count=4.0)
    assert quantile(lacking, 0.1).not_numbers is NotNumbers.SKEW
    assert has_uncounted(lacking)
    assert not has_uncounted(replace(lacking, total=1.0))
    assert not has_uncounted(NativeHistogram(count=0.0, total=math.nan, positive=((0, -1.0),)))


def test_a_fraction_ends_where_the_buckets_of_a_histogram_with_lost_observations_do() -> None:
    assert fraction(NativeHistogram(count=8.0, total=math.nan, positive=((0, 2.0),)), 0.0, math.inf) == 0.25
    assert fraction(NativeHistogram(count=8.0, total=1.0, positive=((0, 2.0),)), 0.0, math.inf) == 1.0


def test_a_bucket_too_narrow_for_its_logarithms_has_no_share() -> None:
    edge = math.nextafter(math.nextafter(1e300, 0.0), 0.0)
    squeezed = Bucket(edge, 1e300, 1.0, False, True)
    assert math.isnan(share_below(squeezed, math.nextafter(1e300, 0.0), is_linear=False))


@pytest.mark.parametrize("trim", [trim_above, trim_below])
def test_a_cut_at_what_is_no_number_leaves_no_buckets_but_an_unknown_zero_bucket(
    trim: Callable[[NativeHistogram, float], NativeHistogram],
) -> None:
    for width in (0.0, 0.25):
        found = trim(NativeHistogram(0, width, 2.0, 5.0, 3.0, ((0, 3.0),)), math.nan)
        assert math.isnan(found.zero_count)
        assert math.isnan(found.count)
        assert math.isnan(found.total)
        assert found.positive == ()


def test_a_zero_bucket_without_width_lies_at_zero() -> None:
    point = NativeHistogram(0, 0.0, 2.0, 5.0, 3.0, ((0, 3.0),))
    assert trim_below(point, 0.0) is point
    assert trim_above(point, 0.0).count == 0.0
    assert trim_below(point, 1e-300).count == 3.0
    assert trim_above(point, 1e-300) == NativeHistogram(0, 0.0, 2.0, 2.0, 0.0)


def test_a_trim_leaves_buckets_alone_that_count_nothing_or_less() -> None:
    owing = NativeHistogram(0, 0.5, -2.0, 1.0, 1.0, ((0, -0.0), (1, 1.0)), hint=ResetHint.GAUGE)
    assert trim_above(owing, 100.0) is owing
    assert trim_below(owing, -100.0) is owing
    unknown = replace(owing, positive=((0, math.nan), (1, 1.0)))
    assert trim_above(unknown, 2.0) is unknown
    trimmed = trim_above(owing, 1.0)
    assert (trimmed.zero_count, trimmed.count, trimmed.positive) == (-2.0, 0.0, ())
    assert math.isnan(trim_above(NativeHistogram(0, 0.5, math.nan, 1.0, 1.0, ((1, 1.0),)), 1.0).zero_count)


def test_where_the_buckets_count_less_than_the_whole_the_end_of_the_last_one_is_the_quantile() -> None:
    assert quantile(NativeHistogram(count=4, total=1, positive=((0, 1.0), (2, 0.0))), 0.5).value == 1.0
    assert quantile(NativeHistogram(count=4, total=1, positive=((0, 1.0), (2, 0.0))), 0.3).value == 4.0
    assert quantile(NativeHistogram(count=4, total=1), 0.5).value == 0.0
    assert math.isnan(quantile(NativeHistogram(count=4, total=1), 0.0).value)


def test_the_mean_over_a_zero_below_zero_has_the_other_sign() -> None:
    assert mean(NativeHistogram(count=0.0, total=12.0)) == math.inf
    assert mean(NativeHistogram(count=-0.0, total=12.0)) == -math.inf

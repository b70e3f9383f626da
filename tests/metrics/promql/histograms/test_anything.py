"""Whatever a histogram looks like, each operation has an answer: none raises, and none changes what it must not."""

from collections.abc import Callable

import pytest
from hypothesis import given

from quarterdeck.metrics.promql.histograms.arithmetic import Outcome, add_histograms, subtract_histograms
from quarterdeck.metrics.promql.histograms.layout import MixedBuckets
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.quantiles import fraction, has_uncounted, quantile
from quarterdeck.metrics.promql.histograms.rates import Window, change_within, last_change
from quarterdeck.metrics.promql.histograms.resets import is_reset_after
from quarterdeck.metrics.promql.histograms.statistics import deviation, mean, variance
from quarterdeck.metrics.promql.histograms.totals import HistogramTotal
from quarterdeck.metrics.promql.histograms.trim import trim_above, trim_below
from tests.metrics.promql.histograms.strategies import ANY_VALUES, anything


@given(anything(), ANY_VALUES)
def test_every_histogram_has_quantiles_and_statistics(histogram: NativeHistogram, phi: float) -> None:
    assert isinstance(quantile(histogram, phi).value, float)
    assert isinstance(has_uncounted(histogram), bool)
    assert all(isinstance(of(histogram), float) for of in (mean, variance, deviation))
    assert str(histogram)


@given(anything(), ANY_VALUES, ANY_VALUES)
def test_every_histogram_has_a_fraction_between_any_two_values(
    histogram: NativeHistogram, lower: float, upper: float
) -> None:
    assert isinstance(fraction(histogram, lower, upper), float)


@given(anything(), ANY_VALUES)
def test_every_histogram_can_be_trimmed_and_scaled_by_anything(histogram: NativeHistogram, value: float) -> None:
    for found in (trim_above(histogram, value), trim_below(histogram, value)):
        assert found.hint is histogram.hint
        assert found.custom_bounds == histogram.custom_bounds
    assert len(histogram.times(value).positive) == len(histogram.positive)
    assert histogram.divided_by(value).schema == histogram.schema


@pytest.mark.parametrize("operation", [add_histograms, subtract_histograms])
@given(one=anything(), other=anything())
def test_every_two_histograms_of_one_kind_have_a_sum_and_a_difference(
    operation: Callable[[NativeHistogram, NativeHistogram], Outcome], one: NativeHistogram, other: NativeHistogram
) -> None:
    if one.is_custom == other.is_custom:
        found = operation(one, other).histogram
        assert found.schema == min(one.schema, other.schema)
        assert found.zero_threshold >= max(one.zero_threshold, other.zero_threshold)
    else:
        with pytest.raises(MixedBuckets):
            operation(one, other)
    total = HistogramTotal.of(one).plus(HistogramTotal.of(other))
    assert total.is_mixed is (one.is_custom != other.is_custom)
    if not total.is_mixed:
        assert total.sum().schema == total.mean().schema == min(one.schema, other.schema)


@given(anything(), anything(), anything())
def test_every_window_has_a_change_or_a_reason_why_not(
    first: NativeHistogram, second: NativeHistogram, third: NativeHistogram
) -> None:
    assert isinstance(is_reset_after(second, first), bool)
    window = Window([0, 10_000, 20_000], [first, second, third], -1000, 20_000)
    for is_counter in (False, True):
        for change in (change_within(window, is_counter, per_second=True), last_change(window, is_counter)):
            assert change.histogram is not None or change.remarks

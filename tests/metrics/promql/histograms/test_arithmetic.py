"""Sums, differences and totals of histograms, whatever their buckets are."""

import math
from dataclasses import replace
from functools import reduce
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.histograms.arithmetic import add_histograms, subtract_histograms
from quarterdeck.metrics.promql.histograms.bounds import CUSTOM, exponential_bound
from quarterdeck.metrics.promql.histograms.hints import ResetHint, combined_hint
from quarterdeck.metrics.promql.histograms.layout import Layout, MixedBuckets, common_layout, fit
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.totals import HistogramTotal
from tests.metrics.promql.histograms.strategies import custom, exponential, in_buckets

PAIRS = st.one_of(st.tuples(exponential(), exponential()), st.tuples(custom(), custom()))
LISTS = st.one_of(st.lists(exponential(3, 3), min_size=1, max_size=5), st.lists(custom(), min_size=1, max_size=5))


@given(PAIRS)
def test_addition_does_not_care_for_the_order(pair: tuple[NativeHistogram, NativeHistogram]) -> None:
    one, other = pair
    found, turned = add_histograms(one, other), add_histograms(other, one)
    assert found.histogram.compact() == turned.histogram.compact()
    assert (found.collided, found.reconciled) == (turned.collided, turned.reconciled)
    assert found.histogram.hint is turned.histogram.hint
    assert found.histogram.count == one.count + other.count
    assert in_buckets(found.histogram) == in_buckets(one) + in_buckets(other)


@given(PAIRS)
def test_what_was_added_can_be_taken_away(pair: tuple[NativeHistogram, NativeHistogram]) -> None:
    one, other = pair
    found = subtract_histograms(add_histograms(one, other).histogram, other).histogram
    assert found.compact() == fit(one, Layout.of(found)).compact()


@given(PAIRS)
def test_two_histograms_fit_the_layout_they_have_in_common(pair: tuple[NativeHistogram, NativeHistogram]) -> None:
    layout = common_layout(*pair)
    assert layout == common_layout(pair[1], pair[0])
    for one in pair:
        found = fit(one, layout)
        assert Layout.of(found) == layout
        assert in_buckets(found) == in_buckets(one)
        assert layout.schema <= one.schema
        assert layout.zero_threshold >= one.zero_threshold
        assert set(layout.custom_bounds) <= set(one.custom_bounds)


def test_the_zero_bucket_grows_until_it_cuts_no_bucket() -> None:
    wide = NativeHistogram(0, 0.6, 1.0, 1.0)
    narrow = NativeHistogram(0, 0.001, 1.0, 6.0, 0.0, ((-3, 1.0), (0, 2.0), (1, 2.0)), ((2, 0.0),))
    found = add_histograms(wide, narrow).histogram
    assert (found.zero_threshold, found.zero_count, found.positive) == (1.0, 5.0, ((1, 2.0),))
    empty = replace(narrow, positive=((-3, 1.0), (0, 0.0), (1, 2.0)))
    assert add_histograms(wide, empty).histogram.zero_threshold == 0.6


def test_the_zero_bucket_grows_on_both_sides() -> None:
    wide = NativeHistogram(0, 0.6, 1.0, 1.0)
    narrow = NativeHistogram(0, 0.0, 0.0, 6.0, 0.0, ((0, 1.0), (1, 1.0)), ((0, 1.0), (1, 4.0)))
    found = add_histograms(narrow, wide).histogram
    assert (found.zero_threshold, found.zero_count) == (1.0, 3.0)
    assert (found.positive, found.negative) == (((1, 1.0),), ((1, 4.0),))


def test_a_sum_does_not_depend_on_which_side_is_first() -> None:
    # Prometheus counts twice, or not at all, what the zero bucket of the other side covers.
    edge = exponential_bound(1, 1)
    coarse = NativeHistogram(0, edge, 1.0, 1.0)
    fine = NativeHistogram(1, 0.001, 0.0, 7.0, 0.0, ((1, 3.0), (2, 4.0)))
    for added in (add_histograms(coarse, fine).histogram, add_histograms(fine, coarse).histogram):
        assert (added.zero_threshold, added.zero_count, added.positive) == (edge, 4.0, ((1, 4.0),))


def test_a_histogram_whose_zero_bucket_grows_loses_its_empty_buckets_on_both_sides() -> None:
    narrow = NativeHistogram(0, 0.0, 0.0, 1.0, 0.0, ((0, 1.0),), ((5, 0.0), (6, 1.0)))
    assert add_histograms(narrow, NativeHistogram(0, 1.0)).histogram.negative == ((6, 1.0),)


def test_custom_bounds_that_both_have_are_kept() -> None:
    one = NativeHistogram(CUSTOM, count=15, positive=((0, 1.0), (1, 2.0), (2, 5.0), (3, 7.0)), custom_bounds=(2, 4, 6))
    other = NativeHistogram(CUSTOM, count=3, positive=((0, 1.0), (1, 1.0), (2, 1.0)), custom_bounds=(1, 4))
    outcome = add_histograms(one, other)
    assert outcome.reconciled
    assert outcome.histogram.custom_bounds == (4,)
    assert outcome.histogram.positive == ((0, 5.0), (1, 13.0))
    assert not add_histograms(one, one).reconciled


def test_exponential_and_custom_buckets_do_not_mix() -> None:
    with pytest.raises(MixedBuckets):
        add_histograms(NativeHistogram(), NativeHistogram(CUSTOM))


@pytest.mark.parametrize(
    ("one", "other", "hint", "collided"),
    [
        (ResetHint.UNKNOWN, ResetHint.RESET, ResetHint.UNKNOWN, False),
        (ResetHint.NOT_RESET, ResetHint.NOT_RESET, ResetHint.NOT_RESET, False),
        (ResetHint.NOT_RESET, ResetHint.RESET, ResetHint.UNKNOWN, True),
        (ResetHint.NOT_RESET, ResetHint.GAUGE, ResetHint.GAUGE, False),
        (ResetHint.UNKNOWN, ResetHint.GAUGE, ResetHint.GAUGE, False),
    ],
)
def test_the_hint_of_a_sum_is_what_both_can_say(
    one: ResetHint, other: ResetHint, hint: ResetHint, collided: bool
) -> None:
    for left, right in ((one, other), (other, one)):
        outcome = add_histograms(NativeHistogram(hint=left), NativeHistogram(hint=right))
        assert (outcome.histogram.hint, outcome.collided) == (hint, collided)
        assert combined_hint(left, right) is hint


def total(histograms: list[NativeHistogram]) -> HistogramTotal:
    return reduce(HistogramTotal.plus, map(HistogramTotal.of, histograms))


@given(LISTS, st.integers(0, 5))
def test_a_total_does_not_depend_on_how_it_was_split(histograms: list[NativeHistogram], cut: int) -> None:
    whole = total(histograms)
    parts = [part for part in (histograms[:cut], histograms[cut:]) if part]
    joined = reduce(HistogramTotal.plus, map(total, reversed(parts)))
    assert joined.sum().compact() == whole.sum().compact()
    assert joined.mean().compact() == whole.mean().compact()
    assert joined.sum().hint is whole.sum().hint
    assert (joined.collided, joined.reconciled, joined.members) == (whole.collided, whole.reconciled, whole.members)


def test_a_total_keeps_what_is_small_beside_what_is_large() -> None:
    for numbers in permutations((5.3, 1e100, 1.0, -1e100)):
        found = total([NativeHistogram(count=1, total=number, positive=((0, number),)) for number in numbers])
        assert found.sum().total == pytest.approx(6.3)
        assert found.mean().total == pytest.approx(6.3 / 4)
        assert found.sum().positive[0][1] == pytest.approx(6.3)


def test_a_mean_does_not_overflow_where_its_sum_does() -> None:
    large = NativeHistogram(count=1.7e308, total=2.0, positive=((0, 1.7e308),))
    found = total([large, large, NativeHistogram(count=1.0, total=1.0), large])
    assert found.sum().count == math.inf
    assert found.sum().total == 7.0
    assert found.mean().count == pytest.approx(1.7e308 * 0.75)
    assert found.mean().total == 1.75


def test_what_is_infinite_stays_infinite() -> None:
    found = total([NativeHistogram(total=math.inf), NativeHistogram(total=1.0)])
    assert found.sum().total == math.inf
    assert math.isnan(total([NativeHistogram(total=math.inf), NativeHistogram(total=-math.inf)]).sum().total)


def test_a_total_remembers_that_a_part_of_it_was_reconciled() -> None:
    narrow, wide = (NativeHistogram(CUSTOM, count=1, custom_bounds=bounds) for bounds in ((5.0,), (5.0, 10.0)))
    reconciled = total([wide, narrow])
    assert reconciled.reconciled
    assert reconciled.plus(HistogramTotal.of(narrow)).reconciled
    assert HistogramTotal.of(narrow).plus(reconciled).reconciled
    assert not total([narrow, narrow]).reconciled


def test_a_total_of_exponential_and_custom_buckets_says_that_there_is_none() -> None:
    exponential_one, custom_one = HistogramTotal.of(NativeHistogram()), HistogramTotal.of(NativeHistogram(CUSTOM))
    mixed = exponential_one.plus(custom_one)
    assert mixed.is_mixed
    assert mixed.plus(exponential_one).is_mixed
    assert exponential_one.plus(mixed).is_mixed
    assert mixed.plus(custom_one).members == 3

"""When a counter of histograms has started over."""

import math
from dataclasses import replace

import pytest
from hypothesis import given

from quarterdeck.metrics.promql.histograms.arithmetic import add_histograms
from quarterdeck.metrics.promql.histograms.bounds import CUSTOM, exponential_bound
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.resets import is_reset_after
from tests.metrics.promql.histograms.strategies import custom, exponential

BEFORE = NativeHistogram(1, 0.001, 2.0, 9.0, 5.0, ((3, 1.0), (4, 2.0)), ((3, 4.0),))
BOUNDED = NativeHistogram(CUSTOM, count=8, positive=((0, 1.0), (1, 2.0), (2, 5.0)), custom_bounds=(2.0, 4.0))


@pytest.mark.parametrize(
    ("after", "before", "is_reset"),
    [
        (BEFORE, BEFORE, False),
        (replace(BEFORE, total=-1.0), BEFORE, False),
        (replace(BEFORE, count=8.0), BEFORE, True),
        (replace(BEFORE, count=8.0, hint=ResetHint.NOT_RESET), BEFORE, False),
        (replace(BEFORE, hint=ResetHint.RESET), BEFORE, True),
        (replace(BEFORE, hint=ResetHint.GAUGE), BEFORE, False),
        (replace(BEFORE, zero_count=1.0), BEFORE, True),
        (replace(BEFORE, positive=((3, 1.0), (4, 1.0))), BEFORE, True),
        (replace(BEFORE, positive=((3, 1.0), (5, 9.0))), BEFORE, True),
        (replace(BEFORE, positive=()), BEFORE, True),
        (replace(BEFORE, negative=()), BEFORE, True),
        (replace(BEFORE, positive=((1, 1.0), (3, 1.0), (4, 2.0), (5, 1.0))), BEFORE, False),
        (BEFORE, replace(BEFORE, positive=((2, 0.0), (3, 1.0), (4, 2.0), (9, 0.0))), False),
        (replace(BEFORE, schema=2), BEFORE, True),
        (replace(BEFORE, schema=0, positive=((2, 3.0),), negative=((2, 4.0),)), BEFORE, False),
        (replace(BEFORE, schema=0, positive=((2, 2.0),), negative=((2, 4.0),)), BEFORE, True),
        (replace(BEFORE, zero_threshold=0.0001), BEFORE, True),
        (replace(BEFORE, zero_threshold=1.0), BEFORE, False),
        (replace(BEFORE, zero_threshold=2.5, zero_count=7.0, positive=((4, 2.0),), negative=()), BEFORE, True),
        (
            replace(BEFORE, zero_threshold=exponential_bound(3, 1), zero_count=7.0, positive=((4, 2.0),), negative=()),
            BEFORE,
            False,
        ),
        (
            replace(BEFORE, zero_threshold=exponential_bound(3, 1), zero_count=6.0, positive=((4, 2.0),), negative=()),
            BEFORE,
            True,
        ),
        (BOUNDED, BOUNDED, False),
        (replace(BOUNDED, positive=((0, 1.0), (1, 1.0), (2, 6.0))), BOUNDED, True),
        (replace(BOUNDED, custom_bounds=(4.0,), positive=((0, 3.0), (1, 5.0))), BOUNDED, False),
        (replace(BOUNDED, custom_bounds=(4.0,), positive=((0, 2.0), (1, 6.0))), BOUNDED, True),
        (replace(BOUNDED, custom_bounds=(), positive=((0, 8.0),)), BOUNDED, False),
        (BOUNDED, replace(BEFORE, count=1.0), True),
        (BEFORE, BOUNDED, True),
        (BOUNDED, NativeHistogram(count=1.0), True),
    ],
)
def test_a_counter_has_started_over_when_something_that_only_grows_fell(
    after: NativeHistogram, before: NativeHistogram, is_reset: bool
) -> None:
    assert is_reset_after(after, before) is is_reset


@pytest.mark.parametrize(
    ("after", "before", "is_reset"),
    [
        # A bucket that is gone had to count nothing, neither more nor less nor what is no number.
        (NativeHistogram(count=1.0, positive=((1, 1.0),)), NativeHistogram(positive=((0, -1.0),)), True),
        (NativeHistogram(count=1.0, positive=((1, 1.0),)), NativeHistogram(positive=((0, math.nan),)), True),
        (NativeHistogram(count=1.0, positive=((0, 1.0),)), NativeHistogram(positive=((0, math.nan),)), False),
        (
            NativeHistogram(CUSTOM, count=1.0, positive=((1, 1.0),), custom_bounds=(1.0,)),
            NativeHistogram(CUSTOM, positive=((0, -1.0),), custom_bounds=(1.0,)),
            True,
        ),
        (
            NativeHistogram(CUSTOM, positive=((0, -1.0),), custom_bounds=(1.0, 5.0)),
            NativeHistogram(CUSTOM, custom_bounds=(1.0,)),
            True,
        ),
        # Beyond the last bucket there is now, Prometheus looks at one bucket that was there before, and no further.
        (NativeHistogram(count=5.0, zero_count=5.0), NativeHistogram(count=5.0, positive=((0, 5.0),)), True),
        (NativeHistogram(count=5.0, zero_count=5.0), NativeHistogram(positive=((0, 0.0), (1, 5.0))), False),
        (NativeHistogram(count=5.0, positive=((0, 5.0),)), NativeHistogram(positive=((1, 0.0), (2, 5.0))), False),
        (NativeHistogram(count=5.0, positive=((0, 5.0),)), NativeHistogram(positive=((1, 5.0),)), True),
        (NativeHistogram(count=5.0), NativeHistogram(positive=((-2000, 5.0),)), True),
        # Buckets within the zero bucket are not looked at, in a coarser schema those that end within it.
        (
            NativeHistogram(0, 2.0, 5.0, 5.0, positive=((2, 1.0),)),
            NativeHistogram(0, 2.0, 5.0, 5.0, positive=((1, 3.0), (2, 1.0))),
            False,
        ),
        (
            NativeHistogram(0, exponential_bound(1, 1), 3.0, 8.0, positive=((1, 5.0),)),
            NativeHistogram(1, 0.001, 0.0, 7.0, positive=((1, 3.0), (2, 4.0))),
            True,
        ),
        (
            NativeHistogram(0, exponential_bound(1, 1), 3.0, 8.0, positive=((1, 7.0),)),
            NativeHistogram(1, 0.001, 0.0, 7.0, positive=((1, 3.0), (2, 4.0))),
            False,
        ),
    ],
)
def test_which_buckets_are_compared_is_prometheus_choice(
    after: NativeHistogram, before: NativeHistogram, is_reset: bool
) -> None:
    assert is_reset_after(after, before) is is_reset


@given(exponential(), exponential())
def test_a_counter_that_grew_has_not_started_over(before: NativeHistogram, more: NativeHistogram) -> None:
    after = add_histograms(before, more).histogram.with_hint(ResetHint.UNKNOWN)
    assert not is_reset_after(after, before)


@given(custom(), custom())
def test_a_counter_with_custom_bounds_that_grew_has_not_started_over(
    before: NativeHistogram, more: NativeHistogram
) -> None:
    after = add_histograms(before, more).histogram.with_hint(ResetHint.UNKNOWN)
    assert not is_reset_after(after, before)


def test_a_bucket_that_counted_less_than_nothing_and_is_gone_is_a_reset() -> None:
    difference = NativeHistogram(count=1, positive=((0, 2.0), (1, -1.0)))
    assert is_reset_after(replace(difference, count=2, positive=((0, 2.0),)), difference)
    assert not is_reset_after(difference, replace(difference, positive=((0, 2.0), (1, -2.0))))

"""Histograms over windows that know the samples around them: edges, resets, and what is said about the result."""

import pytest

from quarterdeck.metrics.promql.histograms.bounds import CUSTOM
from quarterdeck.metrics.promql.histograms.extended import extended_change, value_at
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.rates import Remark, Window


def counted(count: float, hint: ResetHint = ResetHint.UNKNOWN) -> NativeHistogram:
    return NativeHistogram(count=count, total=count, positive=((0, count),), hint=hint)


def custom(count: float, *bounds: float) -> NativeHistogram:
    return NativeHistogram(CUSTOM, count=count, total=count, positive=((0, count),), custom_bounds=bounds)


def window(start_s: int, end_s: int, *histograms: NativeHistogram) -> Window:
    """A window over samples every 10 s from 0 on."""
    return Window([at * 10_000 for at in range(len(histograms))], histograms, start_s * 1000, end_s * 1000)


def plain(*counts: float) -> tuple[NativeHistogram, ...]:
    return tuple(map(counted, counts))


@pytest.mark.parametrize(
    "start_s, end_s, counts, expected",
    [
        (5, 25, (1, 4, 10), 10 - 1),
        (0, 20, (1, 4, 10), 10 - 1),
        (-5, 25, (1, 4, 10), 10 - 1),
        (20, 25, (1, 4, 10), None),
        (5, 25, (5, 10, 3), 3 - 5 + 10),
        (5, 15, (5, 3), 3 - 5 + 5),
    ],
)
def test_anchored_counts_from_the_last_sample_before_the_window(
    start_s: int, end_s: int, counts: tuple[float, ...], expected: float | None
) -> None:
    change = extended_change(window(start_s, end_s, *plain(*counts)), False, True, False)
    assert (None if change.histogram is None else change.histogram.count) == expected


@pytest.mark.parametrize(
    "start_s, end_s, counts, expected",
    [
        (4, 12, (0, 10, 20), 12 - 4),
        (-4, 12, (0, 10, 20), 12 - 0),
        (4, 30, (0, 10, 20), 20 - 4),
        (12, 14, (0, 10, 20), 2),
        (-9, -5, (0, 10, 20), None),
        (21, 30, (0, 10, 20), None),
        # After a reset a counter starts from 0: 3 at 5 s, and 1.5 at 15 s with 10 reached before.
        (5, 10, (10, 6), 6 - 3),
        (5, 15, (5, 10, 3), 1.5 - 7.5 + 10),
        # Both edges know of the one reset.
        (2, 8, (10, 5), 4 - 1),
        # The left edge knows of the first reset, the second one is between.
        (5, 20, (10, 6, 4), 4 - 3 + 6),
    ],
)
def test_smoothed_counts_from_edge_to_edge(
    start_s: int, end_s: int, counts: tuple[float, ...], expected: float | None
) -> None:
    change = extended_change(window(start_s, end_s, *plain(*counts)), True, True, False)
    assert (None if change.histogram is None else change.histogram.count) == expected


def test_a_reset_that_the_left_edge_knows_of_is_not_counted_again() -> None:
    samples = (counted(10), counted(5, ResetHint.RESET), counted(2, ResetHint.RESET), counted(4))
    change = extended_change(window(1, 15, *samples), True, True, False)
    assert change.histogram is not None
    assert change.histogram.count == 1 - 0.5 + 5


def test_a_rate_is_per_second_of_the_window_and_a_gauge() -> None:
    change = extended_change(window(0, 20, *plain(0, 10, 20)), True, True, True)
    assert change.histogram == counted(1.0)
    assert change.histogram is not None
    assert change.histogram.hint is ResetHint.GAUGE
    assert change.remarks == frozenset()


def test_a_gauge_may_fall_and_says_when_it_is_none() -> None:
    falling = [counted(9, ResetHint.GAUGE), counted(4, ResetHint.GAUGE)]
    change = extended_change(window(0, 10, *falling), False, False, False)
    assert change.histogram is not None
    assert (change.histogram.count, change.remarks) == (-5, frozenset())
    assert extended_change(window(0, 10, *plain(9, 4)), False, False, False).remarks == {Remark.NOT_A_GAUGE}


def test_a_gauge_among_the_samples_of_a_counter_is_told() -> None:
    change = extended_change(window(0, 20, counted(1), counted(2, ResetHint.GAUGE), counted(3)), True, True, False)
    assert change.remarks == {Remark.NOT_A_COUNTER}


def test_exponential_and_custom_buckets_have_no_change_in_common() -> None:
    for smoothed in (False, True):
        change = extended_change(window(0, 10, counted(1), custom(2, 5.0)), smoothed, True, False)
        assert (change.histogram, change.remarks) == (None, {Remark.MIXED_BUCKETS})
    assert value_at(window(0, 0, counted(1), custom(2, 5.0)), 5000).remarks == {Remark.MIXED_BUCKETS}


def test_different_custom_bounds_are_reconciled_and_told() -> None:
    change = extended_change(window(4, 10, custom(1, 5.0, 9.0), custom(2, 5.0)), True, True, False)
    assert change.histogram is not None
    assert change.remarks == {Remark.ADDITION_RECONCILED, Remark.SUBTRACTION_RECONCILED}


def test_a_value_lies_between_the_samples_around_it() -> None:
    samples = window(0, 0, counted(10), counted(20), counted(6, ResetHint.RESET))
    counts = [value_at(samples, time_ms).histogram for time_ms in (-1, 0, 4000, 10_000, 15_000, 20_000, 21_000)]
    assert [None if found is None else found.count for found in counts] == [None, 10, 14, 20, 3, 6, 6]


def test_a_value_that_holds_on_says_nothing_of_the_one_before() -> None:
    samples = window(0, 0, counted(6, ResetHint.RESET))
    exact, later = (value_at(samples, time_ms).histogram for time_ms in (0, 1000))
    assert exact is not None
    assert later is not None
    assert (exact.hint, later.hint) == (ResetHint.RESET, ResetHint.UNKNOWN)

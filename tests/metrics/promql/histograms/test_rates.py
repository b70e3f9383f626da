"""How histograms moved within a window."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.histograms.bounds import CUSTOM
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.rates import Change, Remark, Window, change_within, last_change


def counter(count: float, hint: ResetHint = ResetHint.UNKNOWN) -> NativeHistogram:
    return NativeHistogram(count=count, total=2 * count, positive=((1, count),), hint=hint)


def window(*histograms: NativeHistogram, start_ms: int = -1000, end_ms: int | None = None) -> Window:
    """Samples 10 s apart, from 0 on."""
    times = [10_000 * place for place in range(len(histograms))]
    return Window(times, histograms, start_ms, times[-1] if end_ms is None else end_ms)


def bounded(*bounds: float, count: float = 1.0, hint: ResetHint = ResetHint.UNKNOWN) -> NativeHistogram:
    return NativeHistogram(CUSTOM, count=count, positive=((0, count),), custom_bounds=bounds, hint=hint)


def test_an_increase_is_stretched_to_the_windows_edges() -> None:
    found = change_within(window(counter(10), counter(30), start_ms=-5000, end_ms=15_000), True, per_second=False)
    assert found.remarks == frozenset()
    assert found.histogram == counter(40.0)
    assert found.histogram is not None
    assert found.histogram.hint is ResetHint.GAUGE


def test_a_change_is_stretched_by_half_a_gap_where_the_edge_is_far() -> None:
    gauges = (counter(0, ResetHint.GAUGE), counter(10, ResetHint.GAUGE))
    assert change_within(window(*gauges, start_ms=-10_000), False, per_second=False).histogram == counter(20.0)
    assert change_within(window(*gauges, start_ms=-12_000), False, per_second=False).histogram == counter(15.0)
    assert change_within(window(*gauges, start_ms=0, end_ms=21_000), False, per_second=False).histogram == counter(15.0)


def test_resets_that_are_known_are_not_looked_for() -> None:
    falling = Window([0, 10_000], [counter(30), counter(10)], 0, 10_000, known_resets=[False, False])
    assert change_within(falling, True, per_second=False).histogram == counter(-20.0)
    assert change_within(replace(falling, known_resets=None), True, per_second=False).histogram == counter(10.0)


def test_a_rate_is_per_second_of_the_window() -> None:
    found = change_within(window(counter(10), counter(30), start_ms=-5000, end_ms=15_000), True, per_second=True)
    assert found.histogram == counter(2.0)


def test_a_counter_is_not_stretched_to_before_it_was_zero() -> None:
    found = change_within(window(counter(2), counter(22), start_ms=-9000), True, per_second=False)
    assert found.histogram == counter(22.0)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=8))
def test_the_count_of_histograms_moves_as_a_float_counter_does(counts: list[int]) -> None:
    growth = 0.0
    for before, after in pairwise(counts):
        growth += after - before if after >= before else after
    samples = [counter(float(count)) for count in counts]
    found = change_within(window(*samples, start_ms=0), True, per_second=False)
    assert found.histogram is not None
    assert found.histogram.count == pytest.approx(growth)
    assert found.histogram.total == pytest.approx(2 * growth)


def test_a_reset_in_one_bucket_is_a_reset() -> None:
    first = NativeHistogram(count=4, total=5, positive=((0, 1.0), (1, 2.0), (2, 1.0)))
    second = NativeHistogram(count=5, total=6, positive=((0, 1.0), (1, 1.0), (2, 3.0)))
    found = change_within(window(first, second, start_ms=0), True, per_second=False)
    assert found.histogram == second


def test_the_first_sample_does_not_matter_after_a_reset_not_even_its_buckets() -> None:
    found = change_within(window(bounded(5.0), counter(4), counter(5), start_ms=0), True, per_second=False)
    assert found.histogram == counter(5.0)
    assert found.remarks == frozenset()


@pytest.mark.parametrize(
    ("samples", "is_counter", "remarks"),
    [
        ((counter(1), counter(2)), True, set[Remark]()),
        ((counter(1, ResetHint.GAUGE), counter(2), counter(3)), True, {Remark.NOT_A_COUNTER}),
        ((counter(1), counter(2, ResetHint.GAUGE), counter(3)), True, {Remark.NOT_A_COUNTER}),
        ((counter(1), counter(2)), False, {Remark.NOT_A_GAUGE}),
        ((counter(1, ResetHint.GAUGE), counter(2)), False, {Remark.NOT_A_GAUGE}),
        ((counter(1, ResetHint.GAUGE), counter(2, ResetHint.GAUGE)), False, set[Remark]()),
        ((counter(1), bounded(5.0), counter(3)), True, {Remark.MIXED_BUCKETS}),
        ((counter(1), bounded(5.0)), False, {Remark.MIXED_BUCKETS}),
        ((bounded(5.0), bounded(5.0, 10.0, count=2.0)), True, {Remark.SUBTRACTION_RECONCILED}),
        (
            (bounded(5.0, count=1.0), bounded(5.0, count=9.0), bounded(5.0, 6.0, count=2.0)),
            True,
            {Remark.SUBTRACTION_RECONCILED},
        ),
        (
            (bounded(5.0), bounded(5.0, 6.0, count=9.0), bounded(5.0, count=2.0)),
            True,
            {Remark.ADDITION_RECONCILED},
        ),
        # Nothing of the first sample matters then, and the nothing that stands for it has the bounds of the second.
        (
            (counter(1), bounded(5.0, 6.0, count=9.0, hint=ResetHint.RESET), bounded(5.0, count=10.0)),
            True,
            {Remark.SUBTRACTION_RECONCILED, Remark.ADDITION_RECONCILED},
        ),
        ((counter(99), bounded(5.0, 6.0), bounded(5.0, count=2.0)), True, {Remark.SUBTRACTION_RECONCILED}),
    ],
)
def test_a_reader_is_told_what_is_wrong_with_a_window(
    samples: tuple[NativeHistogram, ...], is_counter: bool, remarks: set[Remark]
) -> None:
    found = change_within(window(*samples), is_counter, per_second=False)
    assert found.remarks == remarks
    assert (found.histogram is None) is (Remark.MIXED_BUCKETS in remarks)


def test_the_last_change_looks_at_two_samples() -> None:
    found = last_change(window(counter(99), counter(10), counter(30)), is_counter=True)
    assert found.histogram == counter(2.0)
    assert found.remarks == frozenset()
    assert last_change(window(counter(30), counter(10)), is_counter=True).histogram == counter(1.0)


def test_the_last_change_of_a_gauge_may_be_negative_and_is_not_per_second() -> None:
    gauges = (counter(30, ResetHint.GAUGE), counter(10, ResetHint.GAUGE))
    found = last_change(window(*gauges), is_counter=False)
    assert found.histogram == counter(-20.0)
    assert found.remarks == frozenset()
    assert last_change(window(*gauges), is_counter=True).remarks == {Remark.NOT_A_COUNTER}


def test_the_last_change_says_what_is_wrong() -> None:
    assert last_change(window(counter(1), counter(2)), is_counter=False).remarks == {Remark.NOT_A_GAUGE}
    mixed = last_change(window(replace(bounded(5.0), hint=ResetHint.GAUGE), counter(2, ResetHint.GAUGE)), False)
    assert mixed.histogram is None
    assert mixed.remarks == {Remark.MIXED_BUCKETS}
    reconciled = last_change(window(bounded(5.0), bounded(5.0, 6.0, count=2.0)), is_counter=True)
    assert reconciled.remarks == {Remark.SUBTRACTION_RECONCILED}


def test_an_increase_is_as_coarse_as_the_coarsest_sample() -> None:
    fine = NativeHistogram(1, count=2, positive=((1, 1.0), (2, 1.0)))
    coarse = NativeHistogram(0, count=3, positive=((1, 3.0),), hint=ResetHint.NOT_RESET)
    finer = NativeHistogram(1, count=6, positive=((1, 3.0), (2, 3.0)), hint=ResetHint.NOT_RESET)
    found = change_within(window(fine, coarse, finer, start_ms=0), True, per_second=False)
    assert found.histogram == NativeHistogram(0, count=4, positive=((1, 4.0),))


@pytest.mark.parametrize(
    ("histograms", "remarks"),
    [
        ((counter(1, ResetHint.GAUGE), bounded(1.0, count=5, hint=ResetHint.NOT_RESET)), {Remark.NOT_A_COUNTER}),
        ((counter(1), counter(2, ResetHint.GAUGE), bounded(1.0, count=5, hint=ResetHint.NOT_RESET)), set[Remark]()),
        ((counter(1), bounded(1.0, count=5, hint=ResetHint.NOT_RESET), counter(9, ResetHint.GAUGE)), set[Remark]()),
    ],
)
def test_kinds_of_buckets_that_differ_are_told_and_that_an_end_is_no_counter(
    histograms: tuple[NativeHistogram, ...], remarks: set[Remark]
) -> None:
    found = change_within(window(*histograms), True, per_second=False)
    assert found.histogram is None
    assert found.remarks == {Remark.MIXED_BUCKETS, *remarks}


def started(*samples: tuple[int, NativeHistogram], end_ms: int, resets: tuple[int, ...] = ()) -> Window:
    """Samples 10 s apart, each with its start; the window begins at -1 s."""
    times = [10_000 * place for place in range(len(samples))]
    known = [place in resets for place in range(len(samples))]
    return Window(times, [one for _, one in samples], -1000, end_ms, known, [start for start, _ in samples])


def test_one_sample_is_enough_for_a_counter_that_started_within_the_window() -> None:
    found = change_within(started((-500, counter(30)), end_ms=10_000), is_counter=True, per_second=False)
    assert found == Change(counter(30))
    for start in (0, -1000, -2000, 5):
        window = started((start, counter(30)), end_ms=10_000)
        assert change_within(window, is_counter=True, per_second=False) == Change(None)
    assert change_within(started((-500, counter(30)), end_ms=10_000), is_counter=False, per_second=False) == Change(
        None
    )


def test_a_counter_has_grown_from_zero_since_it_started_within_the_window() -> None:
    window = started((-500, counter(30)), (-500, counter(50)), (15_000, counter(60)), end_ms=25_000, resets=(2,))
    found = change_within(window, is_counter=True, per_second=False).histogram
    assert found is not None
    # 20 more, 60 after a reset, and 30 before the first sample; from -0.5 s to 20 s, and half a gap to 25 s.
    assert found.count == pytest.approx(110 * 25.5 / 20.5)
    assert found.hint is ResetHint.GAUGE


def test_what_a_counter_had_reached_must_have_the_same_kind_of_buckets() -> None:
    """After a reset nothing of the first sample matters; but it does for what had grown until then."""
    window = started((-500, counter(5)), (1000, bounded(1.0)), end_ms=10_000, resets=(1,))
    assert change_within(window, is_counter=True, per_second=False) == Change(None, frozenset({Remark.MIXED_BUCKETS}))
    without = Window(window.times_ms, window.histograms, -1000, 10_000, [False, True])
    assert change_within(without, is_counter=True, per_second=False).histogram is not None


def test_starts_that_contradict_each_other_are_told() -> None:
    window = started((-9, counter(1)), (-9, counter(2)), (-8, counter(3)), end_ms=20_000)
    assert change_within(window, is_counter=True, per_second=True).remarks == {Remark.STARTS_OVERLAP}
    window = started((-9, counter(1)), (-9, counter(2)), (10_000, counter(3)), end_ms=20_000)
    assert change_within(window, is_counter=True, per_second=True).remarks == frozenset()

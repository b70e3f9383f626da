"""Whether a counter started over between two histograms of a series."""

from quarterdeck.metrics.promql.histograms.buckets import Buckets
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.layout import Layout, common_layout, fit, zero_count_within
from quarterdeck.metrics.promql.histograms.native import NativeHistogram


def is_reset_after(current: NativeHistogram, previous: NativeHistogram) -> bool:
    """Whether the counter started over: the hint says so, or something that can only grow became smaller.

    What can only grow: every count (not the total) and the width of the zero bucket; the resolution can only fall.
    """
    if current.hint is ResetHint.RESET:
        return True
    if current.hint is ResetHint.NOT_RESET:
        return False
    if current.count < previous.count:
        return True
    if current.is_custom and previous.is_custom:
        if current.custom_bounds == previous.custom_bounds:
            return _is_smaller(current.positive, previous.positive)
        layout = common_layout(current, previous)
        return _falls_short(fit(current, layout).positive, fit(previous, layout).positive)
    if current.is_custom or current.schema > previous.schema:
        return True
    return _exponential_reset(current, previous)


def _exponential_reset(current: NativeHistogram, previous: NativeHistogram) -> bool:
    if current.zero_threshold < previous.zero_threshold:
        return True
    zero_count = zero_count_within(previous, current.zero_threshold)
    if zero_count is None or current.zero_count < zero_count:
        return True
    before = fit(previous, Layout.of(current))
    return _is_smaller(current.positive, before.positive) or _is_smaller(current.negative, before.negative)


def _is_smaller(current: Buckets, previous: Buckets) -> bool:
    """Whether a bucket counts less than it did, or one that counted something is gone.

    A count may be below zero, in a difference; that one is gone then as well."""
    now = dict(current)
    return any(now[index] < count if index in now else count != 0 for index, count in previous)


def _falls_short(current: Buckets, previous: Buckets) -> bool:
    """Whether there is less up to a bound than there was. Where there is no bucket there is nothing."""
    now = dict(current)
    return any(now.get(index, 0.0) < count for index, count in previous)

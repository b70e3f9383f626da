"""Whether a counter started over between two histograms of a series."""

from quarterdeck.metrics.promql.histograms.buckets import Buckets
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.layout import (
    Layout,
    beyond_zero,
    common_layout,
    fit,
    reduce_schema,
    zero_count_within,
)
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
            return _has_fallen(current.positive, previous.positive)
        layout = common_layout(current, previous)
        return _is_smaller(fit(current, layout).positive, fit(previous, layout).positive)
    if current.is_custom or current.schema > previous.schema:
        return True
    return _exponential_reset(current, previous)


def _exponential_reset(current: NativeHistogram, previous: NativeHistogram) -> bool:
    if current.zero_threshold < previous.zero_threshold:
        return True
    zero_count = zero_count_within(previous, current.zero_threshold)
    if zero_count is None or current.zero_count < zero_count:
        return True
    layout, before = Layout.of(current), reduce_schema(previous, current.schema)
    sides = ((current.positive, before.positive), (current.negative, before.negative))
    return any(_has_fallen(*(_compared(side, layout) for side in pair)) for pair in sides)


def _compared(buckets: Buckets, layout: Layout) -> Buckets:
    """Not those within the zero bucket; if it has no width nothing is, not even what is too small for a float."""
    return beyond_zero(buckets, layout) if layout.zero_threshold else buckets


def _has_fallen(current: Buckets, previous: Buckets) -> bool:
    """Whether a bucket counts less than it did, or is gone that counted something.

    Of the buckets beyond the last one that is there now only the first is asked: Prometheus stops there.
    """
    now = dict(current)
    last = current[-1][0] if current else None
    for index, count in previous:
        if last is None or index > last:
            return count != 0
        if now[index] < count if index in now else count != 0:
            return True
    return False


def _is_smaller(current: Buckets, previous: Buckets) -> bool:
    """Whether a bucket counts less than it did. One that is not there counts nothing."""
    now, before = dict(current), dict(previous)
    return any(now.get(index, 0.0) < before.get(index, 0.0) for index in now.keys() | before)

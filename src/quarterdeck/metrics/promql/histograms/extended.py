"""How a series of histograms moved within a window that knows the samples around it (`anchored`, `smoothed`)."""

from bisect import bisect_left, bisect_right

from quarterdeck.metrics.promql.histograms.arithmetic import add_histograms, subtract_histograms
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.rates import Change, Remark, Window
from quarterdeck.metrics.promql.histograms.resets import is_reset_after


def extended_change(window: Window, smoothed: bool, is_counter: bool, per_second: bool) -> Change:
    """The change from the window's beginning to its end. The window's samples are those around it as well."""
    times_ms = window.times_ms
    first = max(0, bisect_right(times_ms, window.start_ms) - 1)
    last = len(times_ms) - 1
    if smoothed:
        last = min(last, bisect_left(times_ms, window.end_ms))
    if times_ms[last] <= window.start_ms or (smoothed and times_ms[first] > window.end_ms):
        return Change(None)
    remarks: set[Remark] = set()
    for histogram in window.histograms[first : last + 1]:
        if histogram.is_custom != window.histograms[first].is_custom:
            return Change(None, frozenset({*remarks, Remark.MIXED_BUCKETS}))
        if is_counter and histogram.hint is ResetHint.GAUGE:
            remarks.add(Remark.NOT_A_COUNTER)
    left, right = window.histograms[first], window.histograms[last]
    crosses_left = smoothed and times_ms[first] < window.start_ms
    if crosses_left:
        left = _interpolated(window, first, window.start_ms, is_counter, remarks)
    if smoothed and times_ms[last] > window.end_ms:
        right = _interpolated(window, last - 1, window.end_ms, is_counter, remarks)
    if not is_counter and {left.hint, right.hint} != {ResetHint.GAUGE}:
        remarks.add(Remark.NOT_A_GAUGE)
    result = _difference(right, left, remarks)
    if is_counter and (reached := _reached_before_resets(window, first, last, left, right, crosses_left, remarks)):
        result = _sum(result, reached, remarks)
    if per_second:
        result = result.divided_by((window.end_ms - window.start_ms) / 1000)
    return Change(result.compact().with_hint(ResetHint.GAUGE), frozenset(remarks))


def value_at(window: Window, time_ms: int) -> Change:
    """The histogram at a time, between the samples around it; the last one holds on, before the first is nothing."""
    times_ms, histograms = window.times_ms, window.histograms
    at = bisect_left(times_ms, time_ms)
    if at < len(times_ms) and times_ms[at] == time_ms:
        return Change(histograms[at])
    if at == 0:
        return Change(None)
    before = histograms[at - 1]
    if at == len(times_ms):
        # What it says of the sample before it was true once.
        return Change(before.with_hint(ResetHint.UNKNOWN))
    if before.is_custom != histograms[at].is_custom:
        return Change(None, frozenset({Remark.MIXED_BUCKETS}))
    remarks: set[Remark] = set()
    is_counter = {before.hint, histograms[at].hint} != {ResetHint.GAUGE}
    return Change(_interpolated(window, at - 1, time_ms, is_counter, remarks), frozenset(remarks))


def _interpolated(window: Window, at: int, time_ms: int, is_counter: bool, remarks: set[Remark]) -> NativeHistogram:
    """The histogram at a time between sample `at` and the next; a counter that starts over in between starts from 0."""
    before, following = window.histograms[at], window.histograms[at + 1]
    before_ms, following_ms = window.times_ms[at], window.times_ms[at + 1]
    share = (time_ms - before_ms) / (following_ms - before_ms)
    if is_counter and is_reset_after(following, before):
        return following.times(share)
    return _sum(_difference(following, before, remarks).times(share), before, remarks)


def _reached_before_resets(
    window: Window,
    first: int,
    last: int,
    left: NativeHistogram,
    right: NativeHistogram,
    crosses_left: bool,
    remarks: set[Remark],
) -> NativeHistogram | None:
    """What a counter had reached each time before it started over, added; None if it never did."""
    histograms = window.histograms
    first, previous = first + 1, left
    if crosses_left and is_reset_after(histograms[first], histograms[first - 1]):
        # The left edge knows of this reset.
        first, previous = first + 1, histograms[first]
    if first > last:
        return None
    reached: NativeHistogram | None = None
    # The last sample is not compared: the right edge has its hint, and would look like another reset after it.
    for current in (*histograms[first:last], right):
        if is_reset_after(current, previous):
            reached = previous if reached is None else _sum(reached, previous, remarks)
        previous = current
    return reached


def _difference(one: NativeHistogram, other: NativeHistogram, remarks: set[Remark]) -> NativeHistogram:
    outcome = subtract_histograms(one, other)
    if outcome.reconciled:
        remarks.add(Remark.SUBTRACTION_RECONCILED)
    return outcome.histogram


def _sum(one: NativeHistogram, other: NativeHistogram, remarks: set[Remark]) -> NativeHistogram:
    outcome = add_histograms(one, other)
    if outcome.reconciled:
        remarks.add(Remark.ADDITION_RECONCILED)
    return outcome.histogram

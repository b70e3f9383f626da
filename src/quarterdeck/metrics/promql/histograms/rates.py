"""How a series of histograms moved within a window: rate, increase and delta; irate and idelta."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from quarterdeck.metrics.promql.histograms.arithmetic import Outcome, add_histograms, subtract_histograms
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.layout import MixedBuckets, reduce_schema
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.resets import is_reset_after


class Remark(StrEnum):
    """What a reader should know about a result."""

    NOT_A_COUNTER = "not a counter"
    NOT_A_GAUGE = "not a gauge"
    STARTS_OVERLAP = "a start timestamp before the sample before"
    MIXED_BUCKETS = "exponential and custom buckets"
    ADDITION_RECONCILED = "different custom bounds added"
    SUBTRACTION_RECONCILED = "different custom bounds subtracted"


@dataclass(frozen=True, slots=True)
class Change:
    """What came of a window, if anything, and what is to be said about it."""

    histogram: NativeHistogram | None
    remarks: frozenset[Remark] = frozenset()


@dataclass(frozen=True, slots=True)
class Window:
    """The samples of a window, and where it begins and ends."""

    times_ms: Sequence[int]
    histograms: Sequence[NativeHistogram]
    start_ms: int
    end_ms: int
    known_resets: Sequence[bool] | None = None
    """For each sample whether the counter started over since the one before; None: that has to be found."""
    starts_ms: Sequence[int] | None = None
    """For each sample its start timestamp, 0 where it has none; None: nobody has one, or it does not matter. What they
    say about resets is part of `known_resets`."""

    @property
    def first_start_ms(self) -> int | None:
        """When the counter of the first sample started, if that was within the window."""
        if self.starts_ms is None or self.starts_ms[0] == 0:
            return None
        return self.starts_ms[0] if self.start_ms < self.starts_ms[0] < self.times_ms[0] else None

    @property
    def starts_overlap(self) -> bool:
        """Whether a sample counts from before the one before it on, and not as that one does."""
        return self.starts_ms is not None and any(
            start not in (0, before) and start < time
            for before, time, start in zip(self.starts_ms, self.times_ms, self.starts_ms[1:], strict=False)
        )

    def is_reset(self, place: int) -> bool:
        """Whether the counter started over before a sample, which is not the first."""
        if self.known_resets is not None:
            return self.known_resets[place]
        return is_reset_after(self.histograms[place], self.histograms[place - 1])


def change_within(window: Window, is_counter: bool, per_second: bool) -> Change:
    """The change from the first to the last sample, stretched to the window's edges. Needs two samples, or a counter
    that started within the window: it has grown from zero since then."""
    start_ms = window.first_start_ms if is_counter else None
    if start_ms is None and len(window.histograms) < 2:
        return Change(None)
    change = _counter_change(window) if is_counter else _gauge_change(window.histograms)
    if change.histogram is None:
        return change
    factor = _stretch(window, change.histogram, is_counter) if start_ms is None else _stretch_from(start_ms, window)
    if per_second:
        factor /= (window.end_ms - window.start_ms) / 1000
    return replace(change, histogram=change.histogram.times(factor))


def last_change(window: Window, is_counter: bool) -> Change:
    """The change between the last two samples; of a counter, per second."""
    before, after = window.histograms[-2:]
    remarks: set[Remark] = set()
    hints = {before.hint, after.hint}
    if is_counter and ResetHint.GAUGE in hints:
        remarks.add(Remark.NOT_A_COUNTER)
    if not is_counter and hints != {ResetHint.GAUGE}:
        remarks.add(Remark.NOT_A_GAUGE)
    result = after
    if not (is_counter and window.is_reset(len(window.histograms) - 1)):
        try:
            result = _noted(subtract_histograms(after, before), Remark.SUBTRACTION_RECONCILED, remarks)
        except MixedBuckets:
            return Change(None, frozenset({*remarks, Remark.MIXED_BUCKETS}))
    result = result.compact().with_hint(ResetHint.GAUGE)
    if is_counter:
        result = result.divided_by((window.times_ms[-1] - window.times_ms[-2]) / 1000)
    return Change(result, frozenset(remarks))


def _gauge_change(histograms: Sequence[NativeHistogram]) -> Change:
    first, last = histograms[0], histograms[-1]
    remarks: set[Remark] = set()
    if {first.hint, last.hint} != {ResetHint.GAUGE}:
        remarks.add(Remark.NOT_A_GAUGE)
    try:
        result = _noted(subtract_histograms(last, first), Remark.SUBTRACTION_RECONCILED, remarks)
    except MixedBuckets:
        return Change(None, frozenset({Remark.MIXED_BUCKETS}))
    return Change(result.compact().with_hint(ResetHint.GAUGE), frozenset(remarks))


def _counter_change(window: Window) -> Change:
    """The change of a counter, since its start if that was within the window; what it had reached before it started
    over is added."""
    histograms = window.histograms
    if len(histograms) == 1:
        return Change(histograms[0])
    remarks: set[Remark] = set()
    if any(histogram.hint is ResetHint.GAUGE for histogram in histograms):
        remarks.add(Remark.NOT_A_COUNTER)
    first, second = histograms[:2]
    begins_anew = window.is_reset(1)
    if begins_anew:
        # Nothing of the first sample matters then, not even what kind of buckets it has.
        first = NativeHistogram(schema=second.schema, custom_bounds=second.custom_bounds)
    if histograms[-1].is_custom != first.is_custom:
        ends_are_counters = ResetHint.GAUGE not in (histograms[0].hint, histograms[-1].hint)
        return Change(None, frozenset({Remark.MIXED_BUCKETS, *(() if ends_are_counters else (Remark.NOT_A_COUNTER,))}))
    if any(histogram.is_custom != first.is_custom for histogram in histograms[1:]):
        return Change(None, frozenset({Remark.MIXED_BUCKETS}))
    # The result is as coarse as the coarsest sample, also where that one has no part in it.
    last = reduce_schema(histograms[-1], min(histogram.schema for histogram in (first, *histograms[1:])))
    result = _noted(subtract_histograms(last, first), Remark.SUBTRACTION_RECONCILED, remarks)
    if begins_anew and is_reset_after(second, first):
        # Nothing is added; it is told of all the same where its bounds are not the result's.
        result = _noted(add_histograms(result, first), Remark.ADDITION_RECONCILED, remarks)
    for place in range(2, len(histograms)):
        if window.is_reset(place):
            result = _noted(add_histograms(result, histograms[place - 1]), Remark.ADDITION_RECONCILED, remarks)
    result = result.compact().with_hint(ResetHint.GAUGE)
    if window.starts_overlap:
        remarks.add(Remark.STARTS_OVERLAP)
    if window.first_start_ms is not None:
        try:
            result = _noted(add_histograms(result, histograms[0]), Remark.ADDITION_RECONCILED, remarks)
        except MixedBuckets:
            return Change(None, frozenset({*remarks, Remark.MIXED_BUCKETS}))
    return Change(result, frozenset(remarks))


def _noted(outcome: Outcome, remark: Remark, remarks: set[Remark]) -> NativeHistogram:
    if outcome.reconciled:
        remarks.add(remark)
    return outcome.histogram


def _stretch(window: Window, change: NativeHistogram, is_counter: bool) -> float:
    """By which factor the change is stretched: the same rules as for floats, over the count.

    Up to the edge of the window if the edge is no farther than 1.1 of the mean gap between samples, else by half a
    gap. A counter is not stretched to before it was zero.
    """
    times = window.times_ms
    sampled_s = (times[-1] - times[0]) / 1000
    mean_gap_s = sampled_s / (len(times) - 1)
    to_start_s = (times[0] - window.start_ms) / 1000
    to_end_s = (window.end_ms - times[-1]) / 1000
    if to_start_s >= mean_gap_s * 1.1:
        to_start_s = mean_gap_s / 2
    first = window.histograms[0].count
    if is_counter and change.count > 0 and first >= 0:
        to_start_s = min(to_start_s, sampled_s * (first / change.count))
    if to_end_s >= mean_gap_s * 1.1:
        to_end_s = mean_gap_s / 2
    return (sampled_s + to_start_s + to_end_s) / sampled_s


def _stretch_from(start_ms: int, window: Window) -> float:
    """The same when the counter started within the window: towards the window's end alone, and a single sample not even
    there, because it has no gap to go by."""
    times = window.times_ms
    sampled_s = (times[-1] - start_ms) / 1000
    to_end_s = (window.end_ms - times[-1]) / 1000
    gaps = len(times) - 1
    mean_gap_s = (times[-1] - times[0]) / 1000 / gaps if gaps else 0.0
    if to_end_s >= mean_gap_s * 1.1:
        to_end_s = mean_gap_s / 2
    return (sampled_s + to_end_s) / sampled_s

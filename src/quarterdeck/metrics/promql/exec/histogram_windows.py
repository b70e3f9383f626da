"""Functions over windows of native histograms.

A Python call for each histogram of each window; windows of floats never come here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Final

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import I64, Bool, Grid, Objects, SeriesBlock, are_histograms
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.histograms.extended import extended_change
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.rates import Change, Remark, Window, change_within, last_change
from quarterdeck.metrics.promql.histograms.resets import is_reset_after
from quarterdeck.metrics.promql.histograms.totals import HistogramTotal
from quarterdeck.metrics.promql.kernels.windows_starts import restarts
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import Extension

_RECONCILED: Final[Mapping[Remark, str]] = MappingProxyType(
    {Remark.ADDITION_RECONCILED: "addition", Remark.SUBTRACTION_RECONCILED: "subtraction"}
)

_OF_COUNTERS: Final = frozenset({"rate", "increase", "irate"})
_OF_LAST_TWO: Final = frozenset({"irate", "idelta"})


@dataclass(frozen=True, slots=True)
class HistogramWindows:
    """The windows of some series: from sample `low` to before sample `high`, for each series and step."""

    function: str
    block: SeriesBlock
    histograms: Objects
    low: I64
    high: I64
    looked_at: Grid
    range_ms: int
    context: Context
    span: Span
    extension: Extension | None = None
    """If there is one, the windows reach from the first to the last sample around them that counts."""

    def results(self, where: Bool) -> Objects:
        """What the function makes of the windows that are meant; all samples that it looks at are histograms."""
        found: Objects = np.full(where.shape, None, object)
        ends_ms = self.looked_at.times().tolist()
        lows = self.high - 2 if self.function in _OF_LAST_TWO else self.low
        resets: list[bool] = self._resets(where, lows).tolist() if self.function in _OF_COUNTERS else []
        starts = None if self.extension is not None else self.block.starts
        for row, step in self.context.watched(np.argwhere(where).tolist()):
            name = lb.get(self.block.axis.labels[row], METRIC_NAME)
            low, high = int(lows[row, step]), int(self.high[row, step])
            samples: list[NativeHistogram] = self.histograms[low:high].tolist()
            if self.function in {"sum_over_time", "avg_over_time"}:
                found[row, step] = self._total(samples, name)
                continue
            times_ms = self.block.timestamps[low:high].tolist()
            known = resets[low:high] if resets else None
            starts_ms = None if starts is None else starts[low:high].tolist()
            window = Window(times_ms, samples, ends_ms[step] - self.range_ms, ends_ms[step], known, starts_ms)
            change = self._change(window)
            note_change(change, name, self.context, self.span)
            found[row, step] = change.histogram
        return found

    def _resets(self, where: Bool, lows: I64) -> Bool:
        """Which samples follow a counter reset, among those of the windows that are meant, which begin at `lows`:
        windows overlap, and this is most of the work."""
        found = np.zeros(len(self.histograms), np.bool_)
        needed = np.zeros(len(self.histograms) + 1, np.int64)
        np.add.at(needed, lows[where] + 1, 1)
        np.add.at(needed, self.high[where], -1)
        started: Bool = np.zeros(len(found), np.bool_)
        if self.block.starts is not None and self.extension is None:
            started = restarts(self.block.timestamps, self.block.starts)
        for index in self.context.watched(np.flatnonzero(np.cumsum(needed[:-1]) > 0).tolist()):
            found[index] = started[index] or is_reset_after(self.histograms[index], self.histograms[index - 1])
        return found

    def _change(self, window: Window) -> Change:
        match self.function:
            case "irate" | "idelta":
                return last_change(window, is_counter=self.function == "irate")
            case "rate" | "increase" | "delta":
                is_counter, per_second = self.function != "delta", self.function == "rate"
                if self.extension is None:
                    return change_within(window, is_counter, per_second)
                return extended_change(window, self.extension is Extension.SMOOTHED, is_counter, per_second)
            case name:
                raise TypeError(f"{name} of histograms is no change")

    def _total(self, samples: Sequence[NativeHistogram], name: str) -> NativeHistogram | None:
        total = reduce(HistogramTotal.plus, map(HistogramTotal.of, samples))
        if total.is_mixed:
            self.context.notes.warn(notes.mixed_buckets(name), self.span)
            return None
        if total.collided:
            self.context.notes.warn(notes.conflicting_resets("aggregation"), self.span)
        if total.reconciled:
            self.context.notes.inform(notes.reconciled_bounds("aggregation"), self.span)
        return total.sum() if self.function == "sum_over_time" else total.mean()


def note_change(change: Change, name: str, context: Context, span: Span) -> None:
    """Tell what is to be said about a change; `name` is the metric's."""
    for remark in change.remarks:
        match remark:
            case Remark.NOT_A_COUNTER:
                context.notes.warn(notes.not_a_counter(name), span)
            case Remark.NOT_A_GAUGE:
                context.notes.warn(notes.not_a_gauge(name), span)
            case Remark.STARTS_OVERLAP:
                context.notes.warn(notes.overlapping_start(name), span)
            case Remark.MIXED_BUCKETS:
                context.notes.warn(notes.mixed_buckets(name), span)
            case Remark.ADDITION_RECONCILED | Remark.SUBTRACTION_RECONCILED:
                context.notes.inform(notes.reconciled_bounds(_RECONCILED[remark]), span)


def differing_samples(block: SeriesBlock, resets: bool) -> Bool:
    """Which samples are a change, or a reset, after the sample before them; a change of kind is both. A start timestamp
    may tell of a reset that the values do not show."""
    values, histograms = block.values, block.histograms
    differs = np.zeros(len(values), np.bool_)
    if resets:
        differs[1:] = values[1:] < values[:-1]
    else:
        differs[1:] = (values[1:] != values[:-1]) & ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    if histograms is not None:
        is_histogram = are_histograms(histograms)
        before = is_histogram[:-1]
        differs[1:] = np.where(before == is_histogram[1:], differs[1:], True)
        for index in (np.flatnonzero(before & is_histogram[1:]) + 1).tolist():
            previous, current = histograms[index - 1], histograms[index]
            differs[index] = is_reset_after(current, previous) if resets else current != previous
    return differs | restarts(block.timestamps, block.starts) if resets and block.starts is not None else differs

"""Histograms of which only counts and sums are asked: without buckets, and with what can be told of counter resets.

Prometheus reads them so, and there is nothing to say of bounds that do not fit. Whether a counter started over is told
by the histogram before, whole, even if floats or the end of the series lie between.

A Python call for each histogram; a block of floats never comes here.
"""

from dataclasses import replace

import numpy as np

from quarterdeck.metrics.promql.blocks import Objects, SeriesBlock, are_histograms
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.resets import is_reset_after


def with_known_resets(block: SeriesBlock, histograms: Objects) -> SeriesBlock:
    """The samples with the hints that can be found; the first histogram of a series keeps its own."""
    found = histograms.copy()
    places = np.flatnonzero(are_histograms(histograms))
    rows = np.searchsorted(block.offsets, places, "right")
    before: NativeHistogram | None = None
    row_before = -1
    for place, row in zip(places.tolist(), rows.tolist(), strict=True):
        histogram: NativeHistogram = histograms[place]
        hint = histogram.hint
        if hint is ResetHint.UNKNOWN and before is not None and row == row_before:
            hint = ResetHint.RESET if is_reset_after(histogram, before) else ResetHint.NOT_RESET
        found[place] = _bare(histogram, hint)
        before, row_before = histogram, row
    return replace(block, histograms=found)


def _bare(histogram: NativeHistogram, hint: ResetHint) -> NativeHistogram:
    """How many observations there were and what they add up to."""
    return NativeHistogram(histogram.schema, count=histogram.count, total=histogram.total, hint=hint)

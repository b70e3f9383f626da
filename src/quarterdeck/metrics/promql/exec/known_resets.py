"""Histograms that do not say whether their counter started over, told by the sample before them.

A Python call for each histogram; a block of floats never comes here.
"""

from dataclasses import replace

import numpy as np

from quarterdeck.metrics.promql.blocks import Objects, SeriesBlock, are_histograms
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.resets import is_reset_after


def with_known_resets(block: SeriesBlock, histograms: Objects) -> SeriesBlock:
    """The samples with the hints that can be found; the first one of a series stays as it is."""
    follows = np.zeros(len(histograms), np.bool_)
    is_histogram = are_histograms(histograms)
    follows[1:] = is_histogram[1:] & is_histogram[:-1]
    starts = block.offsets[:-1]
    follows[starts[starts < len(follows)]] = False
    found = histograms.copy()
    for index in np.flatnonzero(follows).tolist():
        histogram: NativeHistogram = histograms[index]
        if histogram.hint is ResetHint.UNKNOWN:
            is_reset = is_reset_after(histogram, histograms[index - 1])
            found[index] = histogram.with_hint(ResetHint.RESET if is_reset else ResetHint.NOT_RESET)
    return replace(block, histograms=found)

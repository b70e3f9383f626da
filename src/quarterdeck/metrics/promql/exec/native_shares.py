"""`histogram_quantile` and `histogram_fraction` over native histograms.

A Python call for each histogram; classic ones go through the kernels and never come here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import F64, Axis, Bool, VectorBlock
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.histograms.quantiles import NotNumbers, fraction, has_uncounted, quantile
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.spans import Span

_TEXTS: Final[Mapping[NotNumbers, Callable[[str], str]]] = MappingProxyType(
    {NotNumbers.ASKED_FOR: notes.quantile_is_nan, NotNumbers.SKEW: notes.quantile_is_skewed}
)


def native_quantiles(block: VectorBlock, where: Bool, phi: F64, context: Context, span: Span) -> VectorBlock:
    """The quantile of each native histogram, among the cells that are meant."""
    values = np.zeros(where.shape)
    if block.histograms is not None:
        for row, step in context.watched(np.argwhere(where).tolist()):
            found = quantile(block.histograms[row, step], float(phi[step]))
            values[row, step] = found.value
            if found.not_numbers is not None:
                name = lb.get(block.axis.labels[row], METRIC_NAME)
                context.notes.inform(_TEXTS[found.not_numbers](name), span)
    return VectorBlock(block.axis.without_names, values, where)


def native_fractions(
    block: VectorBlock, where: Bool, lower: F64, upper: F64, context: Context, span: Span
) -> VectorBlock:
    """The share of observations between two values in each native histogram, among the cells that are meant."""
    values = np.zeros(where.shape)
    if block.histograms is not None:
        for row, step in context.watched(np.argwhere(where).tolist()):
            histogram = block.histograms[row, step]
            values[row, step] = fraction(histogram, float(lower[step]), float(upper[step]))
            if lower[step] < upper[step] and has_uncounted(histogram):
                name = lb.get(block.axis.labels[row], METRIC_NAME)
                context.notes.inform(notes.fraction_without_nan(name), span)
    return VectorBlock(block.axis.without_names, values, where)


def beside(classic: VectorBlock, native: VectorBlock, context: Context) -> VectorBlock:
    """What was found for classic and for native histograms, as one block."""
    there = np.flatnonzero(native.present.any(axis=1))
    if not there.size:
        return classic
    native = native.take(there)
    axis = Axis(classic.axis.labels + native.axis.labels, np.concatenate((classic.axis.nameless, native.axis.nameless)))
    return unite(
        VectorBlock(
            axis,
            np.concatenate((classic.values, native.values)),
            np.concatenate((classic.present, native.present)),
        ),
        context,
    )

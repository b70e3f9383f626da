"""Sums and averages of native histograms over groups of series.

The partial of a group is a `HistogramTotal` for each step, in an array of objects beside the floats. A Python call for
each histogram; groups of floats never come here.
"""

from collections.abc import Sequence

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import I64, Bool, Objects, VectorBlock, are_histograms
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.histograms.totals import HistogramTotal
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import AggregateOp


def total_groups(block: VectorBlock, histograms: Objects, place: I64, count: int) -> Objects:
    """For each group and step the total of its histograms, or None."""
    totals: Objects = np.full((count, block.values.shape[1]), None, object)
    for row, step in np.argwhere(block.is_histogram).tolist():
        _add(totals, int(place[row]), step, HistogramTotal.of(histograms[row, step]))
    return totals


def combine_totals(parts: Sequence[Objects | None], maps: Sequence[I64], count: int) -> Objects | None:
    """The totals of several shards; each says where its groups are."""
    known = [(part, place) for part, place in zip(parts, maps, strict=True) if part is not None]
    if not known:
        return None
    totals: Objects = np.full((count, known[0][0].shape[1]), None, object)
    for part, place in known:
        for row, step in np.argwhere(are_histograms(part)).tolist():
            _add(totals, int(place[row]), step, part[row, step])
    return totals


def _add(totals: Objects, row: int, step: int, more: HistogramTotal) -> None:
    before: HistogramTotal | None = totals[row, step]
    totals[row, step] = more if before is None else before.plus(more)


def first_names(block: VectorBlock, place: I64, count: int) -> tuple[str, ...]:
    """For each group the name of a metric in it: the first in the order of names."""
    names = [""] * count
    for row in np.flatnonzero(block.is_histogram.any(axis=1)).tolist():
        name, group = lb.get(block.axis.labels[row], METRIC_NAME), int(place[row])
        names[group] = min(names[group] or name, name)
    return tuple(names)


def finish_totals(plan: pn.Aggregate, totals: Objects, where: Bool, names: Sequence[str], context: Context) -> Objects:
    """The histograms of some cells, whose totals have all come together; None where there is no sum."""
    histograms: Objects = np.full(totals.shape, None, object)
    for row, step in np.argwhere(where).tolist():
        total: HistogramTotal = totals[row, step]
        if total.is_mixed:
            context.notes.warn(notes.mixed_buckets(names[row]), plan.vector_span)
            continue
        if total.collided:
            context.notes.warn(notes.conflicting_resets("aggregation"), plan.vector_span)
        if total.reconciled:
            context.notes.inform(notes.reconciled_bounds("aggregation"), plan.vector_span)
        found = total.sum() if plan.op is AggregateOp.SUM else total.mean()
        histograms[row, step] = found.compact()
    return histograms

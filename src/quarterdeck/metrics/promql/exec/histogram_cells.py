"""Operators whose answer is a native histogram.

A Python call for each histogram; cells of floats never come here.
"""

import numpy as np

from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import F64, Bool, Objects
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.histograms.arithmetic import add_histograms, subtract_histograms
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.layout import MixedBuckets
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.trim import trim_above, trim_below
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import BinaryOp


def scale_cells(op: BinaryOp, histograms: Objects, numbers: F64, where: Bool) -> Objects:
    """An operator between histograms and numbers."""
    found: Objects = np.full(where.shape, None, object)
    pairs = zip(histograms[where], numbers[where].tolist(), strict=True)
    found[where] = [_scaled(op, histogram, number) for histogram, number in pairs]
    return found


def _scaled(op: BinaryOp, histogram: NativeHistogram, number: float) -> NativeHistogram:
    match op:
        case BinaryOp.MUL:
            return histogram.times(number).compact()
        case BinaryOp.DIV:
            return histogram.divided_by(number).compact()
        case BinaryOp.TRIM_UPPER:
            return trim_above(histogram, number)
        case BinaryOp.TRIM_LOWER:
            return trim_below(histogram, number)
        case _:
            raise TypeError(f"{op} is not defined between a histogram and a number")


def combine_cells(op: BinaryOp, lhs: Objects, rhs: Objects, where: Bool, context: Context, span: Span) -> Objects:
    """The sum or difference of histograms; None where their buckets have nothing in common, or one had a counter reset
    and the other had none."""
    found: Objects = np.full(where.shape, None, object)
    found[where] = [_combined(op, one, other, context, span) for one, other in zip(lhs[where], rhs[where], strict=True)]
    return found


def _combined(
    op: BinaryOp, one: NativeHistogram, other: NativeHistogram, context: Context, span: Span
) -> NativeHistogram | None:
    adding = op is BinaryOp.ADD
    operation = "addition" if adding else "subtraction"
    try:
        outcome = add_histograms(one, other) if adding else subtract_histograms(one, other)
    except MixedBuckets:
        context.notes.warn(notes.incompatible_buckets(op), span)
        return None
    if outcome.collided:
        # To Prometheus this pair is an error, as buckets are that have nothing in common.
        context.notes.warn(notes.conflicting_resets(operation), span)
        return None
    if outcome.reconciled:
        context.notes.inform(notes.reconciled_bounds(operation), span)
    histogram = outcome.histogram.compact()
    return histogram if adding else histogram.with_hint(ResetHint.GAUGE)

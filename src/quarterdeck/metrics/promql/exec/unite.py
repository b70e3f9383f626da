"""Series that have come to have the same labels are one series, unless they have values at the same time."""

import numpy as np

from quarterdeck.metrics.promql.blocks import Axis, Objects, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.node import SAME_LABELSET, Context
from quarterdeck.metrics.promql.labels import Labels


def unite(block: VectorBlock, context: Context) -> VectorBlock:
    """The block with each set of labels once."""
    context.check_stop()
    if not block.axis.has_twins:
        return block
    rows: dict[tuple[Labels, bool], int] = {}
    flags: list[bool] = block.axis.nameless.tolist()
    keys = context.watched(zip(block.axis.labels, flags, strict=True))
    targets = [rows.setdefault(key, len(rows)) for key in keys]
    place = np.array(targets, np.int64)
    steps = block.values.shape[1]
    context.memory.need(len(rows) * (block.axis.row_bytes + steps * 18))
    count = np.zeros((len(rows), steps), np.int64)
    np.add.at(count, place, block.present)
    if (count > 1).any():
        raise ExecutionError(SAME_LABELSET)
    values = np.zeros((len(rows), steps))
    histograms: Objects | None = None if block.histograms is None else np.full((len(rows), steps), None, object)
    for row, target in context.watched(enumerate(targets)):
        there = block.present[row]
        values[target, there] = block.values[row, there]
        if histograms is not None and block.histograms is not None:
            histograms[target, there] = block.histograms[row, there]
    axis = Axis(tuple(labels for labels, _ in rows), np.array([gone for _, gone in rows], np.bool_))
    return VectorBlock(axis, values, count > 0, histograms)

"""Blocks that are told apart by every bit that means something."""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.promql.blocks import SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.exec.aggregates import PartialBlock
from quarterdeck.metrics.promql.flow.leaf import LeafBlock
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.totals import HistogramTotal


def told(block: LeafBlock) -> dict[str, Any]:
    """All that a block says: equal for blocks that nobody could tell apart."""
    values = block.values
    axis = {"grid": block.grid, "labels": values.axis.labels, "nameless": values.axis.nameless.tolist()}
    match values:
        case VectorBlock():
            return axis | {
                "shape": values.values.shape,
                "present": bits(values.present),
                "floats": bits(values.values[values.is_float]),
                "histograms": objects(values.histograms, values.axis.labels),
            }
        case PartialBlock():
            return axis | {
                "kind": type(values.fields),
                "fields": {name: (array.shape, bits(array)) for name, array in vars(values.fields).items()},
                "histograms": objects(values.histograms, values.axis.labels),
                "names": values.names,
            }
        case SeriesBlock():
            is_float = [one is None for one in values.histograms] if values.histograms is not None else slice(None)
            return axis | {
                "offsets": bits(values.offsets - values.offsets[0]),
                "timestamps": bits(values.timestamps),
                "floats": bits(values.values[is_float]),
                "histograms": objects(values.histograms, values.axis.labels),
            }


def bits(array: NDArray[Any]) -> bytes:
    """The bytes of an array."""
    return np.ascontiguousarray(array).tobytes()


def objects(found: NDArray[Any] | None, series: object) -> object:
    """Histograms by all that is in them. Without series there are none, whatever is said."""
    if found is None or not series:
        return None
    return found.shape, [exact(one) for one in found.reshape(-1)]


def exact(one: NativeHistogram | HistogramTotal | None) -> object:
    """All that is in a histogram or in a total."""
    if one is None:
        return None
    if isinstance(one, HistogramTotal):
        flags = (one.had_reset, one.had_no_reset, one.reconciled, one.is_mixed)
        return one.members, exact(one.rounded), exact(one.lost), one.exponent, flags
    sides = (one.positive, one.negative)
    numbers = [one.zero_threshold, one.zero_count, one.count, one.total, *one.custom_bounds]
    numbers += [count for side in sides for _, count in side]
    places = [[index for index, _ in side] for side in sides]
    return one.schema, places, len(one.custom_bounds), struct.pack(f"{len(numbers)}d", *numbers), one.hint

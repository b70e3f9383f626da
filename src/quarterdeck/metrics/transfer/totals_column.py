"""Totals of native histograms as a column: an Arrow struct for each `HistogramTotal`, null where there is none.

The fields are those of `HistogramTotal`; the histograms in it are as in `histogram_column`, `lost` may be null.
"""

from typing import Any, Final

import numpy as np

from quarterdeck.metrics.arrow_arrays import Array, DataType, flags, numbers, pa, validity
from quarterdeck.metrics.histogram_column import from_arrow, histogram_type, to_arrow
from quarterdeck.metrics.promql.blocks import Bool, Objects, are_histograms
from quarterdeck.metrics.promql.histograms.totals import HistogramTotal

_NUMBERS: Final = ("members", "exponent")
_FLAGS: Final = ("had_reset", "had_no_reset", "reconciled", "is_mixed")
_TYPE: Final = pa.struct(
    [
        ("rounded", histogram_type()),
        ("lost", histogram_type()),
        *((name, pa.int64()) for name in _NUMBERS),
        *((name, pa.bool_()) for name in _FLAGS),
    ]
)


def totals_type() -> DataType:
    """The type of the column."""
    return _TYPE


def totals_to_arrow(totals: Objects) -> Array:
    """A column of some totals; None becomes null."""
    there = are_histograms(totals)
    found: list[HistogramTotal] = totals[there].tolist()
    children = [
        *(to_arrow(_spread([getattr(one, name) for one in found], there)) for name in ("rounded", "lost")),
        *(numbers(_spread([getattr(one, name) for one in found], there, np.int64)) for name in _NUMBERS),
        *(numbers(_spread([getattr(one, name) for one in found], there, np.bool_)) for name in _FLAGS),
    ]
    return pa.StructArray.from_arrays(children, type=_TYPE, mask=None if there.all() else numbers(~there))


def totals_from_arrow(column: Array) -> Objects:
    """The totals of a column; null becomes None."""
    valid = validity(column)
    dense = column if valid is None else column.drop_null()
    fields = zip(
        dense.field("members").to_pylist(),
        from_arrow(dense.field("rounded")),
        from_arrow(dense.field("lost")),
        dense.field("exponent").to_pylist(),
        *(flags(dense.field(name)).tolist() for name in _FLAGS),
        strict=True,
    )
    found = [HistogramTotal(*one) for one in fields]
    return _spread(found, np.ones(len(found), np.bool_) if valid is None else valid)


def _spread(items: list[Any], there: Bool, dtype: type = object) -> Any:
    column: Any = np.full(there.size, None if dtype is object else 0, dtype)
    column[there] = items
    return column

"""Native histograms as a column: an Arrow struct for each of them, null where there is none.

The layout, in Parquet's own types, so that any reader can show it:

| field | type | meaning |
|---|---|---|
| `count`, `sum` | double | of all observations |
| `schema` | int32 | the resolution of exponential buckets, from -4 to 8; -53: custom bounds |
| `zero_threshold`, `zero_count` | double | the bucket around zero |
| `positive`, `negative` | list of `index` int32, `count` double | by rising index; a count may be 0 |
| `custom_bounds` | list of double | where custom buckets end |
| `reset_hint` | int32 | 0: unknown, 1: reset, 2: not reset, 3: gauge; Prometheus sends the same numbers |

Numbers come back bit by bit, whichever not-a-number they are.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np

from quarterdeck.metrics.arrow_arrays import (
    Array,
    DataType,
    elements_of,
    floats,
    list_type,
    lists,
    numbers,
    pa,
    validity,
)
from quarterdeck.metrics.promql.blocks import I64, Objects, are_histograms, totals_before
from quarterdeck.metrics.promql.histograms.buckets import Buckets
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram

_BUCKET: Final = pa.struct([("index", pa.int32()), ("count", pa.float64())])
_BUCKETS: Final = list_type(_BUCKET)
_TYPE: Final = pa.struct(
    [
        ("count", pa.float64()),
        ("sum", pa.float64()),
        ("schema", pa.int32()),
        ("zero_threshold", pa.float64()),
        ("zero_count", pa.float64()),
        ("positive", _BUCKETS),
        ("negative", _BUCKETS),
        ("custom_bounds", list_type(pa.float64())),
        ("reset_hint", pa.int32()),
    ]
)
_HINTS: Final = (ResetHint.UNKNOWN, ResetHint.RESET, ResetHint.NOT_RESET, ResetHint.GAUGE)
_NUMBER_OF: Final = {hint: number for number, hint in enumerate(_HINTS)}


def histogram_type() -> DataType:
    """The type of the column."""
    return _TYPE


def to_arrow(histograms: Objects) -> Array:
    """A column of some histograms; None becomes null."""
    there = are_histograms(histograms)
    found: list[NativeHistogram] = histograms[there].tolist()
    if not found:
        return pa.nulls(len(histograms), _TYPE)
    rows = np.flatnonzero(there)
    size = len(histograms)

    def spread(values: Sequence[float], dtype: type[np.float64 | np.int32] = np.float64) -> Array:
        column = np.zeros(size, dtype)
        column[rows] = values
        return numbers(column)

    def lengths(sides: Sequence[Sequence[object]]) -> I64:
        column = np.zeros(size, np.int64)
        column[rows] = [len(side) for side in sides]
        return column

    positive, negative = [one.positive for one in found], [one.negative for one in found]
    bounds = [one.custom_bounds for one in found]
    children = [
        spread([one.count for one in found]),
        spread([one.total for one in found]),
        spread([one.schema for one in found], np.int32),
        spread([one.zero_threshold for one in found]),
        spread([one.zero_count for one in found]),
        _buckets_column(positive, lengths(positive)),
        _buckets_column(negative, lengths(negative)),
        lists(totals_before(lengths(bounds)), numbers(np.array(list(chain.from_iterable(bounds)), np.float64))),
        spread([_NUMBER_OF[one.hint] for one in found], np.int32),
    ]
    mask = None if len(found) == size else numbers(~there)
    return pa.StructArray.from_arrays(children, type=_TYPE, mask=mask)


def from_arrow(column: Array) -> Objects:
    """The histograms of a column; null becomes None."""
    nothing: Any = None
    histograms: Objects = np.full(len(column), nothing, object)
    valid = validity(column)
    if valid is not None:
        column = column.drop_null()
    fields = zip(
        column.field("schema").to_pylist(),
        *(floats(column.field(name))[0].tolist() for name in ("zero_threshold", "zero_count", "count", "sum")),
        _buckets_of(column.field("positive")),
        _buckets_of(column.field("negative")),
        _bounds_of(column.field("custom_bounds")),
        map(_HINTS.__getitem__, column.field("reset_hint").to_pylist()),
        strict=True,
    )
    found = [NativeHistogram(*one) for one in fields]
    histograms[slice(None) if valid is None else valid] = found
    return histograms


def _buckets_column(sides: Sequence[Buckets], lengths: I64) -> Array:
    pairs = np.array(list(chain.from_iterable(sides)), [("index", np.int32), ("count", np.float64)])
    buckets = pa.StructArray.from_arrays([numbers(pairs["index"]), numbers(pairs["count"])], type=_BUCKET)
    return lists(totals_before(lengths), buckets)


def _buckets_of(column: Array) -> list[Buckets]:
    offsets, buckets = elements_of(column)
    pairs = list(zip(buckets.field("index").to_pylist(), floats(buckets.field("count"))[0].tolist(), strict=True))
    return _cut(pairs, offsets)


def _bounds_of(column: Array) -> list[tuple[float, ...]]:
    offsets, bounds = elements_of(column)
    return _cut(floats(bounds)[0].tolist(), offsets)


def _cut(items: list[Any], offsets: I64) -> list[tuple[Any, ...]]:
    places: list[int] = offsets.tolist()
    return [tuple(items[low:high]) for low, high in pairwise(places)]

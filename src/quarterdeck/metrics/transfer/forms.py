"""How the values of a leaf's block lie in rows: one for each series or group, with lists over steps or samples.

There is a form for each kind of values. Columns for histograms are apart: they cost as much as all others together,
and most answers have none.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from quarterdeck.metrics.arrow_arrays import (
    Array,
    DataType,
    RecordBatch,
    elements_of,
    even_offsets,
    flags,
    floats,
    list_type,
    lists,
    numbers,
    pa,
    rows_as_lists,
    whole_numbers,
)
from quarterdeck.metrics.histogram_column import from_arrow, histogram_type, to_arrow
from quarterdeck.metrics.promql.blocks import (
    Axis,
    Bool,
    Objects,
    SeriesBlock,
    VectorBlock,
    are_histograms,
)
from quarterdeck.metrics.promql.exec.aggregates import WITH_HISTOGRAMS, Fields, PartialBlock
from quarterdeck.metrics.promql.flow.leaf import LeafValues, aggregate_of
from quarterdeck.metrics.promql.kernels import groups as kg
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge
from quarterdeck.metrics.promql.syntax.ast import AggregateOp
from quarterdeck.metrics.transfer.json_texts import as_texts, from_texts
from quarterdeck.metrics.transfer.totals_column import totals_from_arrow, totals_to_arrow, totals_type

Columns: TypeAlias = tuple[tuple[str, DataType], ...]
"""Names and types."""

_HISTOGRAMS: Final = "histograms"
_METRIC: Final = "metric"
_FIELDS: Final[dict[AggregateOp, type[Fields]]] = {
    AggregateOp.SUM: kg.SumPartial,
    AggregateOp.AVG: kg.AvgPartial,
    AggregateOp.COUNT: kg.CountPartial,
    AggregateOp.GROUP: kg.GroupPartial,
    AggregateOp.MIN: kg.MinPartial,
    AggregateOp.MAX: kg.MaxPartial,
    AggregateOp.STDDEV: kg.MomentsPartial,
    AggregateOp.STDVAR: kg.MomentsPartial,
}


class Form(Protocol):
    """The columns for one kind of values. Those for histograms are there if some block has histograms."""

    @property
    def kind(self) -> str:
        """What the rows are called."""
        ...

    @property
    def columns(self) -> Columns: ...

    @property
    def histogram_columns(self) -> Columns:
        """None at all: there cannot be histograms."""
        ...

    def write(self, values: LeafValues) -> list[Array]:
        """The columns of a block that has series."""
        ...

    def write_histograms(self, values: LeafValues) -> list[Array] | None:
        """The columns for histograms; None if the block has none."""
        ...

    def read(self, rows: RecordBatch, axis: Axis, steps: int) -> LeafValues:
        """The values of a block; if it has no series, the rows are none."""
        ...


def form_of(leaf: BaseExpr) -> Form:
    """The form of a leaf's blocks."""
    match leaf.merge:
        case Merge.UNION | Merge.ADD:
            return _VECTOR
        case Merge.COMBINE:
            return _PARTIALS[aggregate_of(leaf).op]
        case Merge.SAMPLES:
            return _SAMPLES


@dataclass(frozen=True, slots=True, eq=False)
class VectorForm:
    """Values over steps; null where there is no float."""

    kind: str = "vector"
    columns: Columns = (("values", list_type(pa.float64())),)
    histogram_columns: Columns = ((_HISTOGRAMS, list_type(histogram_type())),)

    def write(self, values: LeafValues) -> list[Array]:
        assert isinstance(values, VectorBlock)
        return [rows_as_lists(values.values, values.is_float)]

    def write_histograms(self, values: LeafValues) -> list[Array] | None:
        assert isinstance(values, VectorBlock)
        if values.histograms is None:
            return None
        nothing: Objects = np.array(None, object)
        shown = np.where(values.present, values.histograms, nothing)
        return [lists(even_offsets(*shown.shape), to_arrow(shown.reshape(-1)))]

    def read(self, rows: RecordBatch, axis: Axis, steps: int) -> VectorBlock:
        shape = (len(axis), steps)
        values, valid = floats(rows.column("values").flatten())
        values = values.reshape(shape)
        present = np.ones(shape, np.bool_) if valid is None else valid.reshape(shape)
        histograms = _objects(rows, from_arrow)
        if histograms is None:
            return VectorBlock(axis, values, present)
        histograms = histograms.reshape(shape)
        return VectorBlock(axis, values, present | are_histograms(histograms), histograms)


@dataclass(frozen=True, slots=True, eq=False)
class PartialForm:
    """Partial aggregates over steps: a column for each field of them. `metric` names one with histograms."""

    fields: type[Fields]
    may_have_histograms: bool

    @property
    def kind(self) -> str:
        return "partial"

    @property
    def columns(self) -> Columns:
        return tuple(
            (field.name, list_type(pa.bool_() if field.type == Bool else pa.float64())) for field in fields(self.fields)
        )

    @property
    def histogram_columns(self) -> Columns:
        if not self.may_have_histograms:
            return ()
        return ((_HISTOGRAMS, list_type(totals_type())), (_METRIC, pa.string()))

    def write(self, values: LeafValues) -> list[Array]:
        assert isinstance(values, PartialBlock)
        return [rows_as_lists(getattr(values.fields, field.name)) for field in fields(self.fields)]

    def write_histograms(self, values: LeafValues) -> list[Array] | None:
        assert isinstance(values, PartialBlock)
        if values.histograms is None:
            return None
        totals = totals_to_arrow(values.histograms.reshape(-1))
        names = as_texts(values.names) if values.names else pa.nulls(len(values.axis), pa.string())
        return [lists(even_offsets(*values.histograms.shape), totals), names]

    def read(self, rows: RecordBatch, axis: Axis, steps: int) -> PartialBlock:
        shape = (len(axis), steps)
        found: dict[str, Any] = {}
        for field in fields(self.fields):
            elements = rows.column(field.name).flatten()
            array = flags(elements) if field.type == Bool else floats(elements)[0]
            found[field.name] = array.reshape(shape)
        totals = _objects(rows, totals_from_arrow)
        if totals is None:
            return PartialBlock(axis, self.fields(**found))
        named = rows.column(_METRIC)
        names = () if named.null_count else tuple(from_texts(named))
        return PartialBlock(axis, self.fields(**found), totals.reshape(shape), names)


@dataclass(frozen=True, slots=True, eq=False)
class SamplesForm:
    """Stored samples, with times of their own; the value of a histogram is null."""

    kind: str = "samples"
    columns: Columns = (("timestamps", list_type(pa.int64())), ("values", list_type(pa.float64())))
    histogram_columns: Columns = ((_HISTOGRAMS, list_type(histogram_type())),)

    def write(self, values: LeafValues) -> list[Array]:
        assert isinstance(values, SeriesBlock)
        place = slice(values.offsets[0], values.offsets[-1])
        offsets = values.offsets - values.offsets[0]
        is_float = None if values.histograms is None else ~are_histograms(values.histograms[place])
        return [
            lists(offsets, numbers(values.timestamps[place])),
            lists(offsets, numbers(values.values[place], is_float)),
        ]

    def write_histograms(self, values: LeafValues) -> list[Array] | None:
        assert isinstance(values, SeriesBlock)
        if values.histograms is None:
            return None
        place = slice(values.offsets[0], values.offsets[-1])
        return [lists(values.offsets - values.offsets[0], to_arrow(values.histograms[place]))]

    def read(self, rows: RecordBatch, axis: Axis, steps: int) -> SeriesBlock:  # noqa: ARG002 - as many samples as there are
        offsets, timestamps = elements_of(rows.column("timestamps"))
        values, _ = floats(rows.column("values").flatten())
        return SeriesBlock(axis, offsets, whole_numbers(timestamps), values, _objects(rows, from_arrow))


_VECTOR: Final = VectorForm()
_SAMPLES: Final = SamplesForm()
_PARTIALS: Final = {op: PartialForm(kind, op in WITH_HISTOGRAMS) for op, kind in _FIELDS.items()}


def _objects(rows: RecordBatch, read: Callable[[Array], Objects]) -> Objects | None:
    """The histograms of all rows, one after the other; None if the block came without."""
    if _HISTOGRAMS not in rows.schema.names:
        return None
    column = rows.column(_HISTOGRAMS)
    if column.null_count:
        return None
    return read(column.flatten())

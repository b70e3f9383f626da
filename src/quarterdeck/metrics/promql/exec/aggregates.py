"""Aggregations over series.

Those that decompose are made in two steps, `partial` and `finish`, with any number of partials combined between: a
leaf's shards make partials, and whoever has them all finishes. The other ones need all series in one place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import (
    I64,
    Axis,
    Grid,
    Objects,
    VectorBlock,
    are_histograms,
    objects_size_bytes,
)
from quarterdeck.metrics.promql.exec.grouping import Grouping
from quarterdeck.metrics.promql.exec.histogram_groups import (
    combine_totals,
    finish_totals,
    first_names,
    total_groups,
)
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.kernels import groups as kg
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import AggregateOp

Fields: TypeAlias = (
    kg.SumPartial
    | kg.AvgPartial
    | kg.CountPartial
    | kg.GroupPartial
    | kg.MinPartial
    | kg.MaxPartial
    | kg.MomentsPartial
)

WITH_HISTOGRAMS: Final = frozenset({AggregateOp.SUM, AggregateOp.AVG})
"""Histograms can be aggregated as well. Of the other aggregations some count them, the rest leaves them out."""


@dataclass(frozen=True, eq=False)
class PartialBlock:
    """The partial aggregates of some series: rows are groups."""

    axis: Axis
    fields: Fields
    histograms: Objects | None = None
    """For each group and step a `HistogramTotal`, or None; None: no histograms at all, or they do not matter."""
    names: tuple[str, ...] = ()
    """For each group the name of a metric with histograms in it."""

    @property
    def size_bytes(self) -> int:
        """What the arrays take."""
        arrays = sum(array.nbytes for array in vars(self.fields).values())
        return arrays if self.histograms is None else arrays + objects_size_bytes(self.histograms)

    def cut(self, low: int, high: int) -> "PartialBlock":
        """Some of the steps."""
        sliced = {name: array[:, low:high] for name, array in vars(self.fields).items()}
        totals = None if self.histograms is None else self.histograms[:, low:high]
        return PartialBlock(self.axis, replace(self.fields, **sliced), totals, self.names)


def make_partial(plan: pn.Aggregate, grouping: Grouping, block: VectorBlock, context: Context) -> PartialBlock:
    """The partial aggregates of a block."""
    place, axis = grouping.of(block.axis)
    count = len(axis)
    floats = block.is_float
    histograms: Objects | None = None
    names: tuple[str, ...] = ()
    if block.histograms is not None:
        if plan.op in WITH_HISTOGRAMS:
            histograms = total_groups(block, block.histograms, place, count)
            names = first_names(block, place, count)
        ignoring = {AggregateOp.MIN, AggregateOp.MAX, AggregateOp.STDDEV, AggregateOp.STDVAR}
        if plan.op in ignoring and block.is_histogram.any():
            context.notes.inform(notes.ignored_in_aggregation(plan.op), plan.vector_span)
    fields: Fields
    match plan.op:
        case AggregateOp.SUM:
            fields = kg.sum_groups(block.values, floats, place, count)
        case AggregateOp.AVG:
            fields = kg.avg_groups(block.values, floats, place, count)
        case AggregateOp.COUNT:
            fields = kg.count_groups(block.values, block.present, place, count)
        case AggregateOp.GROUP:
            fields = kg.group_groups(block.values, block.present, place, count)
        case AggregateOp.MIN:
            fields = kg.min_groups(block.values, floats, place, count)
        case AggregateOp.MAX:
            fields = kg.max_groups(block.values, floats, place, count)
        case AggregateOp.STDDEV | AggregateOp.STDVAR:
            fields = kg.moments_groups(block.values, floats, place, count)
        case _:
            raise TypeError(f"{plan.op} has no partial results")
    return PartialBlock(axis, fields, histograms, names)


def combine(partials: Sequence[PartialBlock]) -> PartialBlock:
    """One of several for the same steps; groups with the same labels are one."""
    if len(partials) == 1:
        return partials[0]
    axis, maps = _groups_of_all(partials)
    count = len(axis)
    histograms = combine_totals([partial.histograms for partial in partials], maps, count)
    names = [""] * count
    for partial, place in zip(partials, maps, strict=True):
        for row, name in enumerate(partial.names):
            group = int(place[row])
            names[group] = min(filter(None, (names[group], name)), default="")
    fields = _combine_fields([partial.fields for partial in partials], maps, count)
    return PartialBlock(axis, fields, histograms, tuple(names))


def with_same_groups(partials: Sequence[PartialBlock]) -> list[PartialBlock]:
    """Partials of different steps, each with the groups of all of them."""
    if all(partial.axis is partials[0].axis for partial in partials):
        return list(partials)
    axis, maps = _groups_of_all(partials)
    found: list[PartialBlock] = []
    for partial, place in zip(partials, maps, strict=True):
        names = [""] * len(axis)
        for row, name in enumerate(partial.names):
            names[int(place[row])] = name
        histograms = combine_totals([partial.histograms], [place], len(axis))
        fields = _combine_fields([partial.fields], [place], len(axis))
        found.append(PartialBlock(axis, fields, histograms, tuple(names)))
    return found


def _groups_of_all(partials: Sequence[PartialBlock]) -> tuple[Axis, list[I64]]:
    """The groups of some partials, and for each partial where its groups are among them."""
    rows: dict[Labels, int] = {}
    maps = [
        np.array([rows.setdefault(labels, len(rows)) for labels in partial.axis.labels], np.int64)
        for partial in partials
    ]
    nameless = np.zeros(len(rows), np.bool_)
    for partial, place in zip(partials, maps, strict=True):
        nameless[place[partial.axis.nameless]] = True
    return Axis(tuple(rows), nameless), maps


def _combine_fields(fields: Sequence[Fields], maps: Sequence[I64], count: int) -> Fields:
    match fields[0]:
        case kg.SumPartial():
            return kg.combine_sum([p for p in fields if isinstance(p, kg.SumPartial)], maps, count)
        case kg.AvgPartial():
            return kg.combine_avg([p for p in fields if isinstance(p, kg.AvgPartial)], maps, count)
        case kg.CountPartial():
            return kg.combine_count([p for p in fields if isinstance(p, kg.CountPartial)], maps, count)
        case kg.GroupPartial():
            return kg.combine_group([p for p in fields if isinstance(p, kg.GroupPartial)], maps, count)
        case kg.MinPartial():
            return kg.combine_min([p for p in fields if isinstance(p, kg.MinPartial)], maps, count)
        case kg.MaxPartial():
            return kg.combine_max([p for p in fields if isinstance(p, kg.MaxPartial)], maps, count)
        case kg.MomentsPartial():
            return kg.combine_moments([p for p in fields if isinstance(p, kg.MomentsPartial)], maps, count)


def finish(plan: pn.Aggregate, partial: PartialBlock, context: Context) -> VectorBlock:
    """The values of an aggregation whose partials have all come together."""
    fields = partial.fields
    if isinstance(fields, kg.MomentsPartial):
        values, present = fields.finish_stddev() if plan.op is AggregateOp.STDDEV else fields.finish_stdvar()
    else:
        values, present = fields.finish()
    if partial.histograms is None:
        return VectorBlock(partial.axis, values, present)
    has_histograms = are_histograms(partial.histograms)
    mixed = present & has_histograms
    if mixed.any():
        context.notes.warn(notes.MIXED_IN_AGGREGATION, plan.vector_span)
    found = finish_totals(plan, partial.histograms, has_histograms & ~mixed, partial.names, context)
    return VectorBlock(partial.axis, values, (present & ~mixed) | are_histograms(found), found)


@dataclass(frozen=True)
class CombinedNode:
    """An aggregation that decomposes, over series that are all in this place."""

    plan: pn.Aggregate
    operand: ExecNode
    context: Context
    grouping: Grouping

    def partial(self, grid: Grid) -> PartialBlock:
        """What another place's partials can be combined with."""
        return make_partial(self.plan, self.grouping, vector(self.operand, grid), self.context)

    def eval(self, grid: Grid) -> VectorBlock:
        return finish(self.plan, self.partial(grid), self.context)

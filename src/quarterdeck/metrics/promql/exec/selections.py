"""Aggregations that choose series or need all of them: topk, bottomk, limitk, limit_ratio, quantile, count_values."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import xxhash

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import F64, I64, Axis, Bool, Grid, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.grouping import Grouping
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, scalar, vector
from quarterdeck.metrics.promql.exec.parameters import WrongParameters, whole_numbers
from quarterdeck.metrics.promql.exec.relabel import is_label_name
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.floats import show_float
from quarterdeck.metrics.promql.kernels import groups as kg
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.limits import ROW_BYTES, check_label
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import AggregateOp
from quarterdeck.metrics.promql.syntax.quoting import quote


@dataclass(frozen=True)
class TopNode:
    """`topk` and `bottomk`."""

    plan: pn.Aggregate
    operand: ExecNode
    parameter: ExecNode
    context: Context
    grouping: Grouping

    def eval(self, grid: Grid) -> VectorBlock:
        k = whole_numbers(scalar(self.parameter, grid).values)
        block = vector(self.operand, grid)
        place, groups = self.grouping.of(block.axis)
        bottom = self.plan.op is AggregateOp.BOTTOMK
        if block.is_histogram[:, k >= 1].any():
            self.context.notes.inform(notes.ignored_in_aggregation(self.plan.op), self.plan.span)
        floats = block.is_float
        if self.context.instant and grid.count == 1:
            size = int(min(k[0], len(block.axis)))
            order = kg.topk_order(block.values[:, 0], floats[:, 0], place, len(groups), size, bottom)
            return VectorBlock(block.axis, block.values, floats).take(order)
        k = np.minimum(k, len(block.axis))
        chosen = kg.topk_groups(block.values, floats, place, len(groups), k, bottom, self.context.threads)
        return VectorBlock(block.axis, block.values, chosen)


@dataclass(frozen=True)
class LimitNode:
    """`limitk`: the first series of each group, by their labels."""

    plan: pn.Aggregate
    operand: ExecNode
    parameter: ExecNode
    context: Context
    grouping: Grouping

    def eval(self, grid: Grid) -> VectorBlock:
        k = whole_numbers(scalar(self.parameter, grid).values)
        block = vector(self.operand, grid)
        place, _ = self.grouping.of(block.axis)
        self.context.memory.need(block.values.size * 28)
        order = np.argsort(place, kind="stable")
        ordered = place[order]
        rank = np.cumsum(block.present[order], axis=0)
        starts = np.searchsorted(ordered, ordered)
        before = np.concatenate((np.zeros((1, grid.count), rank.dtype), rank))[starts]
        chosen = np.zeros(block.present.shape, np.bool_)
        chosen[order] = block.present[order] & (rank - before <= k)
        return VectorBlock(block.axis, block.values, chosen, block.histograms)


@dataclass
class LimitRatioNode:
    """`limit_ratio`: a share of the series, the same ones every time; a negative ratio takes the other ones."""

    plan: pn.Aggregate
    operand: ExecNode
    parameter: ExecNode
    context: Context
    known: Remembered[F64] = field(default_factory=Remembered[F64])

    @cached_property
    def wrong(self) -> WrongParameters:
        """The ratios that are more than all."""
        return WrongParameters(-1.0, 1.0, notes.invalid_ratio, self.plan.parameter_span, self.context)

    def eval(self, grid: Grid) -> VectorBlock:
        ratios = scalar(self.parameter, grid).values
        if np.isnan(ratios).any():
            raise ExecutionError("Ratio value is NaN")
        self.wrong.note(ratios)
        capped = np.clip(ratios, -1.0, 1.0)
        block = vector(self.operand, grid)
        shares = self.known.of((block.axis,), lambda: self._shares(block.axis))[:, None]
        chosen = np.where(capped >= 0, shares < capped, shares >= 1.0 + capped) & (capped != 0)
        return VectorBlock(block.axis, block.values, block.present & chosen, block.histograms)

    def _shares(self, axis: Axis) -> F64:
        """For each series a number from 0 to 1 that depends on its labels alone."""
        hashes = [xxhash.xxh64_intdigest(hashed_form(labels)) for labels in self.context.watched(axis.labels)]
        return np.array(hashes, np.uint64).astype(np.float64) / float(2**64 - 1)


def hashed_form(labels: lb.Labels) -> bytes:
    """What Prometheus 3 hashes of labels: the names and values in their order, each after its length in bytes.

    >>> hashed_form((("a", "bc"),))
    b'\\x01a\\x02bc'
    """
    form = bytearray()
    for pair in labels:
        for text in pair:
            data = text.encode(errors="surrogateescape")
            # A length of one byte, or 255 and the length in three bytes.
            form += bytes((len(data),)) if len(data) < 255 else b"\xff" + len(data).to_bytes(3, "little")
            form += data
    return bytes(form)


@dataclass(frozen=True)
class QuantileNode:
    """`quantile`."""

    plan: pn.Aggregate
    operand: ExecNode
    parameter: ExecNode
    context: Context
    grouping: Grouping

    @cached_property
    def wrong(self) -> WrongParameters:
        """The parameters that are no quantiles."""
        return WrongParameters(0.0, 1.0, notes.invalid_quantile, self.plan.parameter_span, self.context)

    def eval(self, grid: Grid) -> VectorBlock:
        phi = scalar(self.parameter, grid).values
        self.wrong.note(phi)
        block = vector(self.operand, grid)
        if block.is_histogram.any():
            self.context.notes.inform(notes.ignored_in_aggregation(self.plan.op), self.plan.vector_span)
        place, axis = self.grouping.of(block.axis)
        values, present = kg.quantile_groups(block.values, block.is_float, place, len(axis), phi, self.context.threads)
        return VectorBlock(axis, values, present)


def note_quantiles(phi: F64, span: pn.Span, context: Context) -> None:
    """Say which of these are no quantiles."""
    wrong = ~((phi >= 0) & (phi <= 1))
    if wrong.any():
        for value in np.unique(phi[wrong])[: notes.MOST].tolist():
            context.notes.warn(notes.invalid_quantile(value), span)


@dataclass(frozen=True)
class CountValuesNode:
    """`count_values`: how often each value occurs; values become labels."""

    plan: pn.Aggregate
    operand: ExecNode
    label: str
    context: Context

    def __post_init__(self) -> None:
        if not is_label_name(self.label):
            raise ExecutionError(f"invalid label name {quote(self.label)}")

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        names = tuple(name for name in self.plan.grouping if name != self.label)
        grouping = Grouping(names, self.plan.without, self.context)
        # The label is set before grouping: what it hides is gone.
        label = frozenset({self.label})
        labels = self.context.watched(block.axis.labels)
        hidden = Axis(tuple(lb.drop(one, label) for one in labels), block.axis.nameless)
        place, axis = grouping.of(hidden)
        keep_label = not (self.plan.without and self.label in {*self.plan.grouping, METRIC_NAME})
        self.context.memory.need(int(np.count_nonzero(block.present)) * 80)
        counted = kg.count_values(block.values, block.is_float, place, len(axis), self._check_room)
        labels = [
            lb.replace(axis.labels[group], ((self.label, show_float(value) if keep_label else ""),))
            for group, value in self.context.watched(_pairs(counted))
        ]
        rows, values, present = labels, counted.counts, counted.present
        if block.histograms is not None:
            rows, values, present = self._with_histograms(block, place, axis, keep_label, labels, values, present)
        return add_same(VectorBlock(Axis.of(rows), values, present), self.context)

    def _check_room(self, rows: int, steps: int, text_bytes: int = 0) -> None:
        """The labels of each row, what is new in them, and its counts in two forms."""
        self.context.check_stop()
        self.context.memory.need(rows * (2 * ROW_BYTES + steps * 18) + text_bytes)

    def _with_histograms(
        self,
        block: VectorBlock,
        place: I64,
        axis: Axis,
        keep_label: bool,
        labels: list[lb.Labels],
        values: F64,
        present: Bool,
    ) -> tuple[list[lb.Labels], F64, Bool]:
        rows: dict[lb.Labels, F64] = {}
        histograms = block.histograms
        if histograms is None:
            return labels, values, present
        none_yet = np.zeros(block.present.shape[1])
        text_bytes = 0
        for row, step in self.context.watched(np.argwhere(block.is_histogram).tolist()):
            self._check_room(len(rows) + len(labels), len(none_yet), text_bytes)
            shown = str(histograms[row, step]) if keep_label else ""
            check_label(len(shown), "count_values")
            key = lb.replace(axis.labels[int(place[row])], ((self.label, shown),))
            if key not in rows:
                rows[key] = none_yet.copy()
                text_bytes += shown.__sizeof__()
            rows[key][step] += 1
        if not rows:
            return labels, values, present
        extra = np.stack(list(rows.values()))
        return [*labels, *rows], np.concatenate((values, extra)), np.concatenate((present, extra > 0))


def _pairs(counted: kg.ValueCounts) -> list[tuple[int, float]]:
    groups: list[int] = counted.groups.tolist()
    values: list[float] = counted.values.tolist()
    return list(zip(groups, values, strict=True))


def add_same(block: VectorBlock, context: Context) -> VectorBlock:
    """The block with series of the same labels added up."""
    rows: dict[lb.Labels, int] = {}
    place = np.array([rows.setdefault(labels, len(rows)) for labels in context.watched(block.axis.labels)], np.int64)
    if len(rows) == len(block.axis):
        return unite(block, context)
    context.memory.need(len(rows) * block.values.shape[1] * 18)
    values = np.zeros((len(rows), block.values.shape[1]))
    np.add.at(values, place, np.where(block.present, block.values, 0.0))
    present = np.zeros(values.shape, np.bool_)
    np.logical_or.at(present, place, block.present)
    return VectorBlock(Axis.of(list(rows)), values, present)

"""Quantiles and fractions of histograms.

Classic ones are series that count what is below a bound, given by the label `le`; `native_shares` does native ones.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import F64, I64, Axis, Bool, Grid, VectorBlock, totals_before
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.native_shares import beside, native_fractions, native_quantiles
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, scalar, vector
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.selections import note_quantiles
from quarterdeck.metrics.promql.floats import parse_float, show_open_metrics
from quarterdeck.metrics.promql.kernels import buckets as kb
from quarterdeck.metrics.promql.labels import BUCKET, METRIC_NAME, Labels
from quarterdeck.metrics.promql.limits import CELL_BYTES
from quarterdeck.metrics.promql.plan import nodes as pn


@dataclass(frozen=True, eq=False)
class BucketRows:
    """The buckets of an axis: rows in the order of groups and rising bounds."""

    groups: Axis
    offsets: I64
    rows: I64
    bounds: F64
    without_bound: tuple[int, ...]
    """Rows that are no buckets."""
    group_of: dict[Labels, int]


@dataclass
class BucketsNode:
    """`histogram_quantile`, `histogram_quantiles` and `histogram_fraction`."""

    plan: pn.Buckets
    operand: ExecNode
    args: tuple[ExecNode, ...]
    context: Context
    known: Remembered[BucketRows] = field(default_factory=Remembered[BucketRows])

    def eval(self, grid: Grid) -> VectorBlock:
        args = [scalar(arg, grid).values for arg in self.args]
        if self.plan.function != "histogram_fraction":
            for phi, span in zip(args, self.plan.arg_spans, strict=True):
                note_quantiles(phi, span, self.context)
        block = vector(self.operand, grid)
        layout = self.known.of((block.axis,), lambda: _lay_out(block.axis, self.context))
        self._note_what_is_no_bucket(layout, block)
        values = np.ascontiguousarray(block.values[layout.rows])
        present = np.ascontiguousarray(block.is_float[layout.rows])
        native: Bool | None = None
        if block.histograms is not None:
            taken, native = self._native_cells(layout, block)
            present &= ~taken
        span = self.plan.vector_span
        if self.plan.function == "histogram_fraction":
            shares, there = kb.histogram_fraction(
                args[0], args[1], layout.offsets, layout.bounds, values, present, self.context.threads
            )
            found = VectorBlock(layout.groups, shares, there)
            if native is None:
                return found
            return beside(found, native_fractions(block, native, args[0], args[1], self.context, span), self.context)
        results = [self._quantile(phi, layout, values, present, grid) for phi in args]
        if native is not None:
            results = [
                beside(found, native_quantiles(block, native, phi, self.context, span), self.context)
                for phi, found in zip(args, results, strict=True)
            ]
        if self.plan.function == "histogram_quantile":
            return results[0]
        return self._labelled(args, results, grid)

    def _quantile(self, phi: F64, layout: BucketRows, values: F64, present: Bool, grid: Grid) -> VectorBlock:
        found = kb.histogram_quantile(phi, layout.offsets, layout.bounds, values, present, self.context.threads)
        times_ms = grid.times()
        for group in np.flatnonzero(found.forced.any(axis=1)).tolist():
            name = lb.get(layout.groups.labels[group], METRIC_NAME)
            steps = np.flatnonzero(found.forced[group])
            lift = notes.Lift(
                int(times_ms[steps[0]]),
                int(times_ms[steps[-1]]),
                float(found.lowest_forced[group, steps].min()),
                float(found.highest_forced[group, steps].max()),
                float(found.biggest_lift[group, steps].max()),
                len(steps),
            )
            self.context.notes.inform(notes.forced_monotonicity(name), self.plan.vector_span, lift)
        return VectorBlock(layout.groups, found.values, found.present)

    def _labelled(self, args: list[F64], results: list[VectorBlock], grid: Grid) -> VectorBlock:
        """Several quantiles at once: each has its own label. A quantile that changes changes its label."""
        labels: list[Labels] = []
        values: list[F64] = []
        present: list[np.ndarray] = []
        for phi, result in zip(args, results, strict=True):
            for value in np.unique(phi).tolist():
                at = np.isnan(phi) if math.isnan(value) else phi == value
                rows = len(labels) + len(result.axis)
                self.context.need(rows * (result.axis.row_bytes + grid.count * 2 * CELL_BYTES))
                for row, known in enumerate(result.axis.labels):
                    labels.append(lb.replace(known, ((self.plan.label, show_open_metrics(value)),)))
                    values.append(result.values[row])
                    present.append(result.present[row] & at)
        if not labels:
            return VectorBlock.empty(grid.count)
        axis = Axis.of(labels).without_names
        seen: dict[Labels, int] = {}
        for row, name in enumerate(labels):
            other = seen.setdefault(name, row)
            if other != row and (present[other] & present[row]).any():
                raise ExecutionError("vector cannot contain metrics with the same labelset")
        return VectorBlock(axis, np.stack(values), np.stack(present))

    def _note_what_is_no_bucket(self, layout: BucketRows, block: VectorBlock) -> None:
        for row in layout.without_bound:
            if block.is_float[row].any():
                labels = block.axis.labels[row]
                text = notes.bad_bucket_label(lb.get(labels, METRIC_NAME), lb.get(labels, BUCKET))
                self.context.notes.warn(text, self.plan.vector_span)

    def _native_cells(self, layout: BucketRows, block: VectorBlock) -> tuple[Bool, Bool]:
        """Which bucket rows have, at which steps, a native histogram of the same name beside them: these have no
        answer. And which cells are native histograms that have one."""
        taken = np.zeros((len(layout.rows), block.values.shape[1]), np.bool_)
        native = block.is_histogram
        buckets = block.is_float[layout.rows]
        for row in np.flatnonzero(native.any(axis=1)).tolist():
            labels = block.axis.labels[row]
            group = layout.group_of.get(labels)
            if group is None:
                continue
            low, high = int(layout.offsets[group]), int(layout.offsets[group + 1])
            both = native[row] & buckets[low:high].any(axis=0)
            if both.any():
                text = notes.mixed_classic_native(lb.get(labels, METRIC_NAME))
                self.context.notes.warn(text, self.plan.vector_span)
                taken[low:high] |= both
                native[row] &= ~both
        return taken, native


def _lay_out(axis: Axis, context: Context) -> BucketRows:
    group_of: dict[Labels, int] = {}
    found: list[tuple[int, float, int]] = []
    without_bound: list[int] = []
    context.memory.need(len(axis) * axis.row_bytes)
    for row, labels in context.watched(enumerate(axis.labels)):
        bound = parse_float(lb.get(labels, BUCKET))
        if bound is None:
            without_bound.append(row)
            continue
        key = lb.drop(labels, frozenset({BUCKET}))
        found.append((group_of.setdefault(key, len(group_of)), bound, row))
    found.sort()
    counts = np.bincount(np.array([group for group, _, _ in found], np.int64), minlength=len(group_of))
    return BucketRows(
        Axis.of(list(group_of)).without_names,
        totals_before(counts),
        np.array([row for _, _, row in found], np.int64),
        np.array([bound for _, bound, _ in found]),
        tuple(without_bound),
        group_of,
    )

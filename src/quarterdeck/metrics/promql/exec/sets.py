"""`and`, `or` and `unless`: which series are there, whatever their values."""

from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql.blocks import I64, Axis, Grid, VectorBlock, joined_histograms
from quarterdeck.metrics.promql.exec.matching import any_in_group, ordinals
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import BinaryOp


@dataclass
class SetNode:
    """A set operator."""

    plan: pn.VectorVector
    lhs: ExecNode
    rhs: ExecNode
    context: Context
    known: Remembered[tuple[I64, I64, int, Axis]] = field(default_factory=Remembered[tuple[I64, I64, int, Axis]])

    def eval(self, grid: Grid) -> VectorBlock:
        lhs, rhs = vector(self.lhs, grid), vector(self.rhs, grid)
        axes = (lhs.axis, rhs.axis)
        left, right, count, both = self.known.of(axes, lambda: self._signatures(*axes))
        # The signatures of either side with their steps, and both sides side by side.
        self.context.memory.need(count * grid.count + lhs.size_bytes + rhs.size_bytes)
        if self.plan.op is BinaryOp.OR:
            there = any_in_group(lhs.present, left, count)
            return unite(
                VectorBlock(
                    both,
                    np.concatenate((lhs.values, rhs.values)),
                    np.concatenate((lhs.present, rhs.present & ~there[right])),
                    joined_histograms((lhs, rhs)),
                ),
                self.context,
            )
        there = any_in_group(rhs.present, right, count)[left]
        present = lhs.present & (there if self.plan.op is BinaryOp.AND else ~there)
        return VectorBlock(lhs.axis, lhs.values, present, lhs.histograms)

    def _signatures(self, lhs: Axis, rhs: Axis) -> tuple[I64, I64, int, Axis]:
        both = Axis(lhs.labels + rhs.labels, np.concatenate((lhs.nameless, rhs.nameless)))
        return *ordinals(lhs, rhs, self.plan.matching, self.context), both

"""`and`, `or` and `unless`: which series are there, whatever their values."""

from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql.blocks import I64, Axis, Grid, VectorBlock, joined_histograms
from quarterdeck.metrics.promql.exec.matching import any_in_group, ordinals
from quarterdeck.metrics.promql.exec.node import ExecNode, vector
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import BinaryOp


@dataclass
class SetNode:
    """A set operator."""

    plan: pn.VectorVector
    lhs: ExecNode
    rhs: ExecNode
    known: dict[tuple[int, int], tuple[Axis, Axis, I64, I64, int, Axis]] = field(
        default_factory=dict[tuple[int, int], tuple[Axis, Axis, I64, I64, int, Axis]]
    )

    def eval(self, grid: Grid) -> VectorBlock:
        lhs, rhs = vector(self.lhs, grid), vector(self.rhs, grid)
        left, right, count, both = self._signatures(lhs.axis, rhs.axis)
        if self.plan.op is BinaryOp.OR:
            there = any_in_group(lhs.present, left, count)
            return unite(
                VectorBlock(
                    both,
                    np.concatenate((lhs.values, rhs.values)),
                    np.concatenate((lhs.present, rhs.present & ~there[right])),
                    joined_histograms((lhs, rhs)),
                )
            )
        there = any_in_group(rhs.present, right, count)[left]
        present = lhs.present & (there if self.plan.op is BinaryOp.AND else ~there)
        return VectorBlock(lhs.axis, lhs.values, present, lhs.histograms)

    def _signatures(self, lhs: Axis, rhs: Axis) -> tuple[I64, I64, int, Axis]:
        key = (id(lhs), id(rhs))
        if key not in self.known:
            both = Axis(lhs.labels + rhs.labels, np.concatenate((lhs.nameless, rhs.nameless)))
            self.known[key] = (lhs, rhs, *ordinals(lhs, rhs, self.plan.matching), both)
        return self.known[key][2:]

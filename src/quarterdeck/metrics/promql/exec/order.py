"""The order of an answer, and the answer to a question about nothing: `sort` and its like, `absent`."""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import Axis, Grid, VectorBlock
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.plan import nodes as pn

_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True)
class SortNode:
    """The series of an instant query in an order. A range query's are always sorted by labels."""

    plan: pn.Sort
    operand: ExecNode
    context: Context

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        by_value = self.plan.function in {"sort", "sort_desc"}
        if not self.context.instant or grid.count != 1:
            self.context.notes.warn(notes.SORT_OF_RANGE, self.plan.span)
            return VectorBlock(block.axis, block.values, block.is_float) if by_value else block
        falling = self.plan.function.endswith("_desc")
        if by_value:
            kept = VectorBlock(block.axis, block.values, block.is_float)
            rows = np.flatnonzero(kept.present[:, 0])
            values = kept.values[rows, 0]
            order = np.argsort(-values if falling else values, kind="stable")
            return kept.take(rows[order])
        rows = list(range(len(block.axis)))
        rows.sort(key=lambda row: self._key(block.axis.labels[row]), reverse=falling)
        return block.take(np.array(rows, np.int64))

    def _key(self, labels: Labels) -> tuple[object, ...]:
        """By the named labels, then by all of them."""
        return (*(natural(lb.get(labels, name)) for name in self.plan.by), labels)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers within texts by size.

    >>> sorted(["a10", "a9", "a"], key=natural)
    ['a', 'a9', 'a10']
    """
    parts = _DIGITS.split(text)
    return tuple((0, int(part), part) if index % 2 else (1, 0, part) for index, part in enumerate(parts) if part)


@dataclass(frozen=True)
class AbsentNode:
    """1 where there is no series."""

    operand: ExecNode
    axis: Axis

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        return VectorBlock(self.axis, np.ones((1, grid.count)), ~block.present.any(axis=0).reshape(1, -1))

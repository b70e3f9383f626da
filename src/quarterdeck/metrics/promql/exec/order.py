"""The order of an answer, and the answer to a question about nothing: `sort` and its like, `absent`."""

import re
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Final

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.blocks import Axis, Grid, VectorBlock
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.plan import nodes as pn

_CHUNKS: Final = re.compile(r"[0-9]+|[^0-9]+")


@dataclass(frozen=True)
class SortNode:
    """The series of a single step in an order. Those of several steps are always sorted by labels."""

    plan: pn.Sort
    operand: ExecNode
    context: Context
    steps: int
    """How many there are in all, whatever the blocks are."""

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        by_value = self.plan.function in {"sort", "sort_desc"}
        if self.steps != 1:
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
        keys = [self._key(labels) for labels in self.context.watched(block.axis.labels)]
        rows.sort(key=keys.__getitem__, reverse=falling)
        return block.take(np.array(rows, np.int64))

    def _key(self, labels: Labels) -> tuple[object, ...]:
        """By the named labels, then by all of them."""
        return (*(natural(lb.get(labels, name)) for name in self.plan.by), labels)


def _compare(one: str, other: str) -> int:
    """Less than 0 if one text comes before the other: chunk by chunk, by size where both are numbers.

    >>> sorted(["a10", "a9", "a", "-3", "2"], key=natural)
    ['-3', '2', 'a', 'a9', 'a10']
    """
    mine, theirs = _CHUNKS.findall(one), _CHUNKS.findall(other)
    for left, right in zip(mine, theirs, strict=False):
        keys = (_size(left), _size(right)) if left.isdigit() and right.isdigit() else (left, right)
        if keys[0] != keys[1]:
            return -1 if keys[0] < keys[1] else 1
    return len(mine) - len(theirs)


def _size(digits: str) -> tuple[int, str]:
    """A key that sorts numbers by size, however long they are."""
    digits = digits.lstrip("0")
    return len(digits), digits


natural: Final = cmp_to_key(_compare)
"""A key that sorts numbers within texts by size."""


@dataclass(frozen=True)
class AbsentNode:
    """1 where there is no series."""

    operand: ExecNode
    axis: Axis

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        return VectorBlock(self.axis, np.ones((1, grid.count)), ~block.present.any(axis=0).reshape(1, -1))

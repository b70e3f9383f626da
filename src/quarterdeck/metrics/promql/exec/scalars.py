"""Numbers: one for each step."""

from dataclasses import dataclass

import numpy as np

from quarterdeck.metrics.promql import arithmetic
from quarterdeck.metrics.promql.blocks import Axis, Block, Grid, Objects, ScalarBlock, StringBlock, VectorBlock
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, scalar, vector
from quarterdeck.metrics.promql.syntax.ast import BinaryOp


@dataclass(frozen=True, slots=True)
class NumberNode:
    """The same number at every step."""

    value: float

    def eval(self, grid: Grid) -> ScalarBlock:
        return ScalarBlock(np.full(grid.count, self.value))


@dataclass(frozen=True, slots=True)
class TextNode:
    """A string."""

    value: str

    def eval(self, grid: Grid) -> StringBlock:  # noqa: ARG002
        return StringBlock(self.value)


@dataclass(frozen=True, slots=True)
class TimeNode:
    """The time of the step in seconds."""

    def eval(self, grid: Grid) -> ScalarBlock:
        return ScalarBlock(grid.times() / 1000)


@dataclass(frozen=True, slots=True)
class ScalarBinaryNode:
    """An operator between two numbers."""

    op: BinaryOp
    lhs: ExecNode
    rhs: ExecNode

    def eval(self, grid: Grid) -> ScalarBlock:
        return ScalarBlock(arithmetic.scalars(self.op, scalar(self.lhs, grid).values, scalar(self.rhs, grid).values))


@dataclass(frozen=True, slots=True)
class ScalarExtremeNode:
    """The larger or smaller of two numbers."""

    lhs: ExecNode
    rhs: ExecNode
    largest: bool

    def eval(self, grid: Grid) -> ScalarBlock:
        return ScalarBlock(
            arithmetic.extreme(scalar(self.lhs, grid).values, scalar(self.rhs, grid).values, self.largest)
        )


@dataclass(frozen=True, slots=True)
class NegateNode:
    """The other sign; of a vector, its name goes."""

    operand: ExecNode

    def eval(self, grid: Grid) -> Block:
        block = self.operand.eval(grid)
        if isinstance(block, ScalarBlock):
            return ScalarBlock(-block.values)
        if not isinstance(block, VectorBlock):
            raise TypeError("a string has no sign")
        return VectorBlock(block.axis.without_names, -block.values, block.present, self._negative(block))

    @staticmethod
    def _negative(block: VectorBlock) -> Objects | None:
        if block.histograms is None:
            return None
        histograms: Objects = np.full(block.values.shape, None, object)
        cells = block.is_histogram
        histograms[cells] = [histogram.times(-1.0) for histogram in block.histograms[cells]]
        return histograms


@dataclass(frozen=True, slots=True)
class ScalarOfNode:
    """The value of the only series; not-a-number where there is none or more than one."""

    operand: ExecNode

    def eval(self, grid: Grid) -> ScalarBlock:
        block = vector(self.operand, grid)
        if not len(block.axis):
            return ScalarBlock(np.full(grid.count, np.nan))
        floats = block.is_float
        first = block.values[floats.argmax(axis=0), np.arange(grid.count)]
        return ScalarBlock(np.where(floats.sum(axis=0) == 1, first, np.nan))


NO_LABELS = Axis.of(((),))


@dataclass(frozen=True, slots=True)
class VectorOfNode:
    """A number as a series without labels."""

    operand: ExecNode

    def eval(self, grid: Grid) -> VectorBlock:
        values = scalar(self.operand, grid).values
        return VectorBlock(NO_LABELS, values.reshape(1, -1).copy(), np.ones((1, grid.count), np.bool_))


@dataclass(slots=True)
class StepInvariantNode:
    """A plan that yields the same at every step, evaluated once and repeated."""

    operand: ExecNode
    at: Grid
    """The one step at which it is evaluated."""
    context: Context
    known: Block | None = None

    def eval(self, grid: Grid) -> Block:
        if self.known is None:
            with self.context.memory.frame():
                self.known = self.operand.eval(self.at)
            if isinstance(self.known, VectorBlock):
                self.context.memory.hold(self.known.size_bytes)
        known = self.known
        if isinstance(known, ScalarBlock):
            return ScalarBlock(np.repeat(known.values, grid.count))
        if isinstance(known, StringBlock):
            return known
        self.context.memory.need(known.size_bytes * grid.count)
        return VectorBlock(
            known.axis,
            np.repeat(known.values, grid.count, axis=1),
            np.repeat(known.present, grid.count, axis=1),
            None if known.histograms is None else np.repeat(known.histograms, grid.count, axis=1),
        )

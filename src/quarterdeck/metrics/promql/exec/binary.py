"""Operators between a vector and a number, and the operators themselves over two arrays of cells."""

from dataclasses import dataclass

import numpy as np

from quarterdeck.metrics.promql import notes
from quarterdeck.metrics.promql.arithmetic import ARITHMETIC, COMPARISONS
from quarterdeck.metrics.promql.blocks import F64, Bool, Grid, Objects, VectorBlock, are_histograms
from quarterdeck.metrics.promql.exec.histogram_cells import combine_cells, scale_cells
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, scalar, vector
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import BinaryOp


@dataclass(frozen=True, slots=True)
class Cells:
    """One side of an operator."""

    values: F64
    histograms: Objects | None = None

    @property
    def is_histogram(self) -> Bool:
        if self.histograms is None:
            return np.zeros(self.values.shape, np.bool_)
        return are_histograms(self.histograms)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operator says of each cell."""

    values: F64
    passed: Bool
    """Which cells are there."""
    possible: Bool
    """Where an answer is possible at all; a comparison passes only where it holds."""
    histograms: Objects | None = None


def operate(
    op: BinaryOp, lhs: Cells, rhs: Cells, both: Bool, return_bool: bool, context: Context, span: Span
) -> Answer:
    """The answers among the cells where `both` sides are there.

    A comparison without `bool` passes on the left side's value.
    """
    if lhs.histograms is not None or rhs.histograms is not None or op.is_trim:
        possible, histograms = _cells_by_kind(op, lhs, rhs, both, context, span)
    else:
        possible, histograms = both, None
    with np.errstate(all="ignore"):
        if op in COMPARISONS:
            holds = COMPARISONS[op](lhs.values, rhs.values)
            if lhs.histograms is not None and rhs.histograms is not None and op in {BinaryOp.EQ, BinaryOp.NE}:
                pairs = lhs.is_histogram & rhs.is_histogram & both
                equal = np.equal(lhs.histograms, rhs.histograms).astype(np.bool_)
                holds = np.where(pairs, equal if op is BinaryOp.EQ else ~equal, holds)
            if return_bool:
                return Answer(holds.astype(np.float64), possible, possible)
            return Answer(np.broadcast_to(lhs.values, holds.shape), possible & holds, possible, lhs.histograms)
        if op in ARITHMETIC:
            return Answer(ARITHMETIC[op](lhs.values, rhs.values), possible, possible, histograms)
    return Answer(np.zeros(both.shape), possible, possible, histograms)


def _cells_by_kind(
    op: BinaryOp, lhs: Cells, rhs: Cells, both: Bool, context: Context, span: Span
) -> tuple[Bool, Objects | None]:
    """Where the operator is defined, and the histograms that it yields; elsewhere a note says what does not go
    together."""
    left, right = np.broadcast_arrays(lhs.is_histogram, rhs.is_histogram)
    kinds = {False: "float", True: "histogram"}
    possible = np.zeros(both.shape, np.bool_)
    histograms: Objects | None = None
    for left_kind in (False, True):
        for right_kind in (False, True):
            cells = both & (left == left_kind) & (right == right_kind)
            if not cells.any():
                continue
            match _outcome(op, left_kind, right_kind):
                case "value":
                    possible |= cells
                case "histogram":
                    found = _histograms(op, lhs, rhs, cells, context, span)
                    possible |= are_histograms(found)
                    histograms = found if histograms is None else np.where(cells, found, histograms)
                case _:
                    text = notes.incompatible_types(kinds[left_kind], op, kinds[right_kind])
                    context.notes.inform(text, span)
    return possible, histograms


def _histograms(op: BinaryOp, lhs: Cells, rhs: Cells, cells: Bool, context: Context, span: Span) -> Objects:
    if lhs.histograms is not None and rhs.histograms is not None and op in {BinaryOp.ADD, BinaryOp.SUB}:
        return combine_cells(op, lhs.histograms, rhs.histograms, cells, context, span)
    if lhs.histograms is not None and are_histograms(lhs.histograms)[cells].all():
        return scale_cells(op, lhs.histograms, rhs.values, cells)
    if rhs.histograms is None:
        raise TypeError("neither side has histograms")
    return scale_cells(op, rhs.histograms, lhs.values, cells)


def _outcome(op: BinaryOp, left_histogram: bool, right_histogram: bool) -> str:
    if not left_histogram and not right_histogram:
        return "nothing" if op.is_trim else "value"
    if left_histogram and right_histogram:
        if op in {BinaryOp.EQ, BinaryOp.NE}:
            return "value"
        return "histogram" if op in {BinaryOp.ADD, BinaryOp.SUB} else "nothing"
    if left_histogram:
        return "histogram" if op.is_trim or op in {BinaryOp.MUL, BinaryOp.DIV} else "nothing"
    return "histogram" if op is BinaryOp.MUL else "nothing"


@dataclass(frozen=True, slots=True)
class VectorScalarNode:
    """An operator between each value and a number."""

    plan: pn.VectorScalar
    operand: ExecNode
    number: ExecNode
    context: Context

    def eval(self, grid: Grid) -> VectorBlock:
        plan = self.plan
        block = vector(self.operand, grid)
        cells = Cells(block.values, block.histograms)
        number = Cells(np.broadcast_to(scalar(self.number, grid).values, block.values.shape))
        lhs, rhs = (number, cells) if plan.scalar_left else (cells, number)
        answer = operate(plan.op, lhs, rhs, block.present, plan.return_bool, self.context, plan.span)
        if plan.op.is_comparison and not plan.return_bool:
            return VectorBlock(block.axis, block.values, answer.passed)
        axis = block.axis if plan.op.is_trim else block.axis.without_names
        return VectorBlock(axis, np.ascontiguousarray(answer.values), answer.passed, answer.histograms)

"""From a plan to the nodes that evaluate it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from quarterdeck.metrics.promql.blocks import Axis, Grid, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.exec.aggregates import CombinedNode
from quarterdeck.metrics.promql.exec.binary import VectorScalarNode
from quarterdeck.metrics.promql.exec.buckets import BucketsNode
from quarterdeck.metrics.promql.exec.extended_ranges import EdgedSamplesNode, ExtendedCallNode
from quarterdeck.metrics.promql.exec.grouping import Grouping
from quarterdeck.metrics.promql.exec.info import InfoNode
from quarterdeck.metrics.promql.exec.maps import (
    ClampNode,
    HistogramPartNode,
    MapNode,
    NoStartNode,
    RoundNode,
    TimestampNode,
)
from quarterdeck.metrics.promql.exec.matching import VectorVectorNode
from quarterdeck.metrics.promql.exec.node import AccountedNode, Context, ExecNode, Windows
from quarterdeck.metrics.promql.exec.order import AbsentNode, SortNode
from quarterdeck.metrics.promql.exec.range_functions import RangeCallNode
from quarterdeck.metrics.promql.exec.relabel import RelabelNode
from quarterdeck.metrics.promql.exec.scalars import (
    NegateNode,
    NumberNode,
    ScalarBinaryNode,
    ScalarExtremeNode,
    ScalarOfNode,
    StepInvariantNode,
    TextNode,
    TimeNode,
    VectorOfNode,
)
from quarterdeck.metrics.promql.exec.selections import (
    CountValuesNode,
    LimitNode,
    LimitRatioNode,
    QuantileNode,
    TopNode,
)
from quarterdeck.metrics.promql.exec.selectors import LeafNode, LeafRangeNode, SelectNode, SelectRangeNode, SubqueryNode
from quarterdeck.metrics.promql.exec.sets import SetNode
from quarterdeck.metrics.promql.exec.smoothed import SmoothedNode
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.source import Source
from quarterdeck.metrics.promql.syntax.ast import AggregateOp, Extension

Reading: TypeAlias = SelectNode | SmoothedNode | SelectRangeNode
S = TypeVar("S", SelectNode, SmoothedNode, SelectRangeNode)


@dataclass(frozen=True)
class Builder:
    """Makes nodes. Where samples are there is a source, where leaves come together there are their answers.

    Nodes are made in the order in which Prometheus evaluates: of notes with the same text the last one is told.
    """

    context: Context
    source: Source | None = None
    selectors: list[Reading] = field(default_factory=list[Reading])
    """All nodes made so far that read samples."""
    leaf: Callable[[pn.LeafRef], Callable[[Grid], VectorBlock]] | None = None
    leaf_samples: Callable[[pn.LeafRef], Callable[[], SeriesBlock]] | None = None

    def node(self, plan: pn.Plan, grid: Grid) -> ExecNode:
        """The node of a plan that is going to be evaluated at the steps of `grid`, in pieces."""
        node = self._plain(plan, grid)
        # What a leaf answers is on the account already.
        return node if isinstance(node, LeafNode) else AccountedNode(node, self.context, plan)

    def combined(self, plan: pn.Aggregate, grid: Grid) -> CombinedNode:
        """The node of an aggregation whose partial results are wanted."""
        return CombinedNode(plan, self.node(plan.vector, grid), self.context, self._grouping(plan))

    def _plain(self, plan: pn.Plan, grid: Grid) -> ExecNode:
        context = self.context
        match plan:
            case pn.Number(value=value):
                return NumberNode(value)
            case pn.Text(value=value):
                return TextNode(value)
            case pn.Time():
                return TimeNode()
            case pn.ScalarOf(vector=vector):
                return ScalarOfNode(self.node(vector, grid))
            case pn.ScalarBinary(op=op, lhs=lhs, rhs=rhs):
                return ScalarBinaryNode(op, self.node(lhs, grid), self.node(rhs, grid))
            case pn.ScalarExtreme(lhs=lhs, rhs=rhs, largest=largest):
                return ScalarExtremeNode(self.node(lhs, grid), self.node(rhs, grid), largest)
            case pn.Negate(operand=operand):
                return NegateNode(self.node(operand, grid))
            case pn.Select(smoothed=True):
                return self._reading(SmoothedNode(plan, grid, self._source(), context))
            case pn.Select():
                return self._reading(SelectNode(plan, grid, self._source(), context))
            case pn.RangeCall(range=pn.SelectRange(extension=Extension()) as ranges):
                return ExtendedCallNode(plan, self._range(ranges, grid), context)
            case pn.RangeCall(range=ranges, args=args):
                return RangeCallNode(plan, self.windows(ranges, grid), self._nodes(args, grid), context)
            case pn.Map():
                return self._map(plan, grid)
            case pn.Relabel(vector=vector):
                return RelabelNode(plan, self.node(vector, grid), context)
            case pn.Info(vector=vector, series=series):
                return InfoNode(plan, self.node(vector, grid), self.node(series, grid), context)
            case pn.VectorScalar(vector=vector, scalar=scalar, scalar_left=True):
                number = self.node(scalar, grid)
                return VectorScalarNode(plan, self.node(vector, grid), number, context)
            case pn.VectorScalar(vector=vector, scalar=scalar):
                return VectorScalarNode(plan, self.node(vector, grid), self.node(scalar, grid), context)
            case pn.VectorVector(op=op, lhs=lhs, rhs=rhs):
                if op.is_set:
                    return SetNode(plan, self.node(lhs, grid), self.node(rhs, grid), context)
                return VectorVectorNode(plan, self.node(lhs, grid), self.node(rhs, grid), context)
            case pn.Aggregate():
                return self._aggregate(plan, grid)
            case pn.Absent(vector=vector, labels=labels):
                return AbsentNode(self.node(vector, grid), Axis.of((labels,)))
            case pn.VectorOf(scalar=scalar):
                return VectorOfNode(self.node(scalar, grid))
            case pn.Sort(vector=vector):
                return SortNode(plan, self.node(vector, grid), context, grid.count)
            case pn.Buckets(function="histogram_quantiles", vector=vector, args=args):
                return BucketsNode(plan, self.node(vector, grid), self._nodes(args, grid), context)
            case pn.Buckets(vector=vector, args=args):
                numbers = self._nodes(args, grid)
                return BucketsNode(plan, self.node(vector, grid), numbers, context)
            case pn.StepInvariant(plan=inner):
                once = Grid(grid.start_ms, 1, 1)
                return StepInvariantNode(self.node(inner, once), once, context)
            case pn.LeafRef():
                if self.leaf is None:
                    raise TypeError("a leaf has no leaves")
                return LeafNode(self.leaf(plan))
            case pn.SelectRange() | pn.SubqueryRange() | pn.LeafRange():
                raise TypeError("a range is evaluated by the function above it")

    def windows(self, plan: pn.Plan, grid: Grid) -> Windows:
        """The node of a range."""
        match plan:
            case pn.SelectRange(extension=Extension()):
                return EdgedSamplesNode(self._range(plan, grid))
            case pn.SelectRange():
                return self._range(plan, grid)
            case pn.SubqueryRange():
                inner_grid = plan.inner_grid(grid)
                return SubqueryNode(plan, self.node(plan.plan, inner_grid), inner_grid, self.context)
            case pn.LeafRange(leaf=leaf):
                if self.leaf_samples is None:
                    raise TypeError("a leaf has no leaves")
                return LeafRangeNode(plan, self.leaf_samples(leaf))
            case _:
                raise TypeError(f"{type(plan).__name__} is no range")

    def _range(self, plan: pn.SelectRange, grid: Grid) -> SelectRangeNode:
        return self._reading(SelectRangeNode(plan, grid, self._source(), self.context))

    def _reading(self, node: S) -> S:
        self.selectors.append(node)
        return node

    def _source(self) -> Source:
        if self.source is None:
            raise TypeError("samples are read by leaves only")
        return self.source

    def _nodes(self, plans: tuple[pn.Plan, ...], grid: Grid) -> tuple[ExecNode, ...]:
        return tuple(self.node(plan, grid) for plan in plans)

    def _map(self, plan: pn.Map, grid: Grid) -> ExecNode:
        operand = self.node(plan.vector, grid)
        args = self._nodes(plan.args, grid)
        match plan.function:
            case "clamp":
                return ClampNode(operand, args[0], args[1])
            case "clamp_min":
                return ClampNode(operand, args[0], None)
            case "clamp_max":
                return ClampNode(operand, None, args[0])
            case "round":
                return RoundNode(operand, args[0] if args else None)
            case "timestamp":
                return TimestampNode(operand)
            case "start_timestamp":
                return NoStartNode(operand)
            case function if function.startswith("histogram_"):
                return HistogramPartNode(function, operand)
            case function:
                return MapNode(function, operand)

    def _grouping(self, plan: pn.Aggregate) -> Grouping:
        return Grouping(plan.grouping, plan.without, self.context)

    def _aggregate(self, plan: pn.Aggregate, grid: Grid) -> ExecNode:
        context = self.context
        if plan.parameter is None:
            return self.combined(plan, grid)
        grouping = self._grouping(plan)
        if isinstance(plan.parameter, pn.Text):
            return CountValuesNode(plan, self.node(plan.vector, grid), plan.parameter.value, context)
        parameter = self.node(plan.parameter, grid)
        operand = self.node(plan.vector, grid)
        match plan.op:
            case AggregateOp.TOPK | AggregateOp.BOTTOMK:
                return TopNode(plan, operand, parameter, context, grouping)
            case AggregateOp.LIMITK:
                return LimitNode(plan, operand, parameter, context, grouping)
            case AggregateOp.LIMIT_RATIO:
                return LimitRatioNode(plan, operand, parameter, context)
            case AggregateOp.QUANTILE:
                return QuantileNode(plan, operand, parameter, context, grouping)
            case op:
                raise TypeError(f"{op} takes no parameter")

"""The plan is cut in two: leaves, evaluated series by series where the samples are, and what is left to do with them.

Three things decide where to cut.

- A step is local when each series can be computed without the others: then shards of series give the same answer.
- Relabelling may make two series one, which is an error that only somebody who sees all series can find. So nothing
  but the leaf's end stands above it.
- An aggregation goes down when its partial results can be combined. `quantile` cannot: its series are shipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from quarterdeck.metrics.promql.blocks import Grid
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge, canonical, places
from quarterdeck.metrics.promql.syntax.ast import AggregateOp

COMBINED: Final = frozenset(
    {
        AggregateOp.SUM,
        AggregateOp.AVG,
        AggregateOp.COUNT,
        AggregateOp.MIN,
        AggregateOp.MAX,
        AggregateOp.GROUP,
        AggregateOp.STDDEV,
        AggregateOp.STDVAR,
    }
)
"""Partial results of these are combined."""

CANDIDATES: Final = frozenset({AggregateOp.TOPK, AggregateOp.BOTTOMK, AggregateOp.LIMITK})
"""Each shard names its candidates, and the same aggregation chooses among them."""


def split_leaves(plan: pn.Plan, grid: Grid) -> tuple[pn.Plan, tuple[BaseExpr, ...]]:
    """What is left to evaluate, with references to the leaves, and the leaves, equal ones once."""
    split = _Split()
    rest = split.cut(plan, grid, 0)
    return rest, tuple(split.leaves)


@dataclass(slots=True)
class _Split:
    leaves: list[BaseExpr] = field(default_factory=list[BaseExpr])
    known: dict[object, int] = field(default_factory=dict[object, int])
    scopes: int = 0

    def cut(self, plan: pn.Plan, grid: Grid, scope: int) -> pn.Plan:
        match plan:
            case pn.StepInvariant(plan=inner):
                return pn.StepInvariant(self.cut(inner, Grid(grid.start_ms, 1, 1), self._new_scope()))
            case pn.SelectRange():
                leaf = self._leaf(plan, grid, scope, Merge.SAMPLES)
                return pn.LeafRange(leaf, plan.timing, plan.range_ms, plan.span)
            case pn.Aggregate(op=op) if op in COMBINED and is_local(plan.vector):
                return self._leaf(plan, grid, scope, Merge.COMBINE)
            case pn.Aggregate(op=AggregateOp.COUNT_VALUES) if is_local(plan.vector):
                return self._leaf(plan, grid, scope, Merge.ADD)
            case pn.Aggregate(op=op) if op in CANDIDATES and is_local(plan.vector) and _is_plain(plan.parameter):
                return replace(plan, vector=self._leaf(plan, grid, scope, Merge.UNION))
            case pn.Relabel(vector=vector) if is_local(vector):
                return self._leaf(plan, grid, scope, Merge.UNION)
            case pn.SubqueryRange():
                inner_grid = plan.inner_grid(grid)
                return replace(plan, plan=self.cut(plan.plan, inner_grid, self._new_scope()))
            case _ if is_local(plan):
                return self._leaf(plan, grid, scope, Merge.UNION)
            case _:
                return pn.map_children(plan, lambda child: self.cut(child, grid, scope))

    def _leaf(self, plan: pn.Plan, grid: Grid, scope: int, merge: Merge) -> pn.LeafRef:
        start = _start(plan)
        key = (canonical(plan), places(plan, start), grid, merge, scope)
        index = self.known.setdefault(key, len(self.leaves))
        if index == len(self.leaves):
            self.leaves.append(BaseExpr(plan, grid, merge, start, scope))
        return pn.LeafRef(index, start)

    def _new_scope(self) -> int:
        self.scopes += 1
        return self.scopes


def is_local(plan: pn.Plan) -> bool:
    """Whether each series of a vector can be computed without the others, and is never renamed on the way."""
    match plan:
        case pn.Select():
            return True
        case pn.RangeCall(range=pn.SubqueryRange(plan=inner), args=args):
            return is_local(inner) and _are_plain(args)
        case pn.RangeCall(args=args):
            return _are_plain(args)
        case pn.Map(vector=vector, args=args):
            return is_local(vector) and _are_plain(args)
        case pn.VectorScalar(vector=vector, scalar=scalar):
            return is_local(vector) and _is_plain(scalar)
        case pn.Negate(operand=operand, is_scalar=False):
            return is_local(operand)
        case _:
            return False


def _are_plain(plans: Sequence[pn.Plan]) -> bool:
    return all(_is_plain(plan) for plan in plans)


def _is_plain(plan: pn.Plan | None) -> bool:
    """Whether a scalar needs no samples."""
    if plan is None:
        return True
    return all(
        isinstance(node, pn.Number | pn.Time | pn.ScalarBinary | pn.ScalarExtreme | pn.Negate | pn.Text)
        for node in pn.walk(plan)
    )


def _start(plan: pn.Plan) -> int:
    """Where the leftmost written part of a plan begins."""
    starts = [start for start, end in places(plan, 0) if end > start]
    return min(starts, default=0)

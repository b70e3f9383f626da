"""Evaluating a leaf over the samples of one shard."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from quarterdeck.metrics.promql.blocks import Grid, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.exec.aggregates import CombinedNode, PartialBlock
from quarterdeck.metrics.promql.exec.build import Builder
from quarterdeck.metrics.promql.exec.node import Context, vector
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge
from quarterdeck.metrics.promql.source import Source

LeafValues: TypeAlias = VectorBlock | PartialBlock | SeriesBlock


@dataclass(frozen=True, eq=False)
class LeafBlock:
    """What a shard answers for a stretch of a leaf's steps."""

    grid: Grid
    values: LeafValues


def evaluate_leaf(leaf: BaseExpr, source: Source, context: Context, block_cells: int) -> Iterator[LeafBlock]:
    """The answer of one shard, in blocks of steps by rising time, of about `block_cells` values each."""
    builder = Builder(context, source)
    if leaf.merge is Merge.SAMPLES:
        samples, _ = builder.windows(leaf.plan, leaf.grid).eval(leaf.grid)
        yield LeafBlock(leaf.grid, samples)
        return
    node = builder.node(leaf.plan, leaf.grid)
    series = max((len(selector.samples.axis) for selector in builder.selectors), default=1)
    block_steps = max(1, block_cells // max(1, series))
    for low in range(0, leaf.grid.count, block_steps):
        grid = leaf.grid.cut(low, min(low + block_steps, leaf.grid.count))
        if leaf.merge is Merge.COMBINE and isinstance(node, CombinedNode):
            yield LeafBlock(grid, node.partial(grid))
        else:
            yield LeafBlock(grid, vector(node, grid))


def aggregate_of(leaf: BaseExpr) -> pn.Aggregate:
    """The aggregation on top of a leaf whose partials are combined."""
    if not isinstance(leaf.plan, pn.Aggregate):
        raise TypeError("only an aggregation has partial results")
    return leaf.plan

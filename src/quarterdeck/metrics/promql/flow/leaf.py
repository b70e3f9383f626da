"""Evaluating a leaf over the samples of one shard."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from quarterdeck.metrics.promql.blocks import Grid, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.defects import named_defects
from quarterdeck.metrics.promql.exec.aggregates import PartialBlock
from quarterdeck.metrics.promql.exec.build import Builder
from quarterdeck.metrics.promql.exec.node import Context, vector
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.explain import title
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge
from quarterdeck.metrics.promql.source import Source

_FAR: Final = 20
"""A stretch by itself costs about as much as this part of the values that are evaluated at once."""

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
        with named_defects(lambda: title(leaf.plan)):
            samples, _ = builder.windows(leaf.plan, leaf.grid).eval(leaf.grid)
        # Whatever looks at start timestamps is evaluated here below, and no answer shows them.
        yield LeafBlock(leaf.grid, samples if samples.starts is None else replace(samples, starts=None))
        return
    evaluate: Callable[[Grid], LeafValues]
    if leaf.merge is Merge.COMBINE:
        evaluate = builder.combined(aggregate_of(leaf), leaf.grid).partial
    else:
        evaluate = partial(vector, builder.node(leaf.plan, leaf.grid))
    block_steps = min(
        (
            steps_at_once(selector.grid, leaf.grid, block_cells // max(1, len(selector.samples.axis)))
            for selector in builder.selectors
        ),
        default=leaf.grid.count,
    )
    for low in range(0, leaf.grid.count, max(1, block_steps)):
        grid = leaf.grid.cut(low, min(low + block_steps, leaf.grid.count))
        with named_defects(lambda: title(leaf.plan)), context.memory.frame():
            values = evaluate(grid)
        yield LeafBlock(grid, values)


def steps_at_once(inner: Grid, outer: Grid, fitting: int) -> int:
    """How many of the outer steps to evaluate together so that about `fitting` of the inner ones are, at least one.

    The inner steps are those of a subquery, or the outer ones themselves. A window of them is kept from one stretch
    to the next: a stretch is at least as long as the window, or copying it would be most of the work. Windows that lie
    far apart come one by one, so that nothing is evaluated in between.

    >>> steps_at_once(Grid(0, 1000, 3660), Grid(60_000, 60_000, 61), 120)
    2
    >>> steps_at_once(Grid(-3_600_000, 1000, 7200), Grid(0, 60_000, 61), 120)
    60
    >>> steps_at_once(Grid(0, 1000, 86_400 * 60 + 60), Grid(60_000, 86_400_000, 61), 120)
    1
    """
    forward = (outer.end_ms - outer.start_ms) // inner.step_ms
    window = max(1, inner.count - forward)
    if _FAR * (outer.step_ms // inner.step_ms - window) > fitting:
        return 1
    return max(1, max(fitting, window) * inner.step_ms // outer.step_ms)


def aggregate_of(leaf: BaseExpr) -> pn.Aggregate:
    """The aggregation on top of a leaf whose partials are combined."""
    if not isinstance(leaf.plan, pn.Aggregate):
        raise TypeError("only an aggregation has partial results")
    return leaf.plan

"""`EvalFlow`: the leaves of a query in step with each other.

All leaves are read for the same stretch of steps, then the rest of the plan is evaluated over it, so that `A / B`
divides values of equal times; then comes the next stretch. A long range streams out as it is computed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from quarterdeck.metrics.promql.blocks import Block, Grid, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.exec.build import Builder
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.flow.leaf import LeafBlock
from quarterdeck.metrics.promql.flow.merge import MergeSorted, ShardReader
from quarterdeck.metrics.promql.kernels.threads import Stopped
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.leaves import Merge
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan


@dataclass(frozen=True, slots=True)
class LeafStream:
    """What comes in for one leaf: a stream of blocks from each shard, and what the shards have to say."""

    shards: Sequence[Iterator[LeafBlock]]
    notes: Notes


class EvalFlow:
    """The evaluation of one query over the streams of its leaves."""

    def __init__(self, query: QueryPlan, streams: Sequence[LeafStream], context: Context, block_cells: int) -> None:
        self._query = query
        self._context = context
        self._block_cells = block_cells
        self._streams = streams
        self._merges = tuple(
            MergeSorted(leaf, [ShardReader(shard) for shard in stream.shards], replace(context, notes=stream.notes))
            for leaf, stream in zip(query.leaves, streams, strict=True)
        )
        self._occurrences: list[pn.LeafRef] = []

    def samples(self) -> SeriesBlock:
        """The answer to an instant query whose plan is a range: samples."""
        plan = self._query.plan
        block, _ = self._builder().windows(plan, self._query.grid).eval(self._query.grid)
        return block

    def __iter__(self) -> Iterator[tuple[Grid, Block]]:
        """The answer in blocks of steps by rising time."""
        grid = self._query.grid
        node = self._builder().node(self._query.plan, grid)
        steps = self._steps_at_once()
        for low in range(0, grid.count, steps):
            if self._context.should_stop():
                raise Stopped
            piece = grid.cut(low, min(low + steps, grid.count))
            yield piece, node.eval(piece)

    def notes(self) -> Notes:
        """What is to be known about the answer, when it is there: first of the leaves, then of what is above them."""
        found = Notes()
        for occurrence in self._occurrences:
            shift = occurrence.start - self._query.leaves[occurrence.index].start
            found.add(self._streams[occurrence.index].notes, shift)
        found.add(self._context.notes)
        return found

    def _builder(self) -> Builder:
        return Builder(self._context, leaf=self._leaf, leaf_samples=self._leaf_samples)

    def _leaf(self, occurrence: pn.LeafRef) -> Callable[[Grid], VectorBlock]:
        self._occurrences.append(occurrence)
        return self._merges[occurrence.index].take

    def _leaf_samples(self, occurrence: pn.LeafRef) -> Callable[[], SeriesBlock]:
        self._occurrences.append(occurrence)
        return self._merges[occurrence.index].samples

    def _steps_at_once(self) -> int:
        """As many as the leaves that are read at this pace come in."""
        incoming = [
            shard.first_steps()
            for merge in self._merges
            if merge.leaf.scope == 0 and merge.leaf.merge is not Merge.SAMPLES
            for shard in merge.shards
        ]
        return max(1, min(incoming, default=min(self._query.grid.count, self._block_cells)))

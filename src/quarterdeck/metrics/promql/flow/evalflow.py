"""`EvalFlow`: the leaves of a query in step with each other.

All leaves are read for the same stretch of steps, then the rest of the plan is evaluated over it, so that `A / B`
divides values of equal times; then comes the next stretch. A long range streams out as it is computed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import Axis, Block, Grid, ScalarBlock, SeriesBlock, StringBlock, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.build import Builder
from quarterdeck.metrics.promql.exec.node import SAME_LABELSET, Context
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.scalars import NO_LABELS
from quarterdeck.metrics.promql.exec.stretches import as_samples, join_stretches
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.flow.leaf import LeafBlock, steps_at_once
from quarterdeck.metrics.promql.flow.merge import MergeSorted, ShardReader
from quarterdeck.metrics.promql.labels import Labels
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
        self.query: Final = query
        self._context = context
        self._block_cells = block_cells
        self._streams = streams
        self._merges = tuple(
            MergeSorted(
                leaf,
                [ShardReader(shard, context.memory) for shard in stream.shards],
                replace(context, notes=stream.notes),
            )
            for leaf, stream in zip(query.leaves, streams, strict=True)
        )
        self._occurrences: list[pn.LeafRef] = []

    def samples(self) -> SeriesBlock:
        """The answer to an instant query whose plan is a range: samples."""
        plan = self.query.plan
        block, _ = self._builder().windows(plan, self.query.grid).eval(self.query.grid)
        self._context.memory.need(2 * block.size_bytes)  # in order, and without what is empty
        return _nonempty(block)

    def series(self) -> SeriesBlock:
        """The answer to a range query: series sorted by labels, each with its values in order of time."""
        context = self._context
        stretches = [as_samples(grid, block, context.memory) for grid, block in self.vectors()]
        whole = join_stretches(stretches, context.memory)
        context.memory.hold(whole.size_bytes - sum(stretch.size_bytes for stretch in stretches))
        stretches.clear()
        context.memory.need(whole.size_bytes)
        return _nonempty(whole)

    def vectors(self) -> Iterator[tuple[Grid, VectorBlock]]:
        """The answer to a range query as it is shown, in blocks of steps by rising time. A series is in a block once:
        those that are shown alike are one, and an error if they have values at the same time."""
        shown: Remembered[Axis] = Remembered()
        for grid, block in self:
            vector = _as_vector(block)
            axis = shown.of((vector.axis,), partial(Axis.of, vector.axis.shown))
            yield grid, unite(replace(vector, axis=axis), self._context)

    def __iter__(self) -> Iterator[tuple[Grid, Block]]:
        """The answer in blocks of steps by rising time."""
        grid = self.query.grid
        node = self._builder().node(self.query.plan, grid)
        steps = self._steps_at_once()
        for low in range(0, grid.count, steps):
            piece = grid.cut(low, min(low + steps, grid.count))
            with self._context.memory.frame():
                block = node.eval(piece)
            yield piece, block

    def notes(self) -> Notes:
        """What is to be known about the answer, when it is there: first of the leaves, then of what is above them."""
        found = Notes()
        for occurrence in self._occurrences:
            shift = occurrence.start - self.query.leaves[occurrence.index].start
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
        """As many as the leaves that are read at this pace come in, and as there is room for.

        Where a leaf is the same at all steps, or is read at the steps of a subquery, its series still come at every
        step once something is made of them.
        """
        grid = self.query.grid
        most = min(grid.count, self._block_cells)
        for merge in self._merges:
            if merge.leaf.merge is Merge.SAMPLES:
                most = min(most, self._block_cells // max(1, len(merge.samples().axis)))
                continue
            firsts = [shard.first() for shard in merge.shards if merge.leaf.grid.count]
            steps = min((first.grid.count for first in firsts), default=most)
            if merge.leaf.scope == 0:
                most = min(most, steps)
                continue
            series = sum(len(first.values.axis) for first in firsts)
            most = min(most, self._block_cells // max(1, series))
            if merge.leaf.grid.count > 1:
                most = min(most, steps_at_once(merge.leaf.grid, grid, steps))
        return max(1, most)


def _as_vector(block: Block) -> VectorBlock:
    match block:
        case ScalarBlock(values=values):
            return VectorBlock(NO_LABELS, values.reshape(1, -1), np.ones((1, len(values)), np.bool_))
        case StringBlock():
            raise TypeError("a range query answers with numbers")
        case VectorBlock():
            return block


def _nonempty(block: SeriesBlock) -> SeriesBlock:
    """Only the series that have samples, sorted by labels as they are shown; those that are shown alike are one."""
    shown = block.axis.shown
    there: list[int] = np.flatnonzero(np.diff(block.offsets)).tolist()
    there.sort(key=shown.__getitem__)
    if there != list(range(len(block.axis))):
        block = block.take(np.array(there, np.int64))
        shown = block.axis.shown
    rows: dict[Labels, int] = {}
    place = np.array([rows.setdefault(labels, len(rows)) for labels in shown], np.int64)
    if len(rows) == len(shown):
        return replace(block, axis=Axis.of(shown))
    series = np.repeat(place, np.diff(block.offsets))
    order = np.lexsort((block.timestamps, series))
    series, timestamps = series[order], block.timestamps[order]
    if ((np.diff(series) == 0) & (np.diff(timestamps) == 0)).any():
        raise ExecutionError(SAME_LABELSET)
    return SeriesBlock(
        Axis.of(tuple(rows)),
        np.searchsorted(series, np.arange(len(rows) + 1)),
        timestamps,
        block.values[order],
        None if block.histograms is None else block.histograms[order],
    )

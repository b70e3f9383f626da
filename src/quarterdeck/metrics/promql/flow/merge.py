"""`MergeSorted`: the answers of a leaf's shards as one, in the order of time.

Each shard sends its steps by rising time, cut into blocks as it likes. What comes out has the steps that were asked
for, from every shard, with all series sorted by their labels: it does not depend on how the samples were split.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from quarterdeck.metrics.promql.blocks import I64, Axis, Grid, Objects, SeriesBlock, VectorBlock, joined_histograms
from quarterdeck.metrics.promql.exec.aggregates import PartialBlock, combine, finish, with_same_groups
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.selections import add_same
from quarterdeck.metrics.promql.exec.stretches import one_axis
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.flow.leaf import LeafBlock, LeafValues, aggregate_of
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge


@dataclass
class ShardReader:
    """One shard's blocks, handed out in other cuts than they came in."""

    blocks: Iterator[LeafBlock]
    memory: Memory
    waiting: LeafBlock | None = None
    waiting_bytes: int = 0
    """What is held for the block that waits: all of it, as long as a part of it does."""

    def first(self) -> LeafBlock:
        """What waits to be handed out; this waits for it."""
        if self.waiting is None:
            self.waiting = next(self.blocks)
            self.waiting_bytes = self.waiting.values.size_bytes
            self.memory.hold(self.waiting_bytes)
        return self.waiting

    def take(self, grid: Grid) -> list[LeafValues]:
        """The pieces that together cover the steps of `grid`, lent; steps before it that nobody wants are skipped."""
        pieces: list[LeafValues] = []
        left = grid
        while left.count > 0:
            block = self.first()
            ahead = (left.start_ms - block.grid.start_ms) // left.step_ms
            if ahead < 0:
                raise ValueError(f"a shard answered for {block.grid.start_ms} where {left.start_ms} was next")
            if ahead:
                self._use(block, min(ahead, block.grid.count))
                continue
            steps = min(left.count, block.grid.count)
            piece = _cut(block.values, 0, steps) if steps < block.grid.count else block.values
            self._use(block, steps)
            self.memory.lend(piece.size_bytes)
            pieces.append(piece)
            left = left.cut(steps, left.count)
        return pieces

    def _use(self, block: LeafBlock, steps: int) -> None:
        """Let go of the first steps of the block that waits."""
        if steps < block.grid.count:
            rest = block.grid.cut(steps, block.grid.count)
            self.waiting = LeafBlock(rest, _cut(block.values, steps, block.grid.count))
        else:
            self.waiting = None
            self.memory.hold(-self.waiting_bytes)


def _cut(values: LeafValues, low: int, high: int) -> LeafValues:
    if isinstance(values, SeriesBlock):
        raise TypeError("stored samples are not cut by steps")
    return values.cut(low, high)


@dataclass
class MergeSorted:
    """The merged answer of a leaf. Several places of a query may ask for the same steps one after the other."""

    leaf: BaseExpr
    shards: Sequence[ShardReader]
    context: Context
    last: tuple[Grid, VectorBlock] | None = None
    stored: SeriesBlock | None = None
    known: Remembered[tuple[I64, Axis]] = field(default_factory=Remembered[tuple[I64, Axis]])

    def take(self, grid: Grid) -> VectorBlock:
        """The values at some steps."""
        if self.last is not None and self.last[0] == grid:
            return self.last[1]
        memory = self.context.memory
        if self.last is not None:
            memory.hold(-self.last[1].size_bytes)
            self.last = None
        with memory.frame():
            pieces = [shard.take(grid) for shard in self.shards]
            memory.need(sum(piece.size_bytes for shard in pieces for piece in shard))
            # Shards may cut differently; a piece is what all of them have in one.
            block = self._merge([_glue(shard) for shard in pieces])
        memory.hold(block.size_bytes)
        self.last = (grid, block)
        return block

    def samples(self) -> SeriesBlock:
        """The stored samples of a leaf that is nothing but a range."""
        if self.stored is None:
            blocks = [next(shard.blocks).values for shard in self.shards]
            if len(blocks) > 1:
                # All of them side by side, and then in order; what the shards have read is on the account.
                self.context.memory.need(2 * sum(block.size_bytes for block in blocks))
            self.stored = join_samples([block for block in blocks if isinstance(block, SeriesBlock)], self.context)
        return self.stored

    def _merge(self, shards: list[LeafValues]) -> VectorBlock:
        if self.leaf.merge is Merge.COMBINE:
            partials = [shard for shard in shards if isinstance(shard, PartialBlock)]
            return self._sorted([finish(aggregate_of(self.leaf), combine(partials), self.context)])
        vectors = [shard for shard in shards if isinstance(shard, VectorBlock)]
        merged = self._sorted(vectors)
        return (add_same if self.leaf.merge is Merge.ADD else unite)(merged, self.context)

    def _sorted(self, blocks: list[VectorBlock]) -> VectorBlock:
        """All rows of some blocks, by their labels."""
        axes = tuple(block.axis for block in blocks)
        order, axis = self.known.of(axes, lambda: _sort_axes(axes, self.context))
        if len(blocks) == 1 and axis is blocks[0].axis:
            return blocks[0]
        histograms = joined_histograms(blocks)
        return VectorBlock(
            axis,
            np.concatenate([block.values for block in blocks])[order],
            np.concatenate([block.present for block in blocks])[order],
            None if histograms is None else histograms[order],
        )


def _sort_axes(axes: Sequence[Axis], context: Context) -> tuple[I64, Axis]:
    labels = [one for axis in axes for one in axis.labels]
    context.check_stop()
    order = sorted(range(len(labels)), key=labels.__getitem__)
    context.check_stop()
    if len(axes) == 1 and order == list(range(len(labels))):
        return np.arange(len(labels)), axes[0]
    nameless = np.concatenate([axis.nameless for axis in axes])
    rows = np.array(order, np.int64)
    return rows, Axis(tuple(labels[row] for row in order), nameless[rows])


def _glue(pieces: list[LeafValues]) -> LeafValues:
    """Stretches of steps of one shard, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    vectors = [piece for piece in pieces if isinstance(piece, VectorBlock)]
    if len(vectors) == len(pieces):
        return glue_vectors(vectors)
    partials = [piece for piece in pieces if isinstance(piece, PartialBlock)]
    return glue_partials(partials)


def glue_vectors(blocks: Sequence[VectorBlock]) -> VectorBlock:
    """Stretches of steps, one after the other; series with the same labels are one."""
    axis, places = one_axis([block.axis for block in blocks])
    steps = sum(block.values.shape[1] for block in blocks)
    values = np.zeros((len(axis), steps))
    present = np.zeros((len(axis), steps), np.bool_)
    histograms: Objects = (
        np.full((len(axis), steps), None, object)
        if any(block.histograms is not None for block in blocks)
        else np.zeros(0, object)
    )
    column = 0
    for block, place in zip(blocks, places, strict=True):
        width = block.values.shape[1]
        values[place, column : column + width] = block.values
        present[place, column : column + width] = block.present
        if block.histograms is not None:
            histograms[place, column : column + width] = block.histograms
        column += width
    return VectorBlock(axis, values, present, histograms if histograms.size else None)


def glue_partials(partials: Sequence[PartialBlock]) -> PartialBlock:
    """Stretches of steps of partial aggregates, one after the other.

    A shard's groups are the same all the way, unless some stretch has no samples at all, as within subqueries whose
    range is shorter than their step.
    """
    partials = with_same_groups(partials)
    first = partials[0]
    joined = {
        name: np.concatenate([vars(partial.fields)[name] for partial in partials], axis=1)
        for name in vars(first.fields)
    }
    histograms: Objects | None = None
    if any(partial.histograms is not None for partial in partials):
        histograms = np.concatenate(
            [
                np.full(next(iter(vars(partial.fields).values())).shape, None, object)
                if partial.histograms is None
                else partial.histograms
                for partial in partials
            ],
            axis=1,
        )
    columns = zip_longest(*(partial.names for partial in partials), fillvalue="")
    names = tuple(min(filter(None, column), default="") for column in columns)
    return PartialBlock(first.axis, type(first.fields)(**joined), histograms, names)


def join_samples(blocks: Sequence[SeriesBlock], context: Context) -> SeriesBlock:
    """The samples of several shards, series sorted by labels."""
    if len(blocks) == 1:
        return blocks[0]
    shifts = np.cumsum([0, *(len(block.values) for block in blocks)])
    whole = SeriesBlock(
        Axis(
            tuple(labels for block in blocks for labels in block.axis.labels),
            np.concatenate([block.axis.nameless for block in blocks]),
        ),
        np.concatenate([*(b.offsets[:-1] + shift for b, shift in zip(blocks, shifts, strict=False)), shifts[-1:]]),
        np.concatenate([block.timestamps for block in blocks]),
        np.concatenate([block.values for block in blocks]),
        joined_histograms(blocks),
    )
    order, _ = _sort_axes((whole.axis,), context)
    return whole.take(order)

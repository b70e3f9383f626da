"""Nodes that read samples: instant selectors, range selectors and subqueries.

A node knows from the beginning all the steps it will be asked for, so that it selects its samples once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from quarterdeck.metrics.promql.blocks import (
    F64,
    I64,
    Axis,
    Bool,
    Grid,
    Objects,
    SeriesBlock,
    VectorBlock,
    are_histograms,
    is_stale,
    joined_histograms,
)
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.known_resets import with_known_resets
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.kernels import windows
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.source import Source
from quarterdeck.metrics.promql.syntax.ast import Extension


@dataclass
class SelectNode:
    """The newest sample of each series, not older than the lookback."""

    plan: pn.Select
    grid: Grid
    source: Source
    context: Context

    @cached_property
    def samples(self) -> SeriesBlock:
        """All samples that any step may look at."""
        looked_at = self.plan.timing.resolve(self.grid)
        first_ms = looked_at.start_ms - self.context.lookback_ms + 1
        block = self.source.select(self.plan.matchers, first_ms, looked_at.end_ms)
        if self.plan.finds_resets and block.histograms is not None:
            block = with_known_resets(block, block.histograms)
        self.context.memory.hold(block.size_bytes)
        return block

    def eval(self, grid: Grid) -> VectorBlock:
        block = self.samples
        self.context.memory.need(len(block.axis) * grid.count * 17)
        looked_at = self.plan.timing.resolve(grid)
        values, present, index = windows.instant(block, looked_at, self.context.lookback_ms, self.context.threads)
        if self.plan.as_timestamp:
            times = np.append(block.timestamps, 0)[index] / 1000
            histograms = gather(block.histograms, np.where(present, index, -1)) if self.plan.keeps_histograms else None
            return VectorBlock(block.axis.without_names, times, present, histograms)
        return VectorBlock(block.axis, values, present, gather(block.histograms, np.where(present, index, -1)))


def gather(histograms: Objects | None, index: I64) -> Objects | None:
    """The histograms at some places; None when all of these are floats. An index of -1 is no place."""
    if histograms is None:
        return None
    nothing: Any = None
    found: Objects = np.append(histograms, nothing)[index]
    return found if are_histograms(found).any() else None


def samples_between(plan: pn.Select | pn.SelectRange, source: Source, first_ms: int, last_ms: int) -> SeriesBlock:
    """The samples from one time to another, both included, without staleness markers."""
    block = source.select(plan.matchers, first_ms, last_ms)
    stale = is_stale(block.values)
    if block.histograms is not None:
        stale &= ~are_histograms(block.histograms)
    if stale.any():
        block = block.filter(~stale)
    if plan.finds_resets and block.histograms is not None:
        block = with_known_resets(block, block.histograms)
    return block


@dataclass
class SelectRangeNode:
    """All samples within a range before each step."""

    plan: pn.SelectRange
    grid: Grid
    source: Source
    context: Context

    @property
    def range_ms(self) -> int:
        return self.plan.range_ms

    @cached_property
    def samples(self) -> SeriesBlock:
        """All samples that any window contains, and those around it that it is told of."""
        looked_at = self.plan.timing.resolve(self.grid)
        before_ms = self.context.lookback_ms if self.plan.extension else 0
        after_ms = self.context.lookback_ms if self.plan.extension is Extension.SMOOTHED else 0
        first_ms = looked_at.start_ms - self.range_ms - before_ms + 1
        block = samples_between(self.plan, self.source, first_ms, looked_at.end_ms + after_ms)
        self.context.memory.hold(block.size_bytes)
        return block

    def eval(self, grid: Grid) -> tuple[SeriesBlock, Grid]:
        return self.samples, self.plan.timing.resolve(grid)


@dataclass
class SubqueryNode:
    """The values of another node at steps of its own. Each inner step is evaluated once; what no later window needs
    is forgotten."""

    plan: pn.SubqueryRange
    inner: ExecNode
    inner_grid: Grid
    context: Context
    done: int = 0
    """How many inner steps have been evaluated."""
    kept: list[tuple[Grid, VectorBlock]] = field(default_factory=list[tuple[Grid, VectorBlock]])

    @property
    def range_ms(self) -> int:
        return self.plan.range_ms

    def eval(self, grid: Grid) -> tuple[SeriesBlock, Grid]:
        needed = self.plan.inner_grid(grid)
        step_ms = self.inner_grid.step_ms
        high = (needed.start_ms - self.inner_grid.start_ms) // step_ms + needed.count
        while self.done < high:
            steps = self._steps_at_once(high - self.done)
            piece = self.inner_grid.cut(self.done, self.done + steps)
            block = vector(self.inner, piece)
            self.context.memory.hold(block.size_bytes)
            self.kept.append((piece, block))
            self.done += steps
        for piece, block in tuple(self.kept):
            if piece.end_ms < needed.start_ms:
                self.context.memory.hold(-block.size_bytes)
                self.kept.remove((piece, block))
        block = as_series([piece for piece in self.kept if piece[0].start_ms <= needed.end_ms])
        self.context.memory.need(block.size_bytes)
        return block, self.plan.timing.resolve(grid)

    def _steps_at_once(self, steps: int) -> int:
        """A piece as large as memory for a single series allows: what cannot fit is refused before it is tried."""
        self.context.memory.need(9 * steps)
        return steps


def as_series(pieces: list[tuple[Grid, VectorBlock]]) -> SeriesBlock:
    """The values of some stretches of steps, one after the other, as samples of series."""
    if not pieces:
        return SeriesBlock.empty()
    axes = {id(block.axis): block.axis for _, block in pieces}
    times = np.concatenate([grid.times() for grid, _ in pieces])
    if len(axes) == 1:
        axis = pieces[0][1].axis
        values = np.concatenate([block.values for _, block in pieces], axis=1)
        present = np.concatenate([block.present for _, block in pieces], axis=1)
        histograms = joined_histograms([block for _, block in pieces], axis=1)
    else:
        axis, values, present, histograms = _on_one_axis(pieces)
    counts = present.sum(axis=1)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
    _, columns = np.nonzero(present)
    kept = None if histograms is None else _unhinted(histograms[present])
    if kept is not None and not are_histograms(kept).any():
        kept = None
    return SeriesBlock(axis, offsets, times[columns], values[present], kept)


def _unhinted(histograms: Objects) -> Objects:
    """Histograms that do not follow each other as they were stored: what they say of the one before is not true."""
    found: Objects = np.full(histograms.shape, None, object)
    for index in np.flatnonzero(are_histograms(histograms)).tolist():
        histogram: NativeHistogram = histograms[index]
        found[index] = histogram if histogram.hint is ResetHint.GAUGE else histogram.with_hint(ResetHint.UNKNOWN)
    return found


def _on_one_axis(
    pieces: list[tuple[Grid, VectorBlock]],
) -> tuple[Axis, F64, Bool, Objects | None]:
    """Stretches whose series differ: those with the same labels are one."""
    rows: dict[tuple[Labels, bool], int] = {}
    places: list[I64] = []
    for _, block in pieces:
        keys = zip(block.axis.labels, block.axis.nameless.tolist(), strict=True)
        places.append(np.array([rows.setdefault(key, len(rows)) for key in keys], np.int64))
    steps = sum(grid.count for grid, _ in pieces)
    values = np.zeros((len(rows), steps))
    present = np.zeros((len(rows), steps), np.bool_)
    nothing: Any = None
    histograms: Objects = np.full((len(rows), steps), nothing, object)
    column = 0
    for (grid, block), place in zip(pieces, places, strict=True):
        if len(set(place.tolist())) < len(place):
            raise ExecutionError("vector cannot contain metrics with the same labelset")
        values[place, column : column + grid.count] = block.values
        present[place, column : column + grid.count] = block.present
        if block.histograms is not None:
            histograms[place, column : column + grid.count] = block.histograms
        column += grid.count
    axis = Axis(tuple(labels for labels, _ in rows), np.array([gone for _, gone in rows], np.bool_))
    return axis, values, present, histograms if are_histograms(histograms).any() else None


@dataclass
class LeafRangeNode:
    """The stored samples of a leaf, as windows."""

    plan: pn.LeafRange
    load: Callable[[], SeriesBlock]

    @property
    def range_ms(self) -> int:
        return self.plan.range_ms

    @cached_property
    def samples(self) -> SeriesBlock:
        """What all shards have sent."""
        return self.load()

    def eval(self, grid: Grid) -> tuple[SeriesBlock, Grid]:
        return self.samples, self.plan.timing.resolve(grid)


@dataclass(frozen=True, slots=True)
class LeafNode:
    """The answer of a leaf, as its shards' answers come in."""

    take: Callable[[Grid], VectorBlock]

    def eval(self, grid: Grid) -> VectorBlock:
        return self.take(grid)

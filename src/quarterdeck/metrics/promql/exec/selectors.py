"""Nodes that read samples: instant selectors, range selectors and subqueries.

A node knows from the beginning all the steps it will be asked for, so that it selects its samples once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from quarterdeck.metrics.promql.blocks import (
    I64,
    Grid,
    Objects,
    SeriesBlock,
    VectorBlock,
    are_histograms,
    is_stale,
)
from quarterdeck.metrics.promql.exec.known_resets import with_known_resets
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.exec.stretches import as_samples, join_stretches
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.kernels import windows
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.source import Source
from quarterdeck.metrics.promql.syntax.ast import Extension

_FIRST_STEPS: Final = 1 << 16
_CELLS: Final = 1 << 20
"""A subquery evaluates so many steps first, and then so many values at once: between pieces a query can be stopped."""


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
        block = self.source.select(self.plan.matchers, first_ms, looked_at.end_ms, self.context.need)
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
        if self.plan.as_start:
            starts = np.zeros(index.shape) if block.starts is None else np.append(block.starts, 0)[index] / 1000
            return VectorBlock(block.axis.without_names, starts, present)
        return VectorBlock(block.axis, values, present, gather(block.histograms, np.where(present, index, -1)))


def gather(histograms: Objects | None, index: I64) -> Objects | None:
    """The histograms at some places; None when all of these are floats. An index of -1 is no place."""
    if histograms is None:
        return None
    nothing: Any = None
    found: Objects = np.append(histograms, nothing)[index]
    return found if are_histograms(found).any() else None


def samples_between(
    plan: pn.Select | pn.SelectRange, source: Source, first_ms: int, last_ms: int, context: Context
) -> SeriesBlock:
    """The samples from one time to another, both included, without staleness markers. They are held."""
    block = source.select(plan.matchers, first_ms, last_ms, context.need)
    stale = is_stale(block.values)
    if block.histograms is not None:
        stale &= ~are_histograms(block.histograms)
    if stale.any():
        context.need(3 * block.size_bytes)
        block = block.filter(~stale)
    if plan.finds_resets and block.histograms is not None:
        block = with_known_resets(block, block.histograms)
    context.memory.hold(block.size_bytes)
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
        return samples_between(self.plan, self.source, first_ms, looked_at.end_ms + after_ms, self.context)

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
    """Which inner step is the next: those before it have been evaluated, or nobody needs them."""
    kept: list[tuple[Grid, SeriesBlock]] = field(default_factory=list[tuple[Grid, SeriesBlock]])

    @property
    def range_ms(self) -> int:
        return self.plan.range_ms

    def eval(self, grid: Grid) -> tuple[SeriesBlock, Grid]:
        memory = self.context.memory
        needed = self.plan.inner_grid(grid)
        while self.kept and self.kept[0][0].end_ms < needed.start_ms:
            memory.hold(-self.kept.pop(0)[1].size_bytes)
        low = (needed.start_ms - self.inner_grid.start_ms) // self.inner_grid.step_ms
        high = low + needed.count
        self.done = max(self.done, low)  # what lies between two windows is no part of any
        memory.need(9 * (high - self.done))  # for a single series: what cannot fit is refused before it is tried
        steps = _FIRST_STEPS
        while self.done < high:
            piece = self.inner_grid.cut(self.done, min(self.done + steps, high))
            with memory.frame():
                block = vector(self.inner, piece)
                self.kept.append((piece, as_samples(piece, block, memory)))
            self.done += piece.count
            steps = max(1, _CELLS // max(1, len(block.axis)))
        samples = join_stretches([samples for piece, samples in self.kept if piece.start_ms <= needed.end_ms], memory)
        if len(self.kept) > 1:
            memory.lend(samples.size_bytes)
        if samples.histograms is not None:
            samples = replace(samples, histograms=_unhinted(samples.histograms))
        return samples, self.plan.timing.resolve(grid)


def _unhinted(histograms: Objects) -> Objects:
    """Histograms that do not follow each other as they were stored: what they say of the one before is not true."""
    found: Objects = np.full(histograms.shape, None, object)
    for index in np.flatnonzero(are_histograms(histograms)).tolist():
        histogram: NativeHistogram = histograms[index]
        found[index] = histogram if histogram.hint is ResetHint.GAUGE else histogram.with_hint(ResetHint.UNKNOWN)
    return found


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

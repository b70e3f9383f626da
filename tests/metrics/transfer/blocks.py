"""Random blocks of every kind, from a seed: any bits in floats, any labels, histograms with anything in them."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.promql.blocks import STALE_BITS, Axis, Bool, Grid, Objects, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.exec.aggregates import WITH_HISTOGRAMS, PartialBlock
from quarterdeck.metrics.promql.flow.leaf import LeafBlock, LeafValues, aggregate_of
from quarterdeck.metrics.promql.histograms.bounds import CUSTOM
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.totals import HistogramTotal
from quarterdeck.metrics.promql.kernels import groups as kg
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.promql.syntax.ast import AggregateOp

QUERIES = (
    "up",
    'count_values("v", up)',
    "up[5m]",
    *(f"{op}(up)" for op in ("sum", "avg", "count", "group", "min", "max", "stddev", "stdvar")),
)
ODD = (0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308)
TEXTS = ("", "a", "b c", '"\\', "ä\n", "\x00", "\U0001f600", "\udcff", "\udc80\U0001f600\udc80", "{}", "null")
PARTIALS: dict[AggregateOp, Any] = {
    AggregateOp.SUM: kg.SumPartial,
    AggregateOp.AVG: kg.AvgPartial,
    AggregateOp.COUNT: kg.CountPartial,
    AggregateOp.GROUP: kg.GroupPartial,
    AggregateOp.MIN: kg.MinPartial,
    AggregateOp.MAX: kg.MaxPartial,
    AggregateOp.STDDEV: kg.MomentsPartial,
    AggregateOp.STDVAR: kg.MomentsPartial,
}


def leaf(query: str, steps: int = 100) -> BaseExpr:
    """The one leaf of a query."""
    end_ms, step_ms = (0, 0) if query.endswith("]") else (1000 * (steps - 1), 1000)
    (found,) = plan_query(query, 0, end_ms, step_ms, 60_000).leaves
    return found


class Blocks:
    """Makes them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def series_of(self, leaf: BaseExpr, shapes: Sequence[tuple[int, int]]) -> list[LeafBlock]:
        """A leaf's blocks with so many series and steps; those with as many series as the one before may share its
        axis."""
        axis: Axis | None = None
        blocks: list[LeafBlock] = []
        start_ms = int(self.random.integers(-(2**40), 2**40))
        for count, steps in shapes:
            if axis is None or len(axis) != count or self.random.random() < 0.3:
                axis = self.axis(count)
            grid = Grid(start_ms, 1000, steps)
            blocks.append(LeafBlock(grid, self.values(leaf, axis, steps)))
            start_ms += 1000 * steps
        return blocks

    def values(self, leaf: BaseExpr, axis: Axis, steps: int) -> LeafValues:
        shape = (len(axis), steps)
        has_histograms = self.random.random() < 0.4
        if leaf.merge is Merge.SAMPLES:
            offsets = np.concatenate(([0], np.cumsum(self.random.integers(0, 4, len(axis)))))
            size = int(offsets[-1])
            histograms = self.histograms((size,)) if has_histograms else None
            times = self.random.integers(-(2**62), 2**62, size)
            return SeriesBlock(axis, offsets, times, self.floats((size,)), histograms)
        if leaf.merge is Merge.COMBINE:
            return self._partial(aggregate_of(leaf).op, axis, shape, has_histograms)
        present = self.flags(shape) | (self.random.random() < 0.5)
        histograms = self.histograms(shape) if has_histograms else None
        if histograms is not None:
            histograms[~present] = None
        return VectorBlock(axis, self.floats(shape), present, histograms)

    def _partial(self, op: AggregateOp, axis: Axis, shape: tuple[int, int], has_histograms: bool) -> PartialBlock:
        found = {
            field.name: self.flags(shape) if field.type == Bool else self.floats(shape)
            for field in fields(PARTIALS[op])
        }
        if not has_histograms or op not in WITH_HISTOGRAMS:
            return PartialBlock(axis, PARTIALS[op](**found))
        names = tuple(self.random.choice(TEXTS, len(axis)).tolist()) if self.random.random() < 0.7 else ()
        return PartialBlock(axis, PARTIALS[op](**found), self._objects(shape, self.total), names)

    def axis(self, count: int) -> Axis:
        return Axis(tuple(self.labels() for _ in range(count)), self.flags((count,)))

    def labels(self) -> Labels:
        names = set(self.random.choice(TEXTS[1:], int(self.random.integers(0, 4))).tolist())
        return tuple((name, str(self.random.choice(TEXTS[1:]))) for name in sorted(names))

    def floats(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Any bits, some of them often."""
        anything = self.random.integers(0, 2**64, shape, np.uint64)
        odd = np.concatenate((np.array(ODD).view(np.uint64), np.array([STALE_BITS], np.uint64)))
        return np.where(self.flags(shape), anything, self.random.choice(odd, shape)).view(np.float64)

    def flags(self, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        return self.random.random(shape) < 0.5

    def histograms(self, shape: tuple[int, ...]) -> Objects:
        """Some histograms, and None."""
        return self._objects(shape, self.histogram)

    def _objects(self, shape: tuple[int, ...], make: Any) -> Objects:
        found: Objects = np.full(shape, None, object)
        for place in np.ndindex(*shape):
            if self.random.random() < 0.6:
                found[place] = make()
        return found

    def histogram(self) -> NativeHistogram:
        one, two, three, four, *bounds = self.floats((4 + int(self.random.integers(0, 3)),)).tolist()
        schema = CUSTOM if bounds else int(self.random.integers(-4, 9))
        sides = (self._buckets(), self._buckets())
        hint = ResetHint(str(self.random.choice(list(ResetHint))))
        return NativeHistogram(schema, one, two, three, four, *sides, tuple(bounds), hint)

    def _buckets(self) -> tuple[tuple[int, float], ...]:
        indexes = sorted(set(self.random.integers(-(2**31), 2**31, int(self.random.integers(0, 4))).tolist()))
        return tuple(zip(indexes, self.floats((len(indexes),)).tolist(), strict=True))

    def total(self) -> HistogramTotal:
        lost = self.histogram() if self.random.random() < 0.5 else None
        members, exponent = int(self.random.integers(1, 2**40)), 64 * int(self.random.integers(0, 3))
        return HistogramTotal(members, self.histogram(), lost, exponent, *self.flags((4,)).tolist())

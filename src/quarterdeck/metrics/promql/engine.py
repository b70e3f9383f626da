"""`Engine`: asks a query of samples and gives the answer, all in this process.

The same parts run where leaves are evaluated by workers: `plan_query`, `evaluate_leaf` for each shard, `EvalFlow` over
what comes back.
"""

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql.blocks import Axis, Block, Grid, ScalarBlock, SeriesBlock, StringBlock, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded
from quarterdeck.metrics.promql.exec.node import SAME_LABELSET, Context, never
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.flow.evalflow import EvalFlow, LeafStream
from quarterdeck.metrics.promql.flow.leaf import evaluate_leaf
from quarterdeck.metrics.promql.flow.merge import glue_vectors
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.limits import Limits, Memory
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan, plan_query
from quarterdeck.metrics.promql.result import Result, Scalar, String, Value, Vector
from quarterdeck.metrics.promql.source import Source
from quarterdeck.metrics.promql.syntax.types import ValueType


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How queries are evaluated."""

    lookback_ms: int = 300_000
    """How old the newest sample of a series may be. Longer bridges gaps, and shows series that have ended."""
    default_subquery_step_ms: int = 60_000
    """The step of a subquery that names none."""
    limits: Limits = field(default_factory=Limits)


class Engine:
    """Evaluates queries on a few threads. Close it when done."""

    def __init__(self, options: EngineOptions | None = None, threads: int | None = None) -> None:
        self.options = options or EngineOptions()
        self._threads = Threads(threads or os.cpu_count() or 1)

    def close(self) -> None:
        """End the threads."""
        self._threads.close()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def instant(
        self, sources: Sequence[Source], text: str, time_ms: int, should_stop: Callable[[], bool] = never
    ) -> Result:
        """The answer at one time. Each source holds some of the series, whole.

        Raises `Stopped` soon after `should_stop` says so; it is asked often, from several threads.
        """
        flow, query = self._flow(sources, self.plan(text, time_ms, time_ms, 0), should_stop)
        if query.kind is ValueType.MATRIX:
            value: Value = _nonempty(flow.samples())
        else:
            ((_, block),) = list(flow)
            value = _instant_value(block, time_ms)
        return Result(value, *flow.notes().show(text))

    def range(
        self,
        sources: Sequence[Source],
        text: str,
        start_ms: int,
        end_ms: int,
        step_ms: int,
        should_stop: Callable[[], bool] = never,
    ) -> Result:
        """The answer at the steps from `start_ms` to `end_ms`."""
        flow, _ = self._flow(sources, self.plan(text, start_ms, end_ms, step_ms), should_stop)
        blocks = list(flow)
        return Result(_series(blocks), *flow.notes().show(text))

    def stream(
        self,
        sources: Sequence[Source],
        text: str,
        start_ms: int,
        end_ms: int,
        step_ms: int,
        should_stop: Callable[[], bool] = never,
    ) -> Generator[tuple[Grid, Block], None, None]:
        """The answer of a range query as it is computed, in blocks of steps by rising time."""
        flow, _ = self._flow(sources, self.plan(text, start_ms, end_ms, step_ms), should_stop)
        yield from flow

    def plan(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> QueryPlan:
        """How a query would be evaluated; a step of 0 makes it an instant query."""
        limits = self.options.limits
        if step_ms < 0 or (step_ms == 0 and end_ms != start_ms):
            raise ExecutionError(
                "zero or negative query resolution step widths are not accepted", "give a positive step"
            )
        if end_ms < start_ms:
            raise ExecutionError("end timestamp must not be before start time", "swap the two times")
        if step_ms and (end_ms - start_ms) // step_ms + 1 > limits.max_points:
            raise LimitExceeded(
                f"exceeded maximum resolution of {limits.max_points:,} points per timeseries",
                "make the step longer or the range shorter",
            )
        return plan_query(text, start_ms, end_ms, step_ms, self.options.default_subquery_step_ms)

    def _flow(
        self, sources: Sequence[Source], query: QueryPlan, should_stop: Callable[[], bool]
    ) -> tuple[EvalFlow, QueryPlan]:
        limits = self.options.limits
        memory = Memory(limits.memory_bytes)

        def context(notes: Notes) -> Context:
            return Context(
                self._threads.until(should_stop), memory, notes, self.options.lookback_ms, query.instant, should_stop
            )

        streams: list[LeafStream] = []
        for leaf in query.leaves:
            notes = Notes()
            shards = [evaluate_leaf(leaf, source, context(notes), limits.block_cells) for source in sources]
            streams.append(LeafStream(shards, notes))
        return EvalFlow(query, streams, context(Notes()), limits.block_cells), query


def _instant_value(block: Block, time_ms: int) -> Value:
    match block:
        case ScalarBlock(values=values):
            return Scalar(time_ms, float(values[0]))
        case StringBlock(value=value):
            return String(time_ms, value)
        case VectorBlock():
            kept = block.take(np.flatnonzero(block.present[:, 0]))
            if len(set(kept.axis.shown)) < len(kept.axis):
                raise ExecutionError(SAME_LABELSET)
            histograms = None if kept.histograms is None else kept.histograms[:, 0]
            return Vector(time_ms, kept.axis.shown, kept.values[:, 0], histograms)


def _series(blocks: Sequence[tuple[Grid, Block]]) -> SeriesBlock:
    """The answer of a range query: series sorted by labels, each with its values in order of time."""
    vectors = [_as_vector(block) for _, block in blocks]
    whole = vectors[0] if len(vectors) == 1 else glue_vectors(vectors)
    block = unite(VectorBlock(Axis.of(whole.axis.shown), whole.values, whole.present, whole.histograms))
    labels = block.axis.labels
    there: list[int] = np.flatnonzero(block.present.any(axis=1)).tolist()
    there.sort(key=labels.__getitem__)
    block = block.take(np.array(there, np.int64))
    times = np.concatenate([grid.times() for grid, _ in blocks])
    counts = np.count_nonzero(block.present, axis=1)
    return SeriesBlock(
        block.axis,
        np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64))),
        np.broadcast_to(times, block.present.shape)[block.present],
        block.values[block.present],
        None if block.histograms is None else block.histograms[block.present],
    )


def _as_vector(block: Block) -> VectorBlock:
    match block:
        case ScalarBlock(values=values):
            return VectorBlock(Axis.of(((),)), values.reshape(1, -1), np.ones((1, len(values)), np.bool_))
        case StringBlock():
            raise TypeError("a range query answers with numbers")
        case VectorBlock():
            return block


def _nonempty(block: SeriesBlock) -> SeriesBlock:
    """Only the series that have samples, sorted by labels as they are shown; those that are shown alike are one."""
    shown = block.axis.shown
    there: list[int] = np.flatnonzero(np.diff(block.offsets)).tolist()
    there.sort(key=shown.__getitem__)
    kept = block.take(np.array(there, np.int64))
    rows: dict[Labels, int] = {}
    place = np.array([rows.setdefault(labels, len(rows)) for labels in kept.axis.shown], np.int64)
    series = np.repeat(place, np.diff(kept.offsets))
    order = np.lexsort((kept.timestamps, series))
    series, timestamps = series[order], kept.timestamps[order]
    if ((np.diff(series) == 0) & (np.diff(timestamps) == 0)).any():
        raise ExecutionError(SAME_LABELSET)
    return SeriesBlock(
        Axis.of(tuple(rows)),
        np.searchsorted(series, np.arange(len(rows) + 1)),
        timestamps,
        kept.values[order],
        None if kept.histograms is None else kept.histograms[order],
    )

"""`Engine`: asks a query of samples and gives the answer, all in this process.

The same parts run where leaves are evaluated by workers: `plan_query`, `evaluate_leaf` for each shard, `EvalFlow` over
what comes back.
"""

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql.blocks import Block, Grid, ScalarBlock, StringBlock, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.node import SAME_LABELSET, Context, never
from quarterdeck.metrics.promql.flow.evalflow import EvalFlow, LeafStream
from quarterdeck.metrics.promql.flow.leaf import evaluate_leaf
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.limits import Limits, Memory
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.leaves import BaseExpr
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan, plan_query
from quarterdeck.metrics.promql.plan.rules.check_times import check_range
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
        """End the threads. A query that still runs ends with `Stopped`, and so does one that comes later."""
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
        flow = self._flow(sources, self.plan(text, time_ms, time_ms, 0), should_stop)
        if flow.query.kind is ValueType.MATRIX:
            value: Value = flow.samples()
        else:
            ((_, block),) = list(flow)
            value = value_at(block, time_ms)
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
        flow = self._flow(sources, self.plan(text, start_ms, end_ms, step_ms), should_stop)
        return Result(flow.series(), *flow.notes().show(text))

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
        flow = self._flow(sources, self.plan(text, start_ms, end_ms, step_ms), should_stop)
        yield from flow

    def plan(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> QueryPlan:
        """How a query would be evaluated; a step of 0 makes it an instant query."""
        check_range(start_ms, end_ms, step_ms, self.options.limits.max_points)
        return plan_query(text, start_ms, end_ms, step_ms, self.options.default_subquery_step_ms)

    def _flow(self, sources: Sequence[Source], query: QueryPlan, should_stop: Callable[[], bool]) -> EvalFlow:
        limits = self.options.limits
        memory = Memory(limits.memory_bytes)
        block_cells = limits.block_cells_of(len(query.leaves) * len(sources))

        def context(notes: Notes) -> Context:
            return Context(
                self._threads.until(should_stop), memory, notes, self.options.lookback_ms, query.instant, should_stop
            )

        streams = [self._stream(leaf, sources, context, block_cells) for leaf in query.leaves]
        return EvalFlow(query, streams, context(Notes()), block_cells)

    def _stream(
        self, leaf: BaseExpr, sources: Sequence[Source], context: Callable[[Notes], Context], block_cells: int
    ) -> LeafStream:
        """The answers of all shards to a leaf."""
        notes = Notes()
        return LeafStream([evaluate_leaf(leaf, source, context(notes), block_cells) for source in sources], notes)


def value_at(block: Block, time_ms: int) -> Value:
    """The answer to an instant query, made of its only block."""
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

"""One query on the coordinator: what was asked, its works, and its answer once they are done."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from quarterdeck.core.ids import QueryId
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.core.workcoord.model import WorkKey
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.observers.timelines import Timeline
from quarterdeck.crew.time_limit import time_limit
from quarterdeck.metrics.planning import Division, ShardWork
from quarterdeck.metrics.promql.blocks import Grid, VectorBlock
from quarterdeck.metrics.promql.defects import named_defects
from quarterdeck.metrics.promql.engine import value_at
from quarterdeck.metrics.promql.errors import DefectError, LimitExceeded
from quarterdeck.metrics.promql.flow.evalflow import EvalFlow
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan
from quarterdeck.metrics.promql.result import Result, Value
from quarterdeck.metrics.promql.syntax.types import ValueType
from quarterdeck.metrics.transfer.leaf_blocks import LeafReader
from quarterdeck.metrics.universe import Universe
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What somebody asks for. A step of 0 makes it an instant query, whose two times are the same."""

    text: str
    start_ms: int
    end_ms: int
    step_ms: int
    tenant: str = DEFAULT_TENANT
    """Whose samples are asked for."""
    lookback_ms: int | None = None
    partial_allowed: bool = False
    analyzed: bool = False
    """Whether it is to be told how the answer came about."""


@dataclass(slots=True)
class Phases:
    """How long what took, in seconds."""

    queued_s: float = 0.0
    planning_s: float = 0.0
    executing_s: float = 0.0
    """From the first work given out to the last result that is here."""
    evaluating_s: float = 0.0


@dataclass(slots=True)
class PlannedWork:
    """One work of one leaf, and what came of it."""

    leaf: int
    key: WorkKey
    shard_work: ShardWork
    artifact: FetchedArtifact | None = None
    artifact_bytes: int = 0
    report: Mapping[str, int | float | str] = field(default_factory=dict[str, int | float | str])


class RunningQuery:
    """A query whose works are done, or about to be. Made by `MetricsService.opened`."""

    def __init__(self, query_id: QueryId, request: QueryRequest, plan: QueryPlan, began_s: float) -> None:
        self.query_id: Final = query_id
        self.request: Final = request
        self.plan: Final = plan
        self.began_s: Final = began_s
        self.phases: Final = Phases()
        self.universe: Universe = Universe()
        self.divisions: tuple[Division, ...] = ()
        self.is_light = False
        """See `weight`."""
        self.works: list[PlannedWork] = []
        self.timeline: Timeline | None = None
        self.memory: Memory | None = None
        self.stopped: Final = threading.Event()
        self.ended: LimitExceeded | None = None
        """Why the process ended it, if that is so."""
        self._on_end: Callable[[], object] | None = None
        self._readers: list[tuple[PlannedWork, LeafReader, Notes]] = []
        self._flow: EvalFlow | None = None

    @property
    def unreadable(self) -> list[str]:
        """The segments that are missing from the answer, each with the reason; empty unless that was allowed."""
        texts = (str(work.report.get("unreadable", "")) for work in self.works)
        return sorted({line for text in texts for line in text.splitlines()})

    def prepare(self, flow: EvalFlow, readers: list[tuple[PlannedWork, LeafReader, Notes]], memory: Memory) -> None:
        """All results are here."""
        self._flow, self._readers, self.memory = flow, readers, memory

    def result(self) -> Result:
        """The whole answer. In a thread, once."""
        with self._logged_defects():
            return Result(self._value(), *self._notes())

    def blocks(self) -> Iterator[tuple[Grid, VectorBlock]]:
        """The answer of a range query as it is computed, by rising time. In a thread, once."""
        with self._logged_defects():
            yield from self.flow.vectors()

    def notes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Warnings and infos, when the answer has been read."""
        with self._logged_defects():
            return self._notes()

    @contextmanager
    def _logged_defects(self) -> Generator[None]:
        """A mistake of ours has a name, and its traceback is in the log."""
        try:
            with named_defects(lambda: "the evaluation of what the workers sent"):
                yield
        except DefectError:
            _log.exception("a query met a defect", query_id=self.query_id, query=self.request.text)
            raise

    def _value(self) -> Value:
        flow = self.flow
        if not self.plan.instant:
            return flow.series()
        if flow.query.kind is ValueType.MATRIX:
            return flow.samples()
        ((_, block),) = list(flow)
        return value_at(block, self.request.start_ms)

    def _notes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        for work, reader, notes in self._readers:
            reader.drain()
            notes.add(reader.notes)
            work.report = reader.report
        self._readers.clear()
        warnings, infos = self.flow.notes().show(self.request.text)
        missing = tuple(f"the answer is partial: {line}" for line in self.unreadable)
        return (*missing, *warnings), infos

    def end(self, error: LimitExceeded) -> None:
        """Stops it soon, with this error. From any thread."""
        self.ended = error
        self.stopped.set()
        on_end = self._on_end
        if on_end is not None:
            on_end()

    @asynccontextmanager
    async def until_ended(self) -> AsyncGenerator[None]:
        """The block ends when the query is to end, whatever it waits for: a work, or a client that does not read."""
        loop = asyncio.get_running_loop()

        def why() -> LimitExceeded:
            assert self.ended is not None, "nobody else moves the end"
            return self.ended

        async with time_limit(None, why) as limit:

            def wake() -> None:
                with suppress(RuntimeError):  # the block is over
                    limit.reschedule(loop.time())

            self._on_end = lambda: loop.call_soon_threadsafe(wake)
            try:
                yield
            finally:
                self._on_end = None

    def let_go(self) -> None:
        """Nobody asks any more: what a failure may still lead to, its tracebacks for one, is next to nothing."""
        self._flow, self._readers = None, []

    @property
    def flow(self) -> EvalFlow:
        assert self._flow is not None, "it is evaluated when all results are here"
        return self._flow

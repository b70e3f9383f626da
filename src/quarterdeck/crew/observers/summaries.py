"""What became of each query, for whoever asked and for people who look: how much was done, by whom, how often again.

It is an observer of the coordinator's machine. It remembers the queries that run, and the last ones that ended.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from quarterdeck.core.ids import QueryId, WorkerId
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.coordinator.tables import ReassignmentReason
from quarterdeck.core.workcoord.messages import AssignWork
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkError
from quarterdeck.crew.ports import Clock

KEPT: Final = 256
"""Queries that have ended and are still remembered."""


NO_FIGURES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "works": 0,
        "delivered": 0,
        "attempts": 0,
        "by_worker": {},
        "rows": 0,
        "artifact_bytes": 0,
        "first_result_s": None,
    }
)
"""Of a query for which nothing was given out."""


@dataclass(slots=True)
class QuerySummary:
    """One query, as far as it has got."""

    query_id: QueryId
    opened_at: float
    works: int = 0
    delivered: int = 0
    attempts: int = 0
    """Without those that were taken back before they had begun."""
    by_worker: Counter[WorkerId] = field(default_factory=Counter[WorkerId])
    """How many of its results came from whom."""
    rows: int = 0
    artifact_bytes: int = 0
    first_result_s: float | None = None
    ended_s: float | None = None
    outcome: ef.Outcome | None = None
    error: WorkError | None = None

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "query_id": self.query_id,
            "state": self.outcome or "running",
            "works": self.works,
            "delivered": self.delivered,
            "attempts": self.attempts,
            "by_worker": dict(self.by_worker),
            "rows": self.rows,
            "artifact_bytes": self.artifact_bytes,
            "first_result_s": self.first_result_s,
            "duration_s": self.ended_s,
            "error": None if self.error is None else {"code": self.error.code, "message": self.error.message},
        }


class Summaries:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[QueryId, QuerySummary] = {}
        self._ended: OrderedDict[QueryId, QuerySummary] = OrderedDict()
        self._artifacts: dict[AttemptId, tuple[WorkerId, Artifact]] = {}
        """Being fetched."""

    def find(self, query_id: QueryId) -> QuerySummary | None:
        return self._running.get(query_id) or self._ended.get(query_id)

    def stepped(self, event: ev.Event, effects: list[ef.Effect]) -> None:
        match event:
            case ev.QueryOpened(query_id):
                self._running[query_id] = QuerySummary(query_id, self._clock.now())
            case ev.WorkSubmitted(spec):
                summary = self._running.get(spec.key.query_id)
                if summary is not None and not any(isinstance(effect, ef.RefuseWork) for effect in effects):
                    summary.works += 1
            case ev.FetchFailed(attempt):
                self._artifacts.pop(attempt, None)
            case _:
                pass
        for effect in effects:
            self._done(effect)

    def _done(self, effect: ef.Effect) -> None:
        match effect:
            case ef.SendToWorker(_, AssignWork() as assignment):
                summary = self._running.get(assignment.spec.key.query_id)
                if summary is not None:
                    summary.attempts += 1
            case ef.ReportReassignment(attempt, ReassignmentReason.RECALLED):
                self._running[attempt.key.query_id].attempts -= 1
            case ef.FetchArtifact(attempt, worker_id, artifact):
                self._artifacts[attempt] = (worker_id, artifact)
            case ef.CancelFetch(attempt) | ef.DropResult(attempt):
                self._artifacts.pop(attempt, None)
            case ef.DeliverResult(attempt):
                worker_id, artifact = self._artifacts.pop(attempt)
                self._delivered(attempt, worker_id, artifact)
            case ef.DeliverEnd(attempt, worker_id):
                self._delivered(attempt, worker_id, None)
            case ef.EndQuery(query_id, outcome, error):
                self._end(query_id, outcome, error)
            case _:
                pass

    def _delivered(self, attempt: AttemptId, worker_id: WorkerId, artifact: Artifact | None) -> None:
        summary = self._running[attempt.key.query_id]
        summary.delivered += 1
        summary.by_worker[worker_id] += 1
        if artifact is not None:
            summary.rows += artifact.row_count
            summary.artifact_bytes += artifact.size_bytes
        if summary.first_result_s is None:
            summary.first_result_s = self._clock.now() - summary.opened_at

    def _end(self, query_id: QueryId, outcome: ef.Outcome, error: WorkError | None) -> None:
        summary = self._running.pop(query_id)
        summary.ended_s = self._clock.now() - summary.opened_at
        summary.outcome = outcome
        summary.error = error
        self._ended[query_id] = summary
        self._ended.move_to_end(query_id)
        if len(self._ended) > KEPT:
            self._ended.popitem(last=False)

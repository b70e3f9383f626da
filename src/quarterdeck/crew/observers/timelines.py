"""When what happened to each work of a query, for queries that somebody wants to look into.

It is an observer of the coordinator's machine, and remembers nothing of queries that it was not asked to follow.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from quarterdeck.core.ids import QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.workcoord import messages as msg
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.model import AttemptId
from quarterdeck.crew.ports import Clock


class AttemptOutcome(StrEnum):
    """How an attempt ended, or that it has not."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    RETURNED = "returned"
    REJECTED = "rejected"


@dataclass(slots=True)
class AttemptStory:
    """One try of one work; times are those of the clock."""

    worker_id: WorkerId
    session_id: SessionId
    assigned_s: float
    ready_s: float | None = None
    fetched_s: float | None = None
    outcome: AttemptOutcome = AttemptOutcome.RUNNING
    error: str | None = None


@dataclass(slots=True)
class Timeline:
    """The attempts of all works of a query, in the order in which they were made."""

    attempts: dict[AttemptId, AttemptStory] = field(default_factory=dict[AttemptId, AttemptStory])

    def of_work(self, work_id: WorkId) -> list[AttemptStory]:
        return [story for attempt, story in self.attempts.items() if attempt.key.work_id == work_id]


class Timelines:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._followed: dict[QueryId, Timeline] = {}
        self._workers: dict[SessionId, WorkerId] = {}

    def follow(self, query_id: QueryId) -> Timeline:
        """Call it before the first work of the query is submitted, and `leave` in the end."""
        timeline = self._followed[query_id] = Timeline()
        return timeline

    def leave(self, query_id: QueryId) -> None:
        self._followed.pop(query_id, None)

    def stepped(self, event: ev.Event, effects: list[ef.Effect]) -> None:
        match event:
            case ev.SessionOpened(session_id, register):
                self._workers[session_id] = register.worker.worker_id
            case ev.SessionLost(session_id):
                self._workers.pop(session_id, None)
                for timeline in self._followed.values():
                    _lose(timeline, session_id)
            case _ if not self._followed:
                return
            case ev.MessageReceived(_, message):
                self._heard(message)
            case ev.FetchSucceeded(attempt):
                self._end(attempt, AttemptOutcome.DONE)
            case ev.FetchFailed(attempt, error):
                self._end(attempt, AttemptOutcome.FAILED, error.message)
            case _:
                pass
        if self._followed:
            for effect in effects:
                self._assigned(effect)

    def _assigned(self, effect: ef.Effect) -> None:
        match effect:
            case ef.SendToWorker(session_id, msg.AssignWork() as assignment):
                timeline = self._followed.get(assignment.spec.key.query_id)
                if timeline is not None:
                    worker_id = self._workers.get(session_id, WorkerId("?"))
                    story = AttemptStory(worker_id, session_id, self._clock.now())
                    timeline.attempts[assignment.attempt] = story
            case _:
                pass

    def _heard(self, message: msg.WorkerMessage) -> None:
        match message:
            case msg.WorkReady(attempt):
                story = self._story(attempt)
                if story is not None:
                    story.ready_s = self._clock.now()
            case msg.WorkEnded(attempt):
                story = self._story(attempt)
                if story is not None:
                    story.ready_s = self._clock.now()
                self._end(attempt, AttemptOutcome.DONE)
            case msg.WorkFailed(attempt, error):
                self._end(attempt, AttemptOutcome.FAILED, error.message)
            case msg.WorkRejected(attempt, reason):
                self._end(attempt, AttemptOutcome.REJECTED, reason.value)
            case msg.WorkReturned(attempt):
                self._end(attempt, AttemptOutcome.RETURNED)
            case msg.ArtifactLost(attempt, reason):
                self._end(attempt, AttemptOutcome.LOST, f"its result was lost before it was fetched: {reason}")
            case _:
                pass

    def _story(self, attempt: AttemptId) -> AttemptStory | None:
        timeline = self._followed.get(attempt.key.query_id)
        return None if timeline is None else timeline.attempts.get(attempt)

    def _end(self, attempt: AttemptId, outcome: AttemptOutcome, error: str | None = None) -> None:
        story = self._story(attempt)
        if story is None or story.outcome is AttemptOutcome.DONE:  # what is told of a result that is here comes late
            return
        story.outcome, story.error = outcome, error
        if outcome is AttemptOutcome.DONE:
            story.fetched_s = self._clock.now()


def _lose(timeline: Timeline, session_id: SessionId) -> None:
    for story in timeline.attempts.values():
        if story.session_id == session_id and story.outcome is AttemptOutcome.RUNNING:
            story.outcome, story.error = AttemptOutcome.LOST, "its worker was lost"

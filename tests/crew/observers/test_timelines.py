"""The story of each attempt of a query that is followed; nothing of the others."""

from dataclasses import dataclass

from quarterdeck.core.ids import QueryId, WorkId
from quarterdeck.core.workcoord import messages as msg
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.crew.observers.timelines import AttemptOutcome, AttemptStory, Timelines
from tests.core.workcoord.harness import PASSING, START, Bridge, leaf
from tests.crew.observed import observe


@dataclass
class ClockOf:
    owner: Bridge

    def now(self) -> float:
        return self.owner.now


class Shore(Bridge):
    """A coordinator's machine, one of whose queries is followed."""

    def __init__(self) -> None:
        super().__init__()
        self.timelines = Timelines(ClockOf(self))
        observe(self.machine, self.timelines)
        self.timeline = self.timelines.follow(QueryId("q"))

    def told(self, work: str = "a") -> list[tuple[str, str]]:
        return [(story.worker_id, story.outcome.value) for story in self.stories(work)]

    def stories(self, work: str = "a") -> list[AttemptStory]:
        return self.timeline.of_work(WorkId(work))


def test_a_work_that_is_done_tells_when_it_was_assigned_ready_and_fetched() -> None:
    shore = Shore()
    shore.joins("w1")
    work = shore.submit(leaf("a"))
    (story,) = shore.stories()
    assert (story.outcome, story.ready_s, story.fetched_s) == (AttemptOutcome.RUNNING, None, None)
    shore.advance(0.5)
    shore.ready(work)
    assert story.outcome is AttemptOutcome.RUNNING
    shore.advance(0.25)
    shore.fetched(work.current_id)
    assert shore.told() == [("w1", "done")]
    assert (story.assigned_s, story.ready_s, story.fetched_s) == (START, START + 0.5, START + 0.75)
    assert story.error is None


def test_a_lost_worker_costs_an_attempt_that_is_told_and_the_next_one_too() -> None:
    shore = Shore()
    first = shore.joins("w1")
    work = shore.submit(leaf("a"))
    shore.joins("w2")
    shore.loses(first)
    shore.advance(1.0)
    shore.done(work)
    assert shore.told() == [("w1", "lost"), ("w2", "done")]
    assert shore.stories()[0].error == "its worker was lost"


def test_a_failure_is_told_with_its_reason() -> None:
    shore = Shore()
    session = shore.joins("w1")
    work = shore.submit(leaf("a"))
    shore.accepts(work)
    shore.says(session, msg.WorkFailed(work.current_id, PASSING))
    shore.advance(5.0)
    assert shore.told()[0] == ("w1", "failed")
    assert shore.stories()[0].error == PASSING.message
    assert len(shore.told()) == 2


def test_a_result_that_cannot_be_fetched_or_was_lost_is_told() -> None:
    shore = Shore()
    session = shore.joins("w1")
    work = shore.submit(leaf("a"))
    shore.ready(work)
    shore.step(cv.FetchFailed(work.current_id, PASSING))
    shore.advance(5.0)
    shore.ready(work)
    shore.says(session, msg.ArtifactLost(work.current_id, "evicted"))
    assert [outcome for _, outcome in shore.told()[:2]] == ["failed", "lost"]
    assert shore.stories()[1].error == "its result was lost before it was fetched: evicted"


def test_what_is_returned_or_rejected_is_told() -> None:
    shore = Shore()
    one = shore.joins("w1")
    work = shore.submit(leaf("a"))
    shore.joins("w2")
    shore.says(one, msg.WorkReturned(work.current_id))
    shore.advance(5.0)
    shore.says(shore.session_of(work), msg.WorkRejected(work.current_id, msg.RejectReason.DRAINING))
    assert [outcome for _, outcome in shore.told()[:2]] == ["returned", "rejected"]


def test_a_fetch_that_goes_on_after_its_worker_was_lost_counts() -> None:
    shore = Shore()
    session = shore.joins("w1")
    work = shore.submit(leaf("a"))
    attempt = work.current_id
    shore.ready(work)
    shore.loses(session)
    assert shore.told() == [("w1", "lost")]
    shore.fetched(attempt)
    assert shore.told() == [("w1", "done")]
    assert shore.stories()[0].error is None


def test_what_a_worker_says_of_a_result_that_is_here_already_changes_nothing() -> None:
    shore = Shore()
    session = shore.joins("w1")
    work = shore.submit(leaf("a"))
    shore.done(work)
    (attempt,) = shore.timeline.attempts
    shore.says(session, msg.ArtifactLost(attempt, "evicted"))
    shore.loses(session)
    assert shore.told() == [("w1", "done")]
    assert shore.stories()[0].error is None


def test_nothing_is_remembered_of_queries_that_nobody_follows_or_has_left() -> None:
    shore = Shore()
    shore.joins("w1")
    other = shore.submit(leaf("b", "other"))
    shore.done(other)
    assert shore.timeline.attempts == {}
    work = shore.submit(leaf("a"))
    shore.timelines.leave(QueryId("q"))
    shore.done(work)
    assert shore.told() == [("w1", "running")]
    assert vars(shore.timelines)["_followed"] == {}
    shore.timelines.leave(QueryId("never followed"))


def test_workers_that_left_are_forgotten() -> None:
    shore = Shore()
    for number in range(5):
        shore.loses(shore.joins(f"w{number}"))
    assert vars(shore.timelines)["_workers"] == {}

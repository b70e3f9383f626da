"""What is remembered of each query: the right numbers, within a bound, and nothing of what is over."""

import json
from dataclasses import dataclass

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import QueryId
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.messages import WorkFailed, WorkReturned
from quarterdeck.core.workcoord.worker import WorkerMachine
from quarterdeck.crew.observers.summaries import KEPT, QuerySummary, Summaries
from tests.core.workcoord.harness import FINAL, PASSING, Bridge, leaf
from tests.crew.observed import AFTER_ALL_S, LoopOrLaterClock, held_by, observe, play_seeds, watched_processes


@dataclass
class ClockOf:
    owner: Bridge

    def now(self) -> float:
        return self.owner.now


class Shore(Bridge):
    """A coordinator's machine whose queries are remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.summaries = Summaries(ClockOf(self))
        observe(self.machine, self.summaries)

    def document(self, query: str = "q") -> dict[str, object]:
        summary = self.summaries.find(QueryId(query))
        assert summary is not None
        return json.loads(json.dumps(summary.document()))

    def fetching(self) -> object:
        return vars(self.summaries)["_artifacts"]


def test_what_was_taken_back_before_it_had_begun_was_no_attempt() -> None:
    shore = Shore()
    shore.joins("w1")
    shore.joins("w2")
    shore.accepts(shore.submit(leaf("long")))
    work = shore.submit(leaf("short"))
    shore.advance(0.11)
    shore.says(shore.session_of(work), WorkReturned(work.current_id))
    assert work.number == 2
    assert shore.document()["attempts"] == 2


def test_a_query_is_told_from_its_beginning_to_its_end() -> None:
    shore = Shore()
    shore.joins("w1", credit=2)
    first, second = shore.submit(leaf("a")), shore.submit(leaf("b"))
    assert shore.document() == {
        "query_id": "q",
        "state": "running",
        "works": 2,
        "delivered": 0,
        "attempts": 2,
        "by_worker": {},
        "rows": 0,
        "artifact_bytes": 0,
        "first_result_s": None,
        "duration_s": None,
        "error": None,
    }
    shore.advance(1.0)
    shore.done(first)
    shore.advance(1.0)
    shore.done(second)
    shore.advance(1.0)
    shore.seal()
    assert shore.document() == {
        "query_id": "q",
        "state": "succeeded",
        "works": 2,
        "delivered": 2,
        "attempts": 2,
        "by_worker": {"w1": 2},
        "rows": 2,
        "artifact_bytes": 20,
        "first_result_s": 1.0,
        "duration_s": 3.0,
        "error": None,
    }


def test_a_work_that_leaves_nothing_is_delivered_and_has_no_rows() -> None:
    shore = Shore()
    shore.joins("w1")
    shore.ends(shore.submit(leaf(leaves_nothing=True)))
    document = shore.document()
    assert (document["delivered"], document["by_worker"], document["rows"]) == (1, {"w1": 1}, 0)
    assert document["first_result_s"] == 0.0


def test_an_attempt_more_is_an_attempt_and_the_result_is_of_whom_it_came_from() -> None:
    shore = Shore()
    lost = shore.joins("w1", credit=1)
    work = shore.submit(leaf())
    shore.joins("w2", credit=1)
    shore.loses(lost)
    shore.done(work)
    document = shore.document()
    assert (document["works"], document["attempts"], document["by_worker"]) == (1, 2, {"w2": 1})


def test_a_query_that_failed_says_why() -> None:
    shore = Shore()
    shore.joins()
    work = shore.submit(leaf())
    shore.accepts(work)
    shore.says(shore.session_of(work), WorkFailed(work.current_id, FINAL))
    document = shore.document()
    assert document["state"] == "failed"
    assert document["error"] == {"code": ErrorCode.WORK_FAILED, "message": FINAL.message}


def test_a_work_that_was_refused_is_not_one_of_the_query() -> None:
    shore = Shore()
    shore.submit(leaf("a"), leaf("a"))
    shore.seal()
    shore.step(cv.WorkSubmitted(leaf("b")))
    shore.step(cv.WorkSubmitted(leaf("c", "unknown")))
    assert shore.document()["works"] == 1


def test_a_fetch_that_fails_leaves_nothing_behind() -> None:
    shore = Shore()
    shore.joins()
    work = shore.submit(leaf())
    shore.ready(work)
    shore.step(cv.FetchFailed(work.current_id, PASSING))
    assert shore.fetching() == {}


def test_a_query_that_ends_during_a_fetch_leaves_nothing_behind() -> None:
    shore = Shore()
    shore.joins()
    work = shore.submit(leaf())
    shore.ready(work)
    shore.cancel()
    assert shore.fetching() == {}
    shore.fetched(work.current_id)
    assert (shore.document()["delivered"], shore.document()["state"]) == (0, "canceled")


def test_a_session_that_is_lost_during_a_fetch_leaves_it_until_it_has_ended() -> None:
    shore = Shore()
    session = shore.joins()
    work = shore.submit(leaf())
    shore.ready(work)
    attempt = work.current_id
    shore.loses(session)
    shore.fetched(attempt)
    assert shore.document()["by_worker"] == {"w1": 1}
    assert shore.fetching() == {}


def test_of_the_queries_that_ended_the_last_are_remembered_and_all_that_run() -> None:
    shore = Shore()
    for number in range(KEPT + 2):
        shore.open_query(f"q{number}")
        shore.seal(f"q{number}")
    shore.open_query("running")
    told = [name for name in ("q1", "q2", f"q{KEPT + 1}", "running") if shore.summaries.find(QueryId(name))]
    assert told == ["q2", f"q{KEPT + 1}", "running"]


def test_a_query_that_was_asked_again_under_its_old_name_is_the_last_that_ended() -> None:
    shore = Shore()
    for name in ("a", "b", "a"):
        shore.open_query(name)
        shore.seal(name)
    assert list(vars(shore.summaries)["_ended"]) == ["b", "a"]


def test_a_query_that_comes_during_the_shutdown_is_remembered_as_canceled() -> None:
    shore = Shore()
    shore.step(cv.ShutdownRequested("enough"))
    shore.open_query()
    assert shore.document()["state"] == "canceled"


def test_whatever_happens_nothing_but_the_last_queries_is_remembered_when_all_is_over() -> None:
    watched: list[tuple[CoordinatorMachine, Summaries]] = []

    def on_coordinator(machine: CoordinatorMachine) -> None:
        watched.append((machine, Summaries(LoopOrLaterClock())))
        observe(machine, watched[-1][1])

    def on_worker(machine: WorkerMachine) -> None:
        pass

    with watched_processes(on_coordinator, on_worker):
        play_seeds(range(3100, 3105))
    for machine, summaries in watched:
        machine.step(cv.ShutdownRequested("enough"), AFTER_ALL_S)
        assert held_by(summaries, apart_from=("_ended",)) == {}
        assert json.dumps([summary.document() for summary in ended(summaries)])
    assert any(summary.delivered for _, summaries in watched for summary in ended(summaries))


def ended(summaries: Summaries) -> list[QuerySummary]:
    return list(vars(summaries)["_ended"].values())

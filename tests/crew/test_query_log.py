"""What people see of queries: texts that are fit to be seen, the reason of a failure, and not more than so many."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.model import WorkError
from quarterdeck.crew.observers.summaries import QuerySummary
from quarterdeck.crew.query_log import KEPT, MOST_CHARACTERS, AskedQuery, QueryKind, QueryLog

FAILURE = QuarterdeckError(ErrorCode.NO_WORKER, "it was not done", "nobody is there", "start a worker")

_METRICS = QueryKind("metrics")


@dataclass
class Clock:
    at_s: float = 100.0

    def now(self) -> float:
        return self.at_s


class Scene:
    def __init__(self) -> None:
        self.clock = Clock()
        self.summaries: dict[QueryId, QuerySummary] = {}
        self.log = QueryLog(self.clock, self.summaries.get)
        self._count = 0

    def ask(self, text: str = "up", kind: QueryKind = _METRICS, tenant: str = "default") -> AskedQuery:
        self._count += 1
        return self.log.asked(QueryId(f"q{self._count}"), kind, text, tenant)

    def told(self) -> list[dict[str, Any]]:
        return self.log.documents(1000)

    def names(self) -> list[str]:
        return [str(one["query_id"]) for one in self.told()]


def test_a_query_is_told_from_its_asking_to_its_end() -> None:
    scene = Scene()
    with scene.ask("select 1", QueryKind("scan"), "acme") as asked:
        scene.clock.at_s += 1
        (told,) = scene.told()
        assert (told["state"], told["age_s"], told["duration_s"], told["error"]) == ("queued", 1.0, None, None)
        asked.begin()
        assert scene.told()[0]["state"] == "running"
        scene.clock.at_s += 1
    scene.clock.at_s += 5
    (told,) = scene.told()
    assert isinstance(told.pop("asked_at_s"), float)
    assert told == {
        "query_id": "q1",
        "kind": "scan",
        "text": "select 1",
        "tenant": "acme",
        "state": "succeeded",
        "age_s": 7.0,
        "duration_s": 2.0,
        "works": 0,
        "delivered": 0,
        "attempts": 0,
        "by_worker": {},
        "rows": 0,
        "artifact_bytes": 0,
        "first_result_s": None,
        "error": None,
    }


@pytest.mark.parametrize(
    "error, state, code, message",
    [
        (FAILURE, "failed", "no_worker", "it was not done: nobody is there"),
        (QuarterdeckError(ErrorCode.CANCELED, "a", "b", "c"), "canceled", "canceled", "a: b"),
        (asyncio.CancelledError(), "canceled", "canceled", "whoever asked has gone, or its time was over"),
        (asyncio.CancelledError(FAILURE), "failed", "no_worker", "it was not done: nobody is there"),
        (GeneratorExit(), "canceled", "canceled", "whoever asked has gone, or its time was over"),
        (GeneratorExit(FAILURE), "failed", "no_worker", "it was not done: nobody is there"),
        (
            ValueError("password=hush"),
            "failed",
            "internal",
            "an error that nobody expected; see the log of this process",
        ),
    ],
)
def test_a_query_that_did_not_end_well_says_why(error: BaseException, state: str, code: str, message: str) -> None:
    scene = Scene()
    with pytest.raises(type(error)), scene.ask():
        raise error
    (told,) = scene.told()
    assert (told["state"], told["error"]) == (state, {"code": code, "message": message})


def test_the_crews_own_words_for_a_failure_are_told_and_what_it_did_for_it() -> None:
    scene = Scene()
    summary = QuerySummary(QueryId("q1"), 0.0, works=3, delivered=1, attempts=4)
    summary.outcome, summary.error = ef.Outcome.FAILED, WorkError("work_failed", "no column x", retryable=False)
    scene.summaries[QueryId("q1")] = summary
    with pytest.raises(QuarterdeckError), scene.ask():
        raise QuarterdeckError(ErrorCode.WORK_FAILED, "query q1 failed", "no column x", "correct it")
    scene.summaries.clear()
    (told,) = scene.told()
    assert told["error"] == {"code": "work_failed", "message": "no column x"}
    assert (told["works"], told["delivered"], told["attempts"]) == (3, 1, 4)


def test_why_an_answer_was_given_up_is_told_and_not_that_its_works_were_canceled_for_it() -> None:
    scene = Scene()
    summary = QuerySummary(QueryId("q1"), 0.0, works=3, delivered=1, attempts=4)
    summary.outcome, summary.error = ef.Outcome.CANCELED, WorkError("canceled", "it was given up", retryable=False)
    scene.summaries[QueryId("q1")] = summary
    with pytest.raises(QuarterdeckError), scene.ask():
        raise QuarterdeckError(ErrorCode.WORK_FAILED, "the parts do not fit", "one has no column x", "write it anew")
    (told,) = scene.told()
    assert told["error"] == {"code": "work_failed", "message": "the parts do not fit: one has no column x"}


def test_figures_of_somebody_else_are_looked_at_until_it_ends_and_kept_then() -> None:
    scene, rows = Scene(), [5]
    asked = scene.ask(kind=QueryKind("search"))
    asked.watch(lambda: {"rows": rows[0]})
    assert scene.told()[0]["rows"] == 5
    rows[0] = 6
    asked.partial("2 files are broken")
    rows[0] = 7
    asked.end(FAILURE)
    (told,) = scene.told()
    assert (told["rows"], told["state"], told["works"]) == (6, "partial", 0)
    assert told["error"]["message"] == "2 files are broken"


def test_long_texts_are_cut_and_not_kept() -> None:
    scene = Scene()
    with pytest.raises(QuarterdeckError), scene.ask("x" * 100_000):
        raise QuarterdeckError(ErrorCode.INTERNAL, "y" * 100_000, "", "")
    (told,) = scene.told()
    assert told["text"] == "x" * MOST_CHARACTERS + "…"
    assert told["error"]["message"] == "y" * MOST_CHARACTERS + "…"


def test_secrets_and_what_a_terminal_would_obey_are_not_shown() -> None:
    scene = Scene()
    with pytest.raises(QuarterdeckError), scene.ask("a\n\tb\x1b[2J\u202e s3_secret_access_key='hush'", tenant="t\x07"):
        raise QuarterdeckError(ErrorCode.INTERNAL, "s3://user:hush@host", "\x00", "")
    (told,) = scene.told()
    assert told["text"] == "a b\\x1b[2J\\u202e s3_secret_access_key=***"
    assert told["tenant"] == "t\\x07"
    assert told["error"]["message"] == "s3://***@host: \\x00"


def test_those_that_run_come_first_then_those_that_wait_then_the_last_that_ended() -> None:
    scene = Scene()
    for _ in range(2):
        scene.ask().end(None)
    for _ in range(2):
        scene.ask()
    for _ in range(2):
        scene.ask().begin()
    assert scene.names() == ["q6", "q5", "q4", "q3", "q2", "q1"]


def test_so_many_of_each_kind_are_remembered_and_failures_beside_what_went_well() -> None:
    scene = Scene()
    scene.ask(kind=QueryKind("scan")).end(FAILURE)
    scene.ask(kind=QueryKind("metrics")).end(FAILURE)
    for _ in range(KEPT + 5):
        scene.ask().end(None)
    names = scene.names()
    assert len(names) == KEPT + 2
    assert names[-2:] == ["q2", "q1"]
    assert scene.log.find(QueryId("q3")) is None
    assert scene.log.find(QueryId("q8")) is not None


def test_nothing_of_a_query_that_ended_holds_what_it_was_made_of() -> None:
    scene = Scene()
    asked = scene.ask()
    asked.watch(lambda: {"rows": 1})
    asked.end(FAILURE)
    held = [getattr(asked, name) for name in AskedQuery.__slots__ if name != "_log"]
    assert not any(callable(one) or isinstance(one, BaseException) for one in held)


def test_who_looks_as_a_tenant_sees_what_is_that_tenants_and_nothing_else() -> None:
    scene, scan = Scene(), QueryKind("scan")
    for tenant in ("acme", "globex"):
        for state in ("ended", "running", "waiting"):
            asked = scene.ask(f"{tenant} {state}", scan, tenant)
            asked.describe(lambda text=asked.text: {"text": text})
            if state != "waiting":
                asked.begin()
            if state == "ended":
                asked.end(None)
    told = [query["text"] for query in scene.log.documents(1000, "acme")]
    assert told == ["acme running", "acme waiting", "acme ended"]
    assert scene.log.details(scan, "acme") == [{"text": text} for text in told]
    assert len(scene.log.details(scan)) == len(scene.log.documents(1000)) == 6
    assert (scene.log.documents(1000, "other"), scene.log.details(scan, "other")) == ([], [])
    for number in (1, 2, 3):  # whether it ended, runs or waits
        query_id = QueryId(f"q{number}")
        assert scene.log.find(query_id, "globex") is scene.log.find(query_id, "") is None
        assert scene.log.find(query_id, "acme") is scene.log.find(query_id) is not None


def test_no_more_are_told_than_were_asked_for() -> None:
    scene = Scene()
    for number in range(4):
        scene.ask(tenant="acme" if number % 2 else "globex")
    assert [query["query_id"] for query in scene.log.documents(3)] == ["q4", "q3", "q2"]
    assert [query["query_id"] for query in scene.log.documents(1, "globex")] == ["q3"]
    assert scene.log.documents(0) == []


def test_what_was_described_is_told_of_its_kind_alone_and_as_it_was_at_the_end() -> None:
    scene, search, chunks = Scene(), QueryKind("search"), [1]
    scene.ask(kind=search)
    scene.ask().describe(lambda: {"no": "search"})
    described = scene.ask(kind=search)
    described.describe(lambda: {"chunks": chunks[0]})
    assert scene.log.details(search) == [{"chunks": 1}]
    chunks[0] = 2
    described.end(None)
    chunks[0] = 3
    assert scene.log.details(search) == [{"chunks": 2}]


def test_many_of_one_kind_push_out_none_of_another() -> None:
    scene = Scene()
    scene.ask(kind=QueryKind("scan")).end(None)
    for _ in range(KEPT + 1):
        scene.ask().end(None)
    assert scene.names()[-1] == "q1"


def test_the_first_end_counts() -> None:
    scene = Scene()
    with scene.ask() as asked:
        asked.end(FAILURE)
    (told,) = scene.told()
    assert told["state"] == "failed"

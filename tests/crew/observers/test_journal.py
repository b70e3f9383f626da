"""Log lines: each says of which query and which work, and what goes well costs no line a work."""

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.messages import (
    ArtifactLost,
    DrainRequest,
    Goodbye,
    RejectReason,
    Throttled,
    WorkFailed,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.worker import WorkerMachine
from quarterdeck.core.workcoord.worker import events as wv
from quarterdeck.crew.observers.journal import CoordinatorJournal, WorkerJournal, log_trouble
from tests.core.workcoord.harness import FINAL, PASSING, Bridge, Mate, leaf
from tests.crew.observed import held_by, observe, play_seeds, watched_processes

ABOUT_SESSIONS = {
    "worker registers",
    "session ended",
    "session closed",
    "worker asks to be spared",
    "worker says goodbye",
    "worker is silent",
    "joined a coordinator",
    "draining: nothing new is taken, what runs is finished",
    "draining, as a coordinator asked",
    "drained",
    "the time for draining ran out",
}
ABOUT_QUERIES = {"query opened", "query ended"}


class Lines(logging.Handler):
    """What was logged: level, words and fields."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.all: list[tuple[str, str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = vars(record)["fields"]
        words = record.getMessage().split(f" {next(iter(fields), '')}=")[0]
        self.all.append((record.levelname, words, fields))

    def of(self, *levels: str) -> list[str]:
        return [words for level, words, _ in self.all if level in levels]

    def about(self, beginning: str) -> list[tuple[str, dict[str, Any]]]:
        return [(level, fields) for level, words, fields in self.all if words.startswith(beginning)]


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger = logging.getLogger("quarterdeck.crew.observers.journal")
    before, handler = (logger.level, logger.propagate), Lines()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield handler
    logger.removeHandler(handler)
    logger.level, logger.propagate = before


def shore() -> Bridge:
    bridge = Bridge()
    observe(bridge.machine, CoordinatorJournal())
    return bridge


def ship(**options: Any) -> Mate:
    mate = Mate(**options)
    observe(mate.machine, WorkerJournal())
    return mate


def test_a_coordinator_tells_of_sessions_and_queries_and_not_of_works_that_go_well(lines: Lines) -> None:
    bridge = shore()
    session = bridge.joins(credit=8)
    works = [bridge.submit(leaf(name)) for name in "abcdefgh"]
    bridge.seal()
    for work in works:
        bridge.done(work)
    bridge.loses(session)
    assert lines.of("INFO", "WARNING") == ["worker registers", "query opened", "query ended", "session ended"]
    assert len(lines.of("DEBUG")) >= 4 * len(works)


def test_a_worker_tells_of_sessions_and_not_of_works_that_go_well(lines: Lines) -> None:
    mate = ship(slots=4)
    session = mate.opens()
    for name in "abcd":
        work = mate.assigned(leaf(name), session)
        mate.succeeds(work)
        mate.acknowledged(work, session)
    mate.evicts(next(mate.machine.attempts()))  # fetched before: no trouble
    mate.advance(100)
    mate.loses(session)
    assert lines.of("INFO", "WARNING") == ["joined a coordinator", "session ended"]
    assert len(lines.about("work starts")) == 4


def test_a_coordinator_that_falls_silent_is_a_warning_and_one_that_says_goodbye_is_none(lines: Lines) -> None:
    mate = ship()
    session = mate.opens()
    mate.advance(3.5, silent=[session])
    assert [level for level, _ in lines.about("session closed")] == ["WARNING"]
    session = mate.opens("s2")
    mate.hears(session, Goodbye("a new version"))
    assert [level for level, _ in lines.about("session closed")] == ["WARNING", "INFO"]


def test_trouble_with_a_work_is_a_warning_with_its_query_its_work_and_the_reason(lines: Lines) -> None:
    bridge = shore()
    session = bridge.joins()
    work = bridge.submit(leaf())
    bridge.accepts(work)
    bridge.says(session, WorkFailed(work.current_id, PASSING))
    bridge.ready(work)
    bridge.step(cv.FetchFailed(work.current_id, PASSING))
    bridge.ready(work)
    bridge.says(session, ArtifactLost(work.current_id, "evicted"))
    warnings = [fields for level, _, fields in lines.all if level == "WARNING"]
    assert [(each["query_id"], each["work_id"], each["attempt"]) for each in warnings] == [
        ("q", "a", 1),
        ("q", "a", 2),
        ("q", "a", 3),
    ]
    assert [each["reason"] for each in warnings] == [PASSING.message, PASSING.message, "evicted"]


def test_a_work_that_moves_to_an_idle_worker_before_it_has_begun_is_no_detour(lines: Lines) -> None:
    bridge = shore()
    bridge.joins("w1")
    bridge.joins("w2")
    bridge.accepts(bridge.submit(leaf("long")))
    work = bridge.submit(leaf("short"))
    bridge.advance(0.11)
    bridge.says(bridge.session_of(work), WorkReturned(work.current_id))
    assert work.number == 2
    assert [*lines.about("work handed back"), *lines.about("work assigned again")] == []
    for event in ("work recalled: another worker could begin it", "work comes back that was recalled"):
        assert [(level, fields["work_id"]) for level, fields in lines.about(event)] == [("DEBUG", "short")]


@pytest.mark.parametrize("accepted", [False, True])
def test_a_work_that_takes_a_detour_is_followed_at_info(lines: Lines, accepted: bool) -> None:
    bridge = shore()
    leaving = bridge.joins("w1", credit=1)
    work = bridge.submit(leaf())
    attempt = work.current_id
    bridge.joins("w2", credit=1)
    if accepted:
        bridge.accepts(work)
        bridge.says(leaving, WorkReturned(attempt))
    else:
        bridge.says(leaving, WorkRejected(attempt, RejectReason.DRAINING))
    again = [fields["attempt"] for level, fields in lines.about("work assigned again") if level == "INFO"]
    assert again == [2]
    ways = [*lines.about("work rejected"), *lines.about("work handed back")]
    assert [(level, fields["work_id"], fields["attempt"]) for level, fields in ways] == [("INFO", "a", 1)]


def test_the_end_of_a_query_says_how_and_why_once(lines: Lines) -> None:
    bridge = shore()
    bridge.joins()
    bridge.submit(leaf("a", "canceled"))
    bridge.cancel("canceled")
    bridge.cancel("canceled")  # too late, and nothing to tell
    failing = bridge.submit(leaf("a", "failed"))
    bridge.accepts(failing)
    bridge.says(bridge.session_of(failing), WorkFailed(failing.current_id, FINAL))
    ended = [fields for _, fields in lines.about("query")]
    assert [(each["query_id"], each.get("outcome"), each.get("reason")) for each in ended] == [
        ("canceled", None, None),
        ("canceled", "canceled", "the caller went away"),
        ("failed", None, None),
        ("failed", "failed", FINAL.message),
    ]


def test_a_work_that_was_refused_a_throttle_and_trouble_with_a_peer_are_told(lines: Lines) -> None:
    bridge = shore()
    session = bridge.joins()
    bridge.step(cv.WorkSubmitted(leaf()))
    bridge.says(session, Throttled(2.0))
    log_trouble("10.0.0.7:7071", "it did not register")
    (refused,), (spared,), (trouble,) = (
        lines.about(words) for words in ("work refused", "worker asks to be spared", "trouble with a peer")
    )
    assert refused[0] == trouble[0] == "WARNING"
    assert (refused[1]["query_id"], refused[1]["work_id"]) == ("q", "a")
    assert spared == ("INFO", {"session_id": session, "for_s": 2.0})
    assert trouble[1] == {"peer": "10.0.0.7:7071", "what": "it did not register"}


@pytest.mark.parametrize("end", [Mate.stops, Mate.fails, Mate.succeeds])
def test_a_work_that_was_told_to_stop_has_not_failed_however_it_ends(lines: Lines, end: Any) -> None:
    mate = ship()
    session = mate.opens()
    work = mate.assigned(leaf(), session)
    mate.cancels(work, session)
    end(mate, work)
    assert [(level, fields["work_id"]) for level, fields in lines.about("work stopped")] == [("INFO", "a")]
    assert lines.about("work failed") == lines.about("work done") == lines.of("WARNING") == []


def test_a_worker_warns_of_a_work_that_failed_and_of_a_result_that_is_lost(lines: Lines) -> None:
    mate = ship(slots=2)
    session = mate.opens()
    failing, lost = mate.assigned(leaf("a"), session), mate.assigned(leaf("b"), session)
    mate.fails(failing)
    mate.succeeds(lost)
    mate.evicts(lost)
    warnings = [(fields["work_id"], fields["reason"]) for level, _, fields in lines.all if level == "WARNING"]
    assert warnings == [("a", PASSING.message), ("b", "evicted")]


def test_a_worker_tells_of_its_drain_who_asked_for_it_and_how_it_ended(lines: Lines) -> None:
    asked, told = ship(), ship(drain_max_s=5.0)
    asked.hears(asked.opens(), DrainRequest())
    told.assigned(leaf(), told.opens())
    told.step(wv.DrainRequested())
    told.advance(6.0)
    assert [words for words in lines.of("INFO") if "drain" in words] == [
        "draining, as a coordinator asked",
        "drained",
        "draining: nothing new is taken, what runs is finished",
        "the time for draining ran out",
    ]


def test_whatever_happens_every_line_says_of_what_it_is(lines: Lines) -> None:
    journals: list[WorkerJournal] = []
    machines: list[WorkerMachine] = []

    def on_coordinator(machine: CoordinatorMachine) -> None:
        observe(machine, CoordinatorJournal())

    def on_worker(machine: WorkerMachine) -> None:
        machines.append(machine)
        journals.append(WorkerJournal())
        observe(machine, journals[-1])

    with watched_processes(on_coordinator, on_worker):
        play_seeds(range(3200, 3204))
    met: Counter[str] = Counter()
    for _, _, fields in lines.all:
        met["work" if "work_id" in fields else "query" if "query_id" in fields else "session"] += 1
    for level, words, fields in lines.all:
        if words in ABOUT_SESSIONS:
            continue
        assert fields["query_id"], (level, words)
        if words not in ABOUT_QUERIES:
            assert fields["work_id"], (level, words)
            assert fields.get("attempt", 1) >= 1
    assert min(met.values()) > 10
    for machine, journal in zip(machines, journals, strict=True):
        stopping = {each.attempt_id for each in machine.attempts() if each.state == "stopping"}
        assert held_by(journal) == ({"_told_to_stop": stopping} if stopping else {})

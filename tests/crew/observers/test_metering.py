"""Each metric moves once for what it names, and neither meter remembers what is over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import pytest
from prometheus_client import CollectorRegistry

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, ReassignmentReason, WorkState, WorkTrigger
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    ArtifactLost,
    BeatEcho,
    CancelQuery,
    CancelWork,
    CreditConfirmed,
    DrainRequest,
    Goodbye,
    Register,
    RejectReason,
    WorkAccepted,
    WorkCanceled,
    WorkerMessage,
    WorkFailed,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import AttemptId
from quarterdeck.core.workcoord.peer import LossReason
from quarterdeck.core.workcoord.worker import WorkerMachine
from quarterdeck.core.workcoord.worker import events as wv
from quarterdeck.core.workcoord.worker.records import WorkerAttempt
from quarterdeck.crew.observers import metering
from quarterdeck.crew.observers.metering import Absences, CoordinatorMeter, WorkerMeter
from quarterdeck.simulation.hosts import OFTEN, SELDOM
from quarterdeck.telemetry.metrics import (
    CoordinatorMetrics,
    Counter,
    DisconnectReason,
    Histogram,
    RemovalReason,
    WorkerMetrics,
)
from tests.core.workcoord.harness import (
    ACCEPTING,
    ALL_KINDS,
    FINAL,
    LEAF,
    PASSING,
    SCAN,
    START,
    Bridge,
    Mate,
    info,
    leaf,
)
from tests.crew.observed import AFTER_ALL_S, LoopOrLaterClock, Tally, held_by, observe, play_seeds, watched_processes

LabelT = TypeVar("LabelT", bound=StrEnum)

KEPT = ("_left_at",)
"""What a meter keeps for ever, within a bound: when peers left."""


@dataclass
class ClockOf:
    owner: Bridge | Mate

    def now(self) -> float:
        return self.owner.now


class Shore(Bridge):
    """A coordinator's machine with a meter on it."""

    def __init__(self, *, max_failures: int = 4) -> None:
        super().__init__(max_failures=max_failures)
        self.metrics = CoordinatorMetrics(CollectorRegistry())
        self.meter = CoordinatorMeter(self.metrics, self.machine, ClockOf(self))
        observe(self.machine, self.meter)

    @property
    def reassigned(self) -> dict[ReassignmentReason, float]:
        return moved(self.metrics.scheduling.reassigned)

    @property
    def disconnects(self) -> dict[DisconnectReason, float]:
        return moved(self.metrics.control.disconnects)

    def end_all(self) -> None:
        """Nobody asks, nobody is connected: then nothing is remembered."""
        self.step(cv.ShutdownRequested("enough"))
        assert held_by(self.meter, apart_from=KEPT) == {}


class Ship(Mate):
    """A worker's machine with a meter on it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.metrics = WorkerMetrics(CollectorRegistry(), ALL_KINDS)
        self.meter = WorkerMeter(self.metrics, self.machine, ClockOf(self))
        observe(self.machine, self.meter)

    @property
    def removed(self) -> dict[RemovalReason, float]:
        return moved(self.metrics.artifacts.removed)

    @property
    def disconnects(self) -> dict[DisconnectReason, float]:
        return moved(self.metrics.control.disconnects)

    def waiting(self) -> set[str]:
        """The works whose wait for a slot is being measured."""
        return {attempt.key.work_id for attempt in vars(self.meter)["_waiting_since"]}

    def runtimes(self) -> dict[tuple[WorkKind, Outcome], tuple[int, float]]:
        return {labels: seen(series) for labels, series in self.metrics.execution.task_runtime.items() if series.count}

    def end_all(self) -> None:
        """What runs is stopped, sessions end, artifacts go: then nothing is remembered."""
        for session in list(self.machine.sessions()):
            self.loses(session.session_id)
        for attempt in [each for each in self.machine.attempts() if each.state == "stopping"]:
            self.stops(attempt)
        self.advance(1000)
        assert held_by(self.meter, apart_from=KEPT) == {}


def moved(series: Mapping[LabelT, Counter]) -> dict[LabelT, float]:
    """The counters that are not at zero."""
    return {label: counter.value for label, counter in series.items() if counter.value}


def observed(series: Mapping[LabelT, Histogram]) -> dict[LabelT, tuple[int, float]]:
    return {label: seen(histogram) for label, histogram in series.items() if histogram.count}


def seen(histogram: Histogram) -> tuple[int, float]:
    """How often, and how much in all."""
    return histogram.count, round(histogram.total, 6)


# Queries


def test_a_query_is_measured_from_its_arrival_to_its_first_result_and_to_its_end() -> None:
    shore = Shore()
    shore.joins()
    shore.open_query()
    shore.advance(1.0)
    first, second = shore.submit(leaf("a")), shore.submit(leaf("b"))
    shore.seal()
    shore.done(first)
    shore.advance(2.0)
    shore.done(second)
    queries = shore.metrics.queries
    assert seen(queries.first_result) == (1, 1.0)
    assert observed(queries.latency) == {Outcome.SUCCEEDED: (1, 3.0)}
    assert moved(queries.errors) == {}
    shore.end_all()


def test_a_query_that_fails_or_is_canceled_is_an_error_once() -> None:
    shore = Shore()
    shore.joins()
    shore.says(shore.session_of(failing := shore.submit(leaf("a", "q1"))), WorkAccepted(failing.current_id))
    shore.says(shore.session_of(failing), WorkFailed(failing.current_id, FINAL))
    shore.submit(leaf("b", "q2"))
    shore.cancel("q2")
    shore.cancel("q2")
    queries = shore.metrics.queries
    assert moved(queries.errors) == {ErrorCode.WORK_FAILED: 1, ErrorCode.CANCELED: 1}
    assert observed(queries.latency) == {Outcome.FAILED: (1, 0), Outcome.CANCELED: (1, 0)}
    assert queries.first_result.count == 0
    shore.end_all()


def test_a_query_that_meets_the_shutdown_ends_once_whether_it_runs_or_comes_later() -> None:
    shore = Shore()
    shore.joins()
    shore.submit(leaf("a", "q1"))
    shore.end_all()
    shore.open_query("q2")
    assert moved(shore.metrics.queries.errors) == {ErrorCode.UNAVAILABLE: 2}
    assert observed(shore.metrics.queries.latency) == {Outcome.CANCELED: (2, 0)}
    assert held_by(shore.meter, apart_from=KEPT) == {}


def test_an_error_with_a_code_of_another_release_is_counted_as_a_breach_of_protocol() -> None:
    shore = Shore()
    session = shore.joins()
    work = shore.submit(leaf())
    shore.accepts(work)
    error = type(FINAL)("from the future", "who knows", retryable=False)
    shore.says(session, WorkFailed(work.current_id, error))
    assert moved(shore.metrics.queries.errors) == {ErrorCode.PROTOCOL: 1}


def test_a_clock_that_went_backwards_is_one_that_stands_still() -> None:
    shore = Shore()
    shore.open_query()
    shore.now -= 5
    shore.cancel()
    assert observed(shore.metrics.queries.latency) == {Outcome.CANCELED: (1, 0)}


# Giving work out


def test_every_assignment_is_measured_from_when_its_work_began_to_wait() -> None:
    shore = Shore()
    work = shore.submit(leaf())
    shore.advance(3.0)
    shore.joins("w1", credit=1)
    assert seen(shore.metrics.scheduling.assignment) == (1, 3.0)
    shore.accepts(work)
    shore.advance(5.0)
    shore.loses(shore.session_of(work))
    shore.advance(2.0)
    shore.joins("w2", credit=1)
    assert seen(shore.metrics.scheduling.assignment) == (2, 5.0)
    shore.end_all()


def test_an_assignment_is_measured_although_its_query_ends_in_the_same_step() -> None:
    shore = Shore(max_failures=1)
    lost = shore.joins("w1", credit=2)
    again, doomed = shore.submit(leaf("a")), shore.submit(leaf("b"))
    assert (shore.session_of(again), shore.session_of(doomed)) == (lost, lost)
    shore.accepts(doomed)
    shore.joins("w2", credit=2)
    assert shore.assigned(shore.loses(lost)) == ["a"]
    assert seen(shore.metrics.scheduling.assignment) == (3, 0)
    assert shore.reassigned == {ReassignmentReason.WORKER_LOST: 1}
    shore.end_all()


def test_an_assignment_is_accepted_once_also_when_it_was_given_up_before_the_answer() -> None:
    shore = Shore()
    session = shore.joins()
    work = shore.submit(leaf())
    attempt = work.current_id
    shore.cancel()
    shore.says(session, WorkAccepted(attempt), WorkAccepted(attempt), WorkCanceled(attempt))
    assert shore.metrics.scheduling.accepted.value == 1
    shore.end_all()


def test_what_a_worker_says_twice_or_of_an_attempt_it_never_had_accepts_nothing() -> None:
    shore = Shore()
    session = shore.joins()
    work = shore.submit(leaf())
    shore.accepts(work)
    shore.says(session, WorkAccepted(work.current_id))
    assert shore.disconnects == {DisconnectReason.PROTOCOL: 1}
    assert shore.metrics.scheduling.accepted.value == 1
    shore.end_all()


@pytest.mark.parametrize("reason", [RejectReason.DRAINING, RejectReason.NOT_ACCEPTING])
def test_words_of_a_session_that_has_ended_count_for_nothing(reason: RejectReason) -> None:
    shore = Shore()
    session = shore.joins()
    accepted, rejected = shore.submit(leaf("a")).current_id, shore.submit(leaf("b")).current_id
    shore.loses(session)
    shore.says(session, WorkAccepted(accepted), WorkRejected(rejected, reason), WorkFailed(accepted, PASSING))
    assert shore.metrics.scheduling.accepted.value == 0
    assert moved(shore.metrics.scheduling.rejected) == {}
    assert shore.reassigned == {ReassignmentReason.WORKER_LOST: 2}
    shore.end_all()


def test_a_rejection_is_counted_by_its_reason_also_of_a_work_that_was_given_up() -> None:
    shore = Shore()
    session = shore.joins()
    first, second = shore.submit(leaf("a")), shore.submit(leaf("b", "q2"))
    shore.cancel("q2")
    shore.says(session, WorkRejected(first.current_id, RejectReason.DRAINING))
    shore.says(session, WorkRejected(second.current_id, RejectReason.DRAINING))
    assert moved(shore.metrics.scheduling.rejected) == {RejectReason.DRAINING: 2}
    assert shore.reassigned == {ReassignmentReason.REJECTED: 1}
    shore.end_all()


ENDS: dict[ReassignmentReason, Callable[[AttemptId], WorkerMessage]] = {
    ReassignmentReason.RETURNED: WorkReturned,
    ReassignmentReason.FAILED: lambda attempt: WorkFailed(attempt, PASSING),
    ReassignmentReason.ARTIFACT_LOST: lambda attempt: ArtifactLost(attempt, "evicted"),
    ReassignmentReason.WORKER_LOST: lambda _: Goodbye("drained"),
}


@pytest.mark.parametrize("reason", ENDS)
def test_a_work_that_waits_again_is_counted_by_the_reason(reason: ReassignmentReason) -> None:
    shore = Shore()
    session = shore.joins()
    work = shore.submit(leaf())
    if reason is not ReassignmentReason.RETURNED:
        shore.accepts(work)
    if reason is ReassignmentReason.ARTIFACT_LOST:
        shore.ready(work)
    shore.says(session, ENDS[reason](work.current_id))
    assert shore.reassigned == {reason: 1}
    shore.end_all()


def test_a_breach_of_protocol_reassigns_what_the_worker_had_in_the_same_step() -> None:
    shore = Shore()
    session = shore.joins()
    work = shore.submit(leaf())
    shore.says(session, WorkCanceled(work.current_id))  # nobody asked for it
    assert shore.reassigned == {ReassignmentReason.WORKER_LOST: 1}
    shore.end_all()


def test_a_work_that_is_given_up_waits_for_nobody_and_is_not_reassigned() -> None:
    shore = Shore(max_failures=3)
    shore.joins()
    work = shore.submit(leaf())
    for _ in range(3):
        shore.accepts(work)
        shore.says(shore.session_of(work), WorkFailed(work.current_id, PASSING))
    assert shore.reassigned == {ReassignmentReason.FAILED: 2}
    final = shore.submit(leaf("b", "q2"))
    shore.accepts(final)
    shore.says(shore.session_of(final), WorkFailed(final.current_id, FINAL))
    assert shore.reassigned == {ReassignmentReason.FAILED: 2}
    shore.end_all()


def test_a_fetch_that_fails_reassigns_its_work_and_is_its_witness() -> None:
    shore = Shore()
    shore.joins()
    work = shore.submit(leaf())
    shore.ready(work)
    shore.step(cv.FetchFailed(work.current_id, PASSING))
    assert shore.reassigned == {ReassignmentReason.FETCH_FAILED: 1}
    witness = shore.metrics.scheduling.reassigned[ReassignmentReason.FETCH_FAILED].witness
    assert witness is not None
    assert witness.exemplar == ("q", "a")
    shore.end_all()


# Getting results


def test_a_fetch_is_measured_from_the_word_that_it_is_ready_and_ends_once() -> None:
    shore = Shore()
    shore.joins()
    work = shore.submit(leaf())
    shore.ready(work)
    shore.advance(0.25)
    shore.meter.fetch_began(work.current_id)
    shore.advance(0.5)
    shore.fetched(work.current_id)
    fetching = shore.metrics.fetching
    assert seen(fetching.ready_to_fetch) == (1, 0.25)
    assert observed(fetching.fetch) == {Outcome.SUCCEEDED: (1, 0.75)}
    shore.end_all()


def test_a_canceled_fetch_ends_then_and_not_again_when_it_comes_through_nevertheless() -> None:
    shore = Shore()
    shore.joins()
    work = shore.submit(leaf())
    shore.ready(work)
    shore.advance(0.5)
    shore.cancel()
    shore.meter.fetch_began(work.current_id)
    shore.advance(0.5)
    shore.fetched(work.current_id)
    shore.step(cv.FetchFailed(work.current_id, PASSING))
    assert observed(shore.metrics.fetching.fetch) == {Outcome.CANCELED: (1, 0.5)}
    assert shore.metrics.fetching.ready_to_fetch.count == 0
    shore.end_all()


def test_a_fetch_goes_on_when_its_session_is_lost_and_is_measured_to_its_own_end() -> None:
    shore = Shore()
    session = shore.joins()
    work = shore.submit(leaf())
    shore.ready(work)
    attempt = work.current_id
    shore.loses(session)
    shore.advance(1.0)
    shore.step(cv.FetchFailed(attempt, PASSING))
    assert observed(shore.metrics.fetching.fetch) == {Outcome.FAILED: (1, 1.0)}
    assert shore.reassigned == {ReassignmentReason.WORKER_LOST: 1}
    shore.end_all()


# Sessions


def test_a_session_ends_once_by_the_first_word_on_it() -> None:
    shore = Shore()
    by_silence, by_loss, by_farewell = (shore.joins(name) for name in ("w1", "w2", "w3"))
    shore.loses(by_loss)
    shore.says(by_farewell, Goodbye("drained"))
    shore.advance(10, silent=[by_silence])
    for session in (by_silence, by_loss, by_farewell):
        shore.loses(session)
    assert shore.disconnects == {
        DisconnectReason.SILENT: 1,
        DisconnectReason.CONNECTION_LOST: 1,
        DisconnectReason.GOODBYE: 1,
    }
    shore.end_all()


def test_a_peer_that_does_not_read_and_one_that_breaks_the_conversation_are_told_apart() -> None:
    shore = Shore()
    silent, rude, cut = (shore.joins(name) for name in ("w1", "w2", "w3"))
    shore.loses(silent, LossReason.NOT_READING)
    shore.loses(rude, LossReason.PROTOCOL)
    shore.loses(cut)
    assert shore.disconnects == {
        DisconnectReason.NOT_READING: 1,
        DisconnectReason.PROTOCOL: 1,
        DisconnectReason.CONNECTION_LOST: 1,
    }


def test_a_worker_that_is_back_was_away_from_the_end_of_its_session_on() -> None:
    shore = Shore()
    shore.loses(shore.joins())
    shore.advance(4.0)
    shore.joins(incarnation=2)
    assert seen(shore.metrics.control.reconnect) == (1, 4.0)
    shore.end_all()


def test_a_worker_with_a_new_session_was_not_away_when_its_old_one_is_found_to_be_over() -> None:
    shore = Shore()
    shore.joins()
    shore.joins()
    assert shore.disconnects == {DisconnectReason.REPLACED: 1}
    shore.advance(4.0)
    shore.joins()
    assert shore.metrics.control.reconnect.count == 0
    shore.end_all()


def test_a_registration_that_is_refused_is_no_return_and_its_end_no_absence() -> None:
    shore = Shore()
    shore.loses(shore.joins(incarnation=2))
    shore.advance(1.0)
    shore.joins(incarnation=2)
    older = Register(info(incarnation=1), ACCEPTING)
    shore.step(cv.SessionOpened(SessionId("older"), older))
    shore.loses(SessionId("older"))
    shore.advance(1.0)
    shore.joins(incarnation=2)
    assert shore.disconnects == {
        DisconnectReason.CONNECTION_LOST: 1,
        DisconnectReason.REFUSED: 1,
        DisconnectReason.REPLACED: 1,
    }
    assert seen(shore.metrics.control.reconnect) == (1, 1.0)
    shore.end_all()


def test_a_worker_that_comes_to_a_coordinator_which_is_leaving_is_not_back() -> None:
    shore = Shore()
    shore.loses(shore.joins())
    shore.end_all()
    shore.step(cv.SessionOpened(SessionId("late"), Register(info(), ACCEPTING)))
    assert shore.metrics.control.reconnect.count == 0
    assert shore.disconnects == {DisconnectReason.CONNECTION_LOST: 1, DisconnectReason.REFUSED: 1}
    shore.end_all()


def test_every_echo_is_a_round_trip() -> None:
    shore = Shore()
    session = shore.joins()
    shore.advance(0.5)
    shore.says(session, BeatEcho(START))
    assert seen(shore.metrics.control.heartbeat_rtt) == (1, 0.5)


def test_works_and_workers_are_counted_by_their_states() -> None:
    shore = Shore()
    shore.joins(credit=1)
    shore.submit(leaf("a"), leaf("b"))
    assert shore.meter.works_by_state() == {WorkState.ASSIGNED: 1, WorkState.PENDING: 1}
    assert shore.meter.workers_by_state() == {"accepting": 1}


def test_of_the_peers_that_are_away_those_that_left_first_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "_PEERS_KEPT", 2)
    peers = Absences()
    for number, name in enumerate(("a", "b", "a", "c")):
        assert peers.came(name, number) == (2 if number == 2 else None)
        peers.left(name, number)
    assert [peers.came(name, 10) for name in ("b", "a", "c")] == [None, 8, 7]
    assert held_by(peers) == {"_here": {"a": 1, "b": 1, "c": 1}}


# Workers: running


def test_a_work_waits_for_a_slot_and_runs_and_both_are_measured() -> None:
    ship = Ship(slots=1)
    session = ship.opens()
    first, second = ship.assigned(leaf("a"), session), ship.assigned(leaf("b"), session)
    third = ship.assigned(leaf("c", kind=SCAN), session)  # it has a place of its own
    ship.advance(2.0)
    ship.succeeds(first)
    ship.advance(1.0)
    ship.fails(second)
    ship.fails(third)
    assert seen(ship.metrics.execution.task_wait) == (3, 2.0)
    assert ship.runtimes() == {
        (LEAF, Outcome.SUCCEEDED): (1, 2.0),
        (LEAF, Outcome.FAILED): (1, 1.0),
        (SCAN, Outcome.FAILED): (1, 3.0),
    }
    assert ship.metrics.execution.cancel.count == 0
    ship.end_all()


@pytest.mark.parametrize("end", [Mate.stops, Mate.fails, Mate.succeeds])
def test_a_work_that_was_told_to_stop_is_canceled_however_it_ends(end: Any) -> None:
    ship = Ship()
    session = ship.opens()
    work = ship.assigned(leaf(), session)
    ship.advance(1.0)
    ship.cancels(work, session)
    ship.cancels(work, session)
    ship.advance(0.25)
    end(ship, work)
    assert seen(ship.metrics.execution.cancel) == (1, 0.25)
    assert ship.runtimes() == {(LEAF, Outcome.CANCELED): (1, 1.25)}
    assert ship.removed == ({RemovalReason.CANCELED: 1} if end is Mate.succeeds else {})
    ship.end_all()


def test_a_work_whose_session_is_lost_is_stopped_and_measured_as_canceled() -> None:
    ship = Ship()
    session = ship.opens()
    work = ship.assigned(leaf(), session)
    ship.loses(session)
    ship.advance(0.5)
    ship.stops(work)
    assert seen(ship.metrics.execution.cancel) == (1, 0.5)
    assert ship.runtimes() == {(LEAF, Outcome.CANCELED): (1, 0.5)}
    ship.end_all()


def waiting(ship: Ship) -> tuple[SessionId, WorkerAttempt]:
    """One work runs, another waits for its slot."""
    session = ship.opens()
    ship.assigned(leaf("runs"), session)
    work = ship.assigned(leaf("waits"), session)
    assert ship.waiting() == {"waits"}
    return session, work


def test_a_work_that_waits_and_is_canceled_is_forgotten() -> None:
    ship = Ship()
    session, work = waiting(ship)
    ship.hears(session, CancelQuery(work.attempt_id.key.query_id))
    assert ship.waiting() == set()
    ship.end_all()


def test_a_work_that_waits_and_is_handed_back_is_forgotten() -> None:
    ship = Ship()
    waiting(ship)
    ship.step(wv.DrainRequested())
    assert ship.waiting() == set()
    ship.end_all()


def test_a_work_that_waits_and_loses_its_session_is_forgotten_although_nobody_is_told() -> None:
    ship = Ship()
    session, _ = waiting(ship)
    ship.loses(session)
    assert ship.waiting() == set()
    ship.end_all()


def test_the_loss_of_a_session_forgets_nothing_that_waits_for_another() -> None:
    ship = Ship(queue_places=9)
    first, second = ship.opens("s1"), ship.opens("s2")
    runs = ship.assigned(leaf("runs"), first)
    ship.assigned(leaf("a"), first)
    ship.assigned(leaf("b"), second)
    ship.loses(first)
    assert ship.waiting() == {"b"}
    ship.advance(2.0)
    ship.stops(runs)
    assert seen(ship.metrics.execution.task_wait) == (2, 2.0)
    ship.end_all()


# Workers: artifacts


def ready(ship: Ship) -> tuple[SessionId, WorkerAttempt]:
    session = ship.opens()
    work = ship.assigned(leaf(), session)
    ship.succeeds(work)
    return session, work


def test_an_artifact_that_was_acknowledged_goes_as_such_when_its_time_is_over() -> None:
    ship = Ship()
    session, work = ready(ship)
    ship.acknowledged(work, session)
    assert ship.removed == {}
    ship.end_all()
    assert ship.removed == {RemovalReason.ACKNOWLEDGED: 1}


def test_an_artifact_that_was_fetched_is_no_loss_when_the_disk_is_needed() -> None:
    ship = Ship()
    session, work = ready(ship)
    ship.acknowledged(work, session)
    ship.evicts(work)
    ship.evicts(work)
    assert ship.removed == {RemovalReason.ACKNOWLEDGED: 1}
    ship.end_all()


def test_an_artifact_that_somebody_waits_for_is_evicted_once() -> None:
    ship = Ship()
    session, work = ready(ship)
    ship.evicts(work)
    ship.acknowledged(work, session)  # on its way when the artifact went
    assert ship.removed == {RemovalReason.EVICTED: 1}
    ship.end_all()


def test_an_artifact_that_nobody_fetches_expires() -> None:
    ship = Ship(artifact_ttl_s=5.0)
    ready(ship)
    ship.advance(6.0)
    assert ship.removed == {RemovalReason.EXPIRED: 1}
    ship.end_all()


def test_an_artifact_of_a_canceled_work_is_canceled() -> None:
    ship = Ship()
    session, work = ready(ship)
    ship.hears(session, CancelWork(work.attempt_id))
    assert ship.removed == {RemovalReason.CANCELED: 1}
    ship.end_all()


@pytest.mark.parametrize("evicted", [False, True])
def test_an_artifact_whose_session_was_lost_is_canceled_and_not_expired_when_it_goes(evicted: bool) -> None:
    ship = Ship()
    session, work = ready(ship)
    ship.loses(session)
    ship.hears(session, ArtifactAck(work.attempt_id))  # of a session that is over
    if evicted:
        ship.evicts(work)
    ship.end_all()
    assert ship.removed == {RemovalReason.CANCELED: 1}


def test_artifacts_go_with_a_drain_each_for_its_own_reason() -> None:
    ship = Ship(slots=4, drain_max_s=10.0)
    session = ship.opens()
    fetched, unfetched = ship.assigned(leaf("a"), session), ship.assigned(leaf("b"), session)
    ship.succeeds(fetched)
    ship.acknowledged(fetched, session)
    ship.succeeds(unfetched)
    ship.step(wv.DrainRequested())
    assert ship.removed == {}
    ship.advance(11.0)
    assert ship.removed == {RemovalReason.ACKNOWLEDGED: 1, RemovalReason.CANCELED: 1}
    assert ship.disconnects == {DisconnectReason.GOODBYE: 1}
    ship.end_all()


# Workers: sessions


def test_a_worker_tells_silence_from_a_farewell_a_breach_and_a_broken_connection() -> None:
    ship = Ship()
    sessions = [ship.opens(name) for name in ("s1", "s2", "s3", "s4", "s5", "s6")]
    silent, farewell, breach, broken, rude, deaf = sessions
    ship.hears(farewell, Goodbye("shutting down"))
    ship.hears(breach, CreditConfirmed(99))
    ship.loses(rude, LossReason.PROTOCOL)
    ship.loses(deaf, LossReason.NOT_READING)
    ship.loses(broken)
    ship.advance(10, silent=[silent])
    for session in sessions:
        ship.loses(session)
    assert ship.disconnects == {
        DisconnectReason.SILENT: 1,
        DisconnectReason.GOODBYE: 1,
        DisconnectReason.PROTOCOL: 2,
        DisconnectReason.NOT_READING: 1,
        DisconnectReason.CONNECTION_LOST: 1,
    }
    ship.end_all()


def test_a_drain_is_a_farewell_to_all_and_excuses_nobody_who_was_silent_before() -> None:
    ship = Ship()
    asking, silent = ship.opens("s1"), ship.opens("s2")
    work = ship.assigned(leaf(), asking)
    ship.hears(asking, DrainRequest())
    ship.advance(10, silent=[silent])
    assert ship.disconnects == {DisconnectReason.SILENT: 1}
    ship.fails(work)
    assert ship.disconnects == {DisconnectReason.SILENT: 1, DisconnectReason.GOODBYE: 1}
    ship.end_all()


def test_a_coordinator_that_is_back_was_away_from_the_end_of_its_session_on() -> None:
    ship = Ship()
    first = ship.opens()
    ship.loses(first)
    ship.advance(3.0)
    ship.opens()
    assert seen(ship.metrics.control.reconnect) == (1, 3.0)
    ship.end_all()


# Both, in trouble


@dataclass
class Watched:
    """A process of a simulated world, its meter, and an independent count."""

    machine: Any
    meter: Any
    metrics: Any
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        observe(self.machine, self.meter, self.tally)


def coordinator_agrees(watched: Watched) -> None:
    machine, metrics, meter = watched.machine, watched.metrics, watched.meter
    events, effects = watched.tally.events, watched.tally.effects
    fetches = sum(histogram.count for histogram in metrics.fetching.fetch.values())
    ended = {outcome: histogram.count for outcome, histogram in metrics.queries.latency.items()}
    answers = metrics.scheduling.accepted.value + sum(moved(metrics.scheduling.rejected).values())
    disconnects = moved(metrics.control.disconnects)
    back = {move for move, to in WORK_TABLE.moves.items() if to is WorkState.PENDING}
    retried = sum(number for move, number in machine.moves.items() if move in back)
    given_up = machine.moves[WorkState.PENDING, WorkTrigger.GIVE_UP]
    assert fetches + len(meter._fetching_since) == effects["FetchArtifact"]
    assert sum(ended.values()) == effects["EndQuery"]
    assert sum(ended.values()) + len(meter._asked_at) == events["QueryOpened"]
    assert sum(moved(metrics.queries.errors).values()) == ended[Outcome.FAILED] + ended[Outcome.CANCELED]
    assert metrics.scheduling.assignment.count == effects["AssignWork"]
    assert machine.counters["accepted"] + machine.counters["rejected"] <= answers
    assert answers <= events["WorkAccepted"] + events["WorkRejected"]
    assert sum(moved(metrics.scheduling.reassigned).values()) == retried - given_up
    assert sum(disconnects.values()) == (
        machine.counters["sessions_opened"] + disconnects.get(DisconnectReason.REFUSED, 0) - len(machine.roster)
    )
    assert metrics.control.heartbeat_rtt.count == effects["ReportRoundTrip"]


def worker_agrees(watched: Watched) -> None:
    machine, metrics, meter = watched.machine, watched.metrics, watched.meter
    events, effects = watched.tally.events, watched.tally.effects
    ran = sum(histogram.count for histogram in metrics.execution.task_runtime.values())
    assert metrics.execution.task_wait.count == effects["StartExecution"]
    assert ran + len(meter._running) == effects["StartExecution"]
    assert metrics.execution.cancel.count + len(meter._stopping) == effects["StopExecution"]
    assert sum(moved(metrics.artifacts.removed).values()) == effects["DropResult"]
    kept = sum(each.state in ("ready", "lingering") for each in machine.attempts())
    assert sum(moved(metrics.artifacts.removed).values()) + kept == events["ExecutionSucceeded"]
    assert sum(moved(metrics.control.disconnects).values()) == (
        machine.counters["sessions_opened"] - sum(1 for _ in machine.sessions())
    )
    assert len(meter._waiting_since) == machine.queued


def end_coordinator(watched: Watched) -> None:
    watched.machine.step(cv.ShutdownRequested("enough"), AFTER_ALL_S)
    assert held_by(watched.meter, apart_from=KEPT) == {}


def end_worker(watched: Watched) -> None:
    machine: WorkerMachine = watched.machine
    for session in list(machine.sessions()):
        machine.step(wv.SessionLost(session.session_id, LossReason.CONNECTION_LOST), AFTER_ALL_S)
    machine.step(wv.DrainRequested(), AFTER_ALL_S)
    for attempt in [each.attempt_id for each in machine.attempts() if each.state == "stopping"]:
        machine.step(wv.ExecutionStopped(attempt), AFTER_ALL_S)
    assert held_by(watched.meter, apart_from=KEPT) == {}


def test_whatever_happens_all_is_counted_once_and_nothing_is_remembered_when_all_is_over() -> None:
    coordinators: list[Watched] = []
    workers: list[Watched] = []

    def on_coordinator(machine: CoordinatorMachine) -> None:
        metrics = CoordinatorMetrics(CollectorRegistry())
        coordinators.append(Watched(machine, CoordinatorMeter(metrics, machine, LoopOrLaterClock()), metrics))

    def on_worker(machine: WorkerMachine) -> None:
        metrics = WorkerMetrics(CollectorRegistry(), (OFTEN, SELDOM))
        workers.append(Watched(machine, WorkerMeter(metrics, machine, LoopOrLaterClock()), metrics))

    with watched_processes(on_coordinator, on_worker):
        play_seeds(range(3000, 3006))
    for watched in coordinators:
        coordinator_agrees(watched)
        end_coordinator(watched)
        coordinator_agrees(watched)
    for watched in workers:
        worker_agrees(watched)
        end_worker(watched)
        worker_agrees(watched)
    assert len(coordinators) + len(workers) > 30

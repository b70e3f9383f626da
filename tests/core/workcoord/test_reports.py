"""What the machines tell for people to look at: round trips, disks, and how long work has waited, and why a work goes
to another worker."""

from collections.abc import Callable

import pytest

from quarterdeck.core.ids import SessionId, WorkerId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.tables import ReassignmentReason
from quarterdeck.core.workcoord.messages import (
    ArtifactLost,
    BeatEcho,
    CoordinatorBeat,
    DiskReported,
    Goodbye,
    RejectReason,
    WorkAccepted,
    WorkFailed,
    WorkReady,
    WorkRejected,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import AttemptId, DiskUse, WorkError
from quarterdeck.core.workcoord.peer import LossReason
from quarterdeck.core.workcoord.worker import events as wv
from tests.core.workcoord.harness import ARTIFACT, FINAL, PASSING, START, Bridge, Mate, leaf, of

USE = DiskUse(artifact_bytes=1, cache_bytes=2, free_bytes=3)


def test_a_beat_carries_the_time_and_its_echo_tells_the_round_trip() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    effects = bridge.advance(1.0)
    (beat,) = [e.message for e in of(ce.SendToWorker, effects) if isinstance(e.message, CoordinatorBeat)]
    assert beat.sent_at == START + 1
    bridge.advance(0.25)
    assert bridge.says(session, BeatEcho(beat.sent_at)) == [ce.ReportRoundTrip(WorkerId("w1"), 0.25)]


def test_an_echo_that_comes_very_late_is_fine_because_we_may_have_been_stopped_ourselves() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    bridge.advance(100.0)
    (report,) = of(ce.ReportRoundTrip, bridge.says(session, BeatEcho(START + 1)))
    assert report.round_trip_s == 99.0


@pytest.mark.parametrize("sent_at", [-1.0, START + 1, float("nan")])
def test_the_echo_of_a_beat_that_was_never_sent_breaks_the_session(sent_at: float) -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    (closed,) = of(ce.CloseSession, bridge.says(session, BeatEcho(sent_at)))
    assert closed.reason is ce.CloseReason.PROTOCOL


Detour = Callable[[Bridge, SessionId, AttemptId], list[ce.Effect]]

DETOURS: dict[ReassignmentReason, Detour] = {
    ReassignmentReason.REJECTED: lambda b, s, a: b.says(s, WorkRejected(a, RejectReason.NOT_ACCEPTING)),
    ReassignmentReason.RETURNED: lambda b, s, a: b.says(s, WorkReturned(a)),
    ReassignmentReason.FAILED: lambda b, s, a: b.says(s, WorkAccepted(a), WorkFailed(a, PASSING)),
    ReassignmentReason.FETCH_FAILED: lambda b, s, a: [
        *b.says(s, WorkAccepted(a), WorkReady(a, ARTIFACT)),
        *b.step(cv.FetchFailed(a, PASSING)),
    ],
    ReassignmentReason.ARTIFACT_LOST: lambda b, s, a: b.says(
        s, WorkAccepted(a), WorkReady(a, ARTIFACT), ArtifactLost(a, "evicted")
    ),
    ReassignmentReason.WORKER_LOST: lambda b, s, _: b.loses(s),
}


@pytest.mark.parametrize("reason", DETOURS)
def test_an_attempt_whose_work_goes_to_another_worker_is_reported_with_the_reason(reason: ReassignmentReason) -> None:
    bridge = Bridge()
    session = bridge.joins()
    attempt = bridge.submit(leaf()).current_id
    effects = DETOURS[reason](bridge, session, attempt)
    assert of(ce.ReportReassignment, effects) == [ce.ReportReassignment(attempt, reason)]


@pytest.mark.parametrize("error", [FINAL, PASSING])
def test_a_work_that_is_given_up_goes_to_nobody_and_is_not_reported(error: WorkError) -> None:
    bridge = Bridge(max_failures=1)
    session = bridge.joins()
    work = bridge.submit(leaf())
    effects = bridge.says(session, WorkAccepted(work.current_id), WorkFailed(work.current_id, error))
    assert of(ce.EndQuery, effects)
    assert of(ce.ReportReassignment, effects) == []


def test_of_the_works_of_a_lost_worker_each_is_reported_for_itself() -> None:
    bridge = Bridge()
    session = bridge.joins()
    attempts = [bridge.submit(leaf(name)).current_id for name in ("a", "b")]
    assert of(ce.ReportReassignment, bridge.loses(session)) == [
        ce.ReportReassignment(attempt, ReassignmentReason.WORKER_LOST) for attempt in attempts
    ]


@pytest.mark.parametrize("reason", LossReason)
def test_a_peer_that_breaks_the_rules_of_the_conversation_is_counted_by_either_machine(reason: LossReason) -> None:
    bridge, mate = Bridge(), Mate()
    bridge.loses(bridge.joins(), reason)
    mate.loses(mate.opens(), reason)
    broke = int(reason is LossReason.PROTOCOL)
    assert bridge.machine.counters["protocol_errors"] == mate.machine.counters["protocol_errors"] == broke


def test_a_worker_answers_each_beat_at_once_with_an_echo() -> None:
    mate = Mate()
    session = mate.opens()
    assert mate.told(mate.hears(session, CoordinatorBeat(17.5)), session) == [BeatEcho(17.5)]


def test_a_worker_tells_all_its_sessions_how_full_its_disk_is_and_a_new_one_at_its_beginning() -> None:
    mate = Mate()
    first, second = mate.opens("s1"), mate.opens("s2")
    effects = mate.step(wv.DiskMeasured(USE))
    assert mate.told(effects, first) == mate.told(effects, second) == [DiskReported(USE)]
    third = mate.opens("s3")
    assert mate.told(mate.log, third).count(DiskReported(USE)) == 1


def test_a_worker_that_has_drained_tells_a_new_session_nothing_but_goodbye() -> None:
    mate = Mate()
    mate.step(wv.DiskMeasured(USE))
    mate.step(wv.DrainRequested())
    assert mate.told(mate.log, mate.opens("late")) == [Goodbye("drained")]


def test_the_coordinator_keeps_what_a_worker_said_last_of_its_disk() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    record = bridge.machine.roster.session(session)
    assert record is not None
    assert record.disk is None
    bridge.says(session, DiskReported(USE))
    assert record.disk == USE


def oldest_s(bridge: Bridge) -> float:
    waiting = (query.oldest_since for query in bridge.machine.ledger.queries())
    return max((bridge.now - since for since in waiting if since is not None), default=0.0)


def test_the_oldest_pending_age_is_that_of_the_work_that_waits_longest() -> None:
    bridge = Bridge()
    assert oldest_s(bridge) == 0.0
    first = bridge.submit(leaf("a", "q1"))
    bridge.advance(2.0)
    bridge.submit(leaf("b", "q2"), leaf("c", "q1"))
    bridge.advance(1.0)
    bridge.open_query("empty")
    assert oldest_s(bridge) == 3.0
    bridge.cancel_work(first)
    assert oldest_s(bridge) == 1.0
    bridge.cancel("q1")
    assert oldest_s(bridge) == 1.0
    bridge.joins("w1")
    assert oldest_s(bridge) == 0.0


def test_a_work_that_comes_back_waits_anew() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    bridge.submit(leaf("a"))
    bridge.advance(5.0)
    bridge.loses(session)
    bridge.advance(1.0)
    assert oldest_s(bridge) == 1.0

"""Who is there: sessions, silence, and what becomes of work while nobody is there to do it."""

import pytest

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.tables import WorkerState, WorkState
from quarterdeck.core.workcoord.messages import (
    CreditChanged,
    CreditConfirmed,
    Goodbye,
    Refused,
    Registered,
    RejectReason,
    Throttled,
    WorkerBeat,
    WorkRejected,
)
from quarterdeck.core.workcoord.model import LivenessPolicy, WorkerStatus
from tests.core.workcoord.harness import (
    ACCEPTING,
    DRAINING,
    LEAF,
    OTHER,
    PAUSED,
    SCAN,
    Bridge,
    leaf,
    of,
    only_end,
)

W, S = WorkState, WorkerState


# Who is there


def test_an_older_incarnation_is_refused() -> None:
    bridge = Bridge()
    session = bridge.joins(incarnation=2)
    bridge.log.clear()
    late = bridge.joins(incarnation=1, credit=None)
    refused, closed = bridge.log
    assert isinstance(refused, ce.SendToWorker)
    assert isinstance(refused.message, Refused)
    assert refused.session_id == late
    assert "w1" in refused.message.reason
    assert isinstance(closed, ce.CloseSession)
    assert (closed.session_id, closed.reason) == (late, ce.CloseReason.REFUSED)
    assert [s.session_id for s in bridge.machine.roster.sessions()] == [session]
    assert bridge.machine.counters["registrations_refused"] == 1
    assert bridge.machine.counters["sessions_opened"] == 1


@pytest.mark.parametrize("incarnation", [1, 2])
def test_a_newer_session_replaces_the_older_one_of_the_same_worker(incarnation: int) -> None:
    bridge = Bridge()
    old = bridge.joins(incarnation=1)
    work = bridge.submit(leaf())
    bridge.log.clear()
    new = bridge.joins(incarnation=incarnation)
    (closed,) = of(ce.CloseSession, bridge.log)
    assert (closed.session_id, closed.reason) == (old, ce.CloseReason.REPLACED)
    assert [s.session_id for s in bridge.machine.roster.sessions()] == [new]
    assert (bridge.session_of(work), work.number) == (new, 2)


def test_a_session_begins_with_the_rules_it_is_held_to() -> None:
    liveness = LivenessPolicy(interval_s=5)
    bridge = Bridge(liveness=liveness)
    session = bridge.joins(credit=3)
    welcome, confirmed = bridge.sent(bridge.log, session)
    assert isinstance(welcome, Registered)
    assert (welcome.session_id, welcome.coordinator_id) == (session, "c1")
    assert welcome.liveness == liveness
    assert confirmed == CreditConfirmed(3)


def test_a_worker_that_says_goodbye_is_gone() -> None:
    bridge = Bridge()
    session = bridge.joins()
    effects = bridge.says(session, Goodbye("drained"))
    assert effects == [ce.CloseSession(session, ce.CloseReason.GOODBYE, "drained")]
    assert len(bridge.machine.roster) == 0


# Silence


def test_a_silent_worker_gets_nothing_new_after_two_beats_and_is_lost_after_three() -> None:
    bridge = Bridge()
    silent = bridge.joins("w1")
    work = bridge.submit(leaf())
    assert not of(ce.WarnOfSilence, bridge.advance(1.99, silent=[silent]))
    effects = bridge.advance(0.02, silent=[silent])
    assert of(ce.WarnOfSilence, effects) == [ce.WarnOfSilence(silent, WorkerId("w1"), 2.0)]
    second = bridge.submit(leaf("b"))
    assert second.state is W.PENDING
    assert work.state is W.ASSIGNED  # what it has, it keeps
    effects = bridge.advance(0.98, silent=[silent])
    assert not of(ce.CloseSession, effects)
    assert not of(ce.WarnOfSilence, effects)
    effects = bridge.advance(0.02, silent=[silent])
    assert of(ce.CloseSession, effects) == [
        ce.CloseSession(silent, ce.CloseReason.SILENT, "nothing heard for 3.0 s"),
    ]
    assert work.state is W.PENDING


def test_beats_go_out_at_the_interval_and_any_word_counts_as_one() -> None:
    bridge = Bridge()
    session = bridge.joins(status=PAUSED)
    beats = 0
    for tenth in range(100):
        effects = bridge.advance(0.1, silent=[session])
        beats += len(bridge.sent(effects, session))
        if tenth % 15 == 0:
            bridge.says(session, Throttled(1))
    assert beats == 10
    assert not of(ce.WarnOfSilence, bridge.log)


@pytest.mark.parametrize("asleep_s", [1.5, 10.0, 1000.0])
def test_a_coordinator_that_was_paused_itself_blames_nobody(asleep_s: float) -> None:
    bridge = Bridge()
    session = bridge.joins()
    bridge.submit(leaf())
    due = bridge.machine.next_deadline()
    assert due is not None
    bridge.now = due + asleep_s  # nobody woke it
    effects = bridge.settle()
    assert not of(ce.CloseSession, effects)
    assert bridge.machine.counters["own_pauses"] >= 1
    bridge.says(session, WorkerBeat(ACCEPTING))
    assert bridge.session(session).state is S.ACCEPTING


def test_after_a_pause_of_its_own_a_coordinator_waits_the_whole_time_again() -> None:
    bridge = Bridge()
    session = bridge.joins()
    due = bridge.machine.next_deadline()
    assert due is not None
    bridge.now = due + 60
    bridge.advance(1.9, silent=[session])
    assert bridge.machine.counters["own_pauses"] == 1
    assert bridge.session(session).state is S.ACCEPTING
    bridge.advance(0.2, silent=[session])
    assert bridge.session(session).state is S.LATE
    bridge.advance(1, silent=[session])
    assert bridge.machine.roster.session(session) is None


def test_a_timer_that_is_late_by_no_more_than_a_beat_is_no_pause() -> None:
    bridge = Bridge()
    session = bridge.joins()
    bridge.advance(1, silent=[session])
    bridge.now += 2.0  # due was 1 s ago
    bridge.advance(0, silent=[session])
    assert bridge.machine.counters["own_pauses"] == 0
    assert len(bridge.machine.roster) == 0


def test_time_that_is_not_due_changes_nothing() -> None:
    bridge = Bridge()
    assert bridge.step(cv.TimePassed()) == []
    bridge.joins()
    assert bridge.step(cv.TimePassed()) == []


def test_a_clock_that_goes_backwards_stands_still() -> None:
    bridge = Bridge()
    session = bridge.joins()
    bridge.now -= 500
    bridge.says(session, WorkerBeat(ACCEPTING))
    assert bridge.machine.next_deadline() == bridge.now + 501
    bridge.now += 500
    bridge.advance(1.5, silent=[session])
    assert bridge.session(session).state is S.ACCEPTING


@pytest.mark.parametrize("beginning", [0.0, 0.1, 0.30000000000000004, 1000.0])
def test_silence_is_found_at_any_time_of_day(beginning: float) -> None:
    """A sum of times that was rounded up and a difference that was rounded down once left a timer due for ever."""
    for step in range(800):
        bridge = Bridge()
        bridge.now = beginning + step * 0.7310585786300049
        session = bridge.joins()
        bridge.advance(3.5, silent=[session])
        assert len(bridge.machine.roster) == 0


# Late, and back


def test_a_late_worker_that_says_goodbye_is_given_nothing_first() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    bridge.advance(2.0, silent=[session])
    assert bridge.session(session).state == "late"
    work = bridge.submit(leaf())
    effects = bridge.says(session, Goodbye("drained"))
    assert bridge.assigned(effects) == []
    assert (work.state, work.failures) == (W.PENDING, 0)


@pytest.mark.parametrize("status", [DRAINING, PAUSED])
def test_a_late_worker_that_comes_back_without_taking_work_is_given_nothing_first(status: WorkerStatus) -> None:
    """Seeds 502554 and 107066."""
    bridge = Bridge()
    session = bridge.joins("w1")
    bridge.advance(2.0, silent=[session])
    work = bridge.submit(leaf())
    assert bridge.assigned(bridge.says(session, WorkerBeat(status))) == []
    assert bridge.session(session).state is (S.DRAINING if status.draining else S.PAUSED)
    assert work.number == 0


def test_a_late_worker_that_comes_back_with_less_credit_or_a_throttle_is_given_no_more_than_it_takes() -> None:
    bridge = Bridge()
    fewer, throttled = bridge.joins("w1", credit=4), bridge.joins("w2", credit=4)
    bridge.advance(2.0, silent=[fewer, throttled])
    bridge.submit(*(leaf(name) for name in "abcdef"))
    assert len(bridge.assigned(bridge.says(fewer, CreditChanged(1)))) == 1
    assert bridge.assigned(bridge.says(throttled, Throttled(1.0))) == []
    assert len(bridge.assigned(bridge.advance(1.0))) == 4


def test_a_late_worker_that_rejects_what_it_had_is_given_nothing_first() -> None:
    bridge = Bridge()
    session = bridge.joins("w1")
    work = bridge.submit(leaf())
    bridge.advance(2.0, silent=[session])
    bridge.submit(leaf("b"))
    rejected = WorkRejected(work.current_id, RejectReason.NOT_ACCEPTING)
    assert bridge.assigned(bridge.says(session, rejected)) == []
    assert bridge.session(session).state is S.PAUSED


# No worker


def test_work_without_a_worker_waits_and_fails_with_a_clear_error_after_the_limit() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    bridge.submit(leaf(tenant="acme"))
    bridge.joins("w1")
    bridge.joins("w2", tenant="acme", kinds=frozenset({OTHER}))
    bridge.joins("w3", tenant="acme", status=PAUSED)
    assert not of(ce.EndQuery, bridge.advance(4.99))
    end = only_end(bridge.advance(0.01))
    assert end.outcome is ce.Outcome.FAILED
    assert end.error is not None
    assert (end.error.code, end.error.retryable) == ("no_worker", True)
    assert end.error.message == (
        "no worker takes leaf work of tenant 'acme', waited 5 s; connected: 2 accepting, 1 paused; "
        "start a worker that takes it, or ask again later"
    )
    assert bridge.machine.pending == 0


def test_the_error_says_when_nobody_is_connected_at_all() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=0.5)
    bridge.submit(leaf())
    end = only_end(bridge.advance(0.5))
    assert end.error is not None
    assert "no worker is connected" in end.error.message


def test_a_worker_that_comes_in_time_saves_the_query() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    work = bridge.submit(leaf())
    bridge.advance(4.9)
    bridge.joins(credit=None)  # it takes the work as soon as it has room: that is not waiting for nobody
    assert not of(ce.EndQuery, bridge.advance(60))
    assert work.state is W.PENDING
    assert not of(ce.EndQuery, bridge.log)


def test_nobody_waits_for_a_worker_while_another_is_there() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    bridge.joins("w1", credit=0)
    leaving = bridge.joins("w2", credit=0)
    bridge.submit(leaf())
    bridge.loses(leaving)
    assert not of(ce.EndQuery, bridge.advance(60))


def test_the_wait_begins_when_the_last_worker_leaves() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    session = bridge.joins(credit=0)
    bridge.submit(leaf())
    bridge.advance(60)
    bridge.says(session, WorkerBeat(PAUSED))
    assert not of(ce.EndQuery, bridge.advance(4.9))
    bridge.submit(leaf("b"))  # another work does not make it longer
    assert of(ce.EndQuery, bridge.advance(0.1))


def test_a_query_without_a_limit_waits_for_ever_and_one_that_got_its_work_done_does_not_fail() -> None:
    bridge = Bridge()
    bridge.submit(leaf("a", "patient"))
    bridge.open_query("hasty", wait_limit_s=5)
    hasty = bridge.submit(leaf("a", "hasty"))
    bridge.cancel_work(hasty)
    assert not of(ce.EndQuery, bridge.advance(10_000))
    assert bridge.machine.next_deadline() is None


def test_each_kind_and_tenant_waits_for_itself() -> None:
    bridge = Bridge()
    bridge.joins(kinds=frozenset({LEAF}))
    bridge.open_query(wait_limit_s=5)
    bridge.submit(leaf("a"), leaf("b", kind=SCAN))
    end = only_end(bridge.advance(5))
    assert end.error is not None
    assert "scan work" in end.error.message


def test_a_wait_limit_that_ended_while_the_coordinator_did_not_run_gets_some_grace() -> None:
    bridge = Bridge()
    bridge.open_query(wait_limit_s=5)
    bridge.submit(leaf())
    bridge.now += 60  # stopped for a minute
    assert of(ce.EndQuery, bridge.settle()) == []
    assert of(ce.EndQuery, bridge.advance(2.9)) == []
    assert len(of(ce.EndQuery, bridge.advance(0.2))) == 1

"""A reserved worker: what is counted, what runs out, and what ends it."""

import pytest

from quarterdeck.recruiter.machine import reservation_effects as ef
from quarterdeck.recruiter.machine import reservation_events as ev
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from tests.recruiter.machine.reserved_worker import A, State, embedded, only, registered, reserved

# Reserved


def test_a_reserved_worker_takes_no_other_work_until_it_is_released() -> None:
    worker = registered()
    assert worker.reserve() == [ef.SetAccepting(False)]
    assert (worker.machine.is_reserved, worker.machine.label) == (True, "label")
    assert worker.release() == [ef.SetAccepting(True), ef.Register(2, A)]
    assert (worker.machine.is_reserved, worker.machine.label) == (False, "")


def test_a_released_worker_that_is_busy_does_not_register() -> None:
    worker = registered()
    worker.busy()
    worker.reserve()
    assert worker.release() == [ef.SetAccepting(True)]
    assert worker.state is State.AWAY


@pytest.mark.parametrize("reservation", ["r1", ""])
def test_searches_of_the_reservation_are_admitted(reservation: str) -> None:
    assert reserved().ask(1, reservation) == [ef.AdmitSearch(1)]


def test_a_search_of_another_reservation_is_refused() -> None:
    assert reserved().ask(1, "r0") == [ef.RefuseSearch(1, "it is reserved for another search")]


@pytest.mark.parametrize("reservation", ["r1", ""])
def test_a_search_and_a_release_of_another_tenant_are_refused_whatever_they_name(reservation: str) -> None:
    worker = registered()
    worker.reserve(reservation, "acme")
    assert worker.ask(1, "r1", "other") == [ef.RefuseSearch(1, "it is reserved for another search")]
    assert worker.ask(2, "", "other") == [ef.RefuseSearch(2, "it is reserved for another search")]
    assert worker.ask(3, "r1", "acme") == [ef.AdmitSearch(3)]
    assert worker.release("r1", "other") == worker.release("", "other") == []
    assert worker.machine.is_reserved
    assert worker.release("r1", "acme") == [ef.StopSearch(3, "its root has released the worker")]


def test_an_early_release_of_another_tenant_does_not_end_the_reservation() -> None:
    worker = registered()
    worker.release("r1", "other")
    assert worker.reserve("r1", "acme") == [ef.SetAccepting(False)]
    early = registered()
    early.release("r1", "acme")
    assert early.reserve("r1", "acme") != [ef.SetAccepting(False)]


def test_an_early_search_of_another_tenant_is_refused_when_the_word_has_come() -> None:
    worker = registered()
    assert worker.ask(1, "r1", "other") == []
    assert ef.RefuseSearch(1, "it is reserved for another search") in worker.reserve("r1", "acme")


def test_where_the_recruiter_names_no_reservations_the_tenant_alone_is_checked() -> None:
    worker = reserved(reservation="")
    assert worker.ask(1, "r7") == [ef.AdmitSearch(1)]
    assert ef.SetAccepting(True) in worker.release("r7") + worker.end(1)


def test_a_late_release_of_an_older_reservation_changes_nothing() -> None:
    worker = reserved()
    worker.release("r1")
    worker.reserve("r2")
    worker.ask(1, "r2")
    assert worker.release("r1") == []
    assert worker.state is State.RESERVED
    assert worker.machine.counters["stale_releases"] == 1


def test_a_release_of_a_worker_that_is_not_reserved_changes_nothing() -> None:
    worker = registered()
    worker.busy()
    worker.tell(ev.RegistrationWithdrawn(1))
    assert worker.release("") == worker.release("r1") == []


def test_searches_that_run_at_a_release_are_stopped_and_waited_for() -> None:
    worker = reserved()
    worker.ask(1)
    worker.ask(2)
    why = "its root has released the worker"
    assert worker.release() == [ef.StopSearch(1, why), ef.StopSearch(2, why)]
    assert worker.end(1, broken=True) == []
    assert worker.ask(3) == [ef.RefuseSearch(3, "it is not reserved for a search")]
    assert worker.release() == []
    assert worker.end(2, broken=True) == [ef.SetAccepting(True), ef.Register(2, A)]


# What is faster than the word of its reservation


def test_a_search_that_is_faster_than_its_reservation_waits_for_it() -> None:
    worker = registered()
    assert worker.ask(1, "r1") == []
    assert worker.ask(2, "r0") == []
    effects = worker.reserve("r1")
    assert effects == [
        ef.SetAccepting(False),
        ef.AdmitSearch(1),
        ef.RefuseSearch(2, "it is reserved for another search"),
    ]
    assert worker.wait(50) == []


def test_a_search_waits_no_longer_than_a_second() -> None:
    worker = registered()
    worker.ask(1, "r1")
    assert worker.wait(0.99) == []
    assert worker.wait(0.02) == [ef.RefuseSearch(1, "it is not reserved for a search")]


@pytest.mark.parametrize(
    "event", [ev.RegistrationFailed(1, 0.5), ev.ReregisterAsked(1, 0.5), ev.RegistrationWithdrawn(1)]
)
def test_a_search_is_refused_when_the_registration_ends_without_a_reservation(event: ev.Event) -> None:
    worker = registered()
    worker.ask(1, "r1")
    if isinstance(event, ev.RegistrationWithdrawn):
        worker.busy()
    assert ef.RefuseSearch(1, "it is not reserved for a search") in worker.tell(event)


def test_a_search_that_was_given_up_while_it_waited_is_forgotten() -> None:
    worker = registered()
    worker.ask(1, "r1")
    worker.end(1, broken=True)
    assert worker.reserve("r1") == [ef.SetAccepting(False)]


@pytest.mark.parametrize("reservation", ["r1", ""])
def test_a_release_that_is_faster_than_its_reservation_is_not_dropped(reservation: str) -> None:
    worker = registered()
    worker.wait(20)
    assert worker.release(reservation) == []
    worker.ask(1, reservation)
    assert worker.reserve(reservation) == [ef.RefuseSearch(1, "it is not reserved for a search"), ef.Register(2, A)]
    assert worker.machine.counters["reservations_over_at_once"] == 1


def test_a_release_of_long_before_is_not_taken_for_one_of_this_reservation() -> None:
    worker = registered()
    worker.release("")
    worker.wait(1.1)
    worker.reserve("")
    assert worker.state is State.RESERVED


def test_strangers_that_release_what_there_is_not_cost_no_memory() -> None:
    worker = registered()
    for number in range(1000):
        worker.release(f"x{number}")
    assert worker.machine.counters["stale_releases"] == 900


# Left alone


def test_a_reserved_worker_that_gets_no_search_leaves() -> None:
    worker = reserved()
    assert worker.wait(9.9) == []
    assert worker.wait(0.2) == [
        ef.LeaveProcess("reserved, and no search came for 10 s"),
        ef.FinishDrain(),
    ]
    assert (worker.state, worker.accepting) == (State.GONE, False)
    assert worker.drain() == []
    assert worker.ask(1) == [ef.RefuseSearch(1, "it is draining")]
    assert worker.machine.next_deadline() is None


def test_an_embedded_worker_that_gets_no_search_registers_again() -> None:
    worker = reserved(embedded())
    assert worker.wait(10.1) == [ef.SetAccepting(True), ef.Register(2, A)]


def test_the_time_of_a_root_does_not_run_while_one_of_its_searches_does() -> None:
    worker = reserved()
    worker.ask(1)
    worker.ask(2)
    worker.wait(40)
    worker.end(1)  # with a flag instead of a count, the worker would now count as idle
    assert worker.wait(19) == []
    worker.end(2)
    assert worker.wait(9.9) == []
    assert only(ef.LeaveProcess, worker.wait(0.2))


def test_the_time_of_a_root_starts_anew_when_a_connection_breaks() -> None:
    worker = reserved()
    worker.wait(9)
    worker.ask(1)
    worker.wait(30)
    worker.end(1, broken=True)
    assert worker.wait(9.9) == []
    assert only(ef.LeaveProcess, worker.wait(0.2))
    assert worker.machine.counters["searches_broken"] == 1


def test_the_next_search_keeps_the_reservation() -> None:
    worker = reserved()
    for number in range(10):
        worker.wait(9)
        worker.ask(number)
        worker.end(number)
    assert worker.state is State.RESERVED


# A root that hangs


def test_a_search_without_progress_is_cut_and_the_time_of_its_root_runs() -> None:
    worker = reserved(embedded())
    worker.ask(1)
    worker.wait(50)
    worker.tell(ev.SearchProgressed(1))
    assert worker.wait(59) == []
    assert worker.wait(2) == [ef.StopSearch(1, "it made no progress for 60 s")]
    worker.tell(ev.SearchProgressed(1))  # too late
    worker.end(1, broken=True)
    assert worker.wait(8.9) == []
    assert worker.wait(0.2) == [ef.SetAccepting(True), ef.Register(2, A)]


def test_a_search_that_was_cut_and_does_not_stop_holds_nothing_up_but_the_registration() -> None:
    worker = reserved(embedded())
    worker.ask(1)
    worker.wait(61)
    assert worker.wait(10) == []
    assert worker.state is State.ENDING
    assert worker.end(1, broken=True) == [ef.SetAccepting(True), ef.Register(2, A)]


def test_progress_of_one_search_is_not_that_of_another() -> None:
    worker = reserved()
    worker.ask(1)
    worker.ask(2)
    stopped: list[ef.Effect] = []
    for _ in range(13):
        worker.tell(ev.SearchProgressed(2))
        stopped += worker.wait(5)
    assert stopped == [ef.StopSearch(1, "it made no progress for 60 s")]


# Draining


def test_draining_takes_the_registration_back_and_is_done() -> None:
    worker = registered()
    worker.ask(1)
    assert worker.drain() == [ef.RefuseSearch(1, "it is draining"), ef.WithdrawRegistration(1)]
    assert worker.ask(2) == [ef.RefuseSearch(2, "it is draining")]
    assert worker.tell(ev.RegistrationWithdrawn(1)) == [ef.FinishDrain()]


@pytest.mark.parametrize("idle", [True, False])
def test_a_worker_that_is_not_registered_is_drained_at_once(idle: bool) -> None:
    worker = registered()
    worker.fail()
    worker.tell(ev.IdleChanged(idle))
    assert worker.drain() == [ef.FinishDrain()]
    assert worker.drain() == []
    assert worker.machine.next_deadline() is None


def test_a_reservation_that_comes_while_it_drains_is_over_at_once() -> None:
    worker = registered()
    worker.drain()
    assert worker.reserve() == [ef.FinishDrain()]


def test_a_reserved_worker_that_is_drained_finishes_what_runs_and_goes() -> None:
    worker = reserved()
    worker.ask(1)
    worker.ask(2)
    assert worker.drain() == []
    assert worker.ask(3) == [ef.RefuseSearch(3, "it is draining")]
    assert worker.end(1) == []
    assert worker.end(2) == [ef.FinishDrain()]
    assert not worker.accepting


def test_a_reserved_worker_without_searches_is_drained_at_once() -> None:
    assert reserved().drain() == [ef.FinishDrain()]


def test_draining_does_not_wait_for_ever() -> None:
    worker = reserved(ReservationConfig("worker:1", (A,), progress_s=1000, drain_max_s=30))
    worker.ask(1)
    worker.drain()
    assert worker.wait(31) == [ef.StopSearch(1, "the time for draining ran out")]
    assert worker.end(1) == [ef.FinishDrain()]


def test_a_search_that_hangs_while_it_drains_is_cut_and_it_goes() -> None:
    worker = reserved()
    worker.ask(1)
    worker.drain()
    assert worker.wait(61) == [ef.StopSearch(1, "it made no progress for 60 s")]
    assert worker.end(1, broken=True) == [ef.FinishDrain()]

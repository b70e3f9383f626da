"""When a worker is registered, with whom, and how soon again."""

from collections import Counter

import pytest

from quarterdeck.recruiter.machine import reservation_effects as ef
from quarterdeck.recruiter.machine import reservation_events as ev
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from tests.recruiter.machine.reserved_worker import A, B, C, ReservedWorker, State, embedded, only, registered


def delays_of(worker: ReservedWorker, tries: int, unit: float = 0.5) -> list[float]:
    """The waits before each of so many tries, all of which fail at once."""
    found: list[float] = []
    for _ in range(tries):
        failed_at = worker.now
        worker.fail(unit)
        while worker.state is State.WAITING:
            due = worker.machine.next_deadline()
            assert due is not None
            worker.wait(due - worker.now)
        found.append(worker.now - failed_at)
    return found


# Idle and busy


def test_a_worker_registers_when_it_has_been_idle_for_a_moment() -> None:
    worker = ReservedWorker()
    assert worker.idle() == []
    assert worker.wait(0.19) == []
    assert worker.wait(0.02) == [ef.Register(1, A)]
    assert worker.state is State.REGISTERED


def test_a_worker_between_two_works_does_not_come_and_go() -> None:
    worker = ReservedWorker()
    for _ in range(10):
        worker.idle()
        worker.wait(0.15)
        worker.busy()
        worker.wait(0.01)
    assert worker.registered_at == []


def test_to_be_told_again_that_it_is_idle_does_not_make_it_wait_longer() -> None:
    worker = ReservedWorker()
    worker.idle()
    worker.wait(0.15)
    worker.idle()
    assert only(ef.Register, worker.wait(0.06))


def test_a_worker_without_recruiters_is_never_registered() -> None:
    worker = ReservedWorker(ReservationConfig("worker:1", ()))
    worker.idle()
    assert worker.machine.next_deadline() is None
    assert worker.ask(1) == [ef.RefuseSearch(1, "it is not reserved for a search")]


def test_becoming_busy_takes_the_registration_back() -> None:
    worker = registered()
    assert worker.busy() == [ef.WithdrawRegistration(1)]
    worker.tell(ev.RegistrationWithdrawn(1))
    assert worker.state is State.AWAY
    assert worker.machine.next_deadline() is None


def test_a_worker_that_is_idle_again_registers_only_when_its_registration_was_taken_back() -> None:
    worker = registered()
    worker.busy()
    worker.idle()
    assert worker.wait(5) == []
    worker.tell(ev.RegistrationWithdrawn(1))
    assert (worker.state, worker.poll) == (State.REGISTERED, 2)


def test_a_reservation_that_was_on_its_way_when_the_registration_was_taken_back_counts() -> None:
    worker = registered()
    worker.busy()
    assert worker.reserve() == [ef.SetAccepting(False)]
    assert worker.ask(1) == [ef.AdmitSearch(1)]


@pytest.mark.parametrize(
    "event", [ev.RegistrationFailed(1, 0.5), ev.ReregisterAsked(1, 0.5), ev.RegistrationWithdrawn(1)]
)
def test_a_registration_that_was_taken_back_may_end_in_any_way(event: ev.Event) -> None:
    worker = registered()
    worker.busy()
    worker.tell(event)
    assert worker.state is State.AWAY


def test_a_busy_spell_does_not_shorten_the_wait_for_a_recruiter_that_fails() -> None:
    worker = registered()
    delays_of(worker, 9)
    worker.fail()
    worker.busy()
    worker.idle()
    assert worker.wait(7) == []
    assert only(ef.Register, worker.wait(1))


# Again


def test_reregister_is_followed_at_once() -> None:
    worker = registered()
    worker.wait(30)
    assert worker.reregister() == [ef.Register(2, A)]


def test_a_recruiter_that_always_asks_to_register_again_makes_nobody_spin() -> None:
    worker = registered()
    began, tries = worker.now, 0
    while worker.now < began + 60:
        if worker.state is State.REGISTERED:
            worker.reregister()
            tries += 1
        else:
            worker.wait(0.01)
    assert tries < 25


def test_a_recruiter_that_refuses_is_tried_after_200_ms_and_half_as_long_again_each_time() -> None:
    waits = delays_of(registered(), 14)
    assert waits[:4] == pytest.approx([0.2, 0.3, 0.45, 0.675])
    assert waits[-2:] == pytest.approx([10.0, 10.0])


def test_chance_spreads_the_waits_by_a_tenth() -> None:
    assert delays_of(registered(), 1, unit=0.0) == pytest.approx([0.18])
    assert delays_of(registered(), 1, unit=0.999999) == pytest.approx([0.22], rel=1e-4)


def test_a_registration_that_held_makes_the_next_wait_short_again() -> None:
    worker = registered()
    delays_of(worker, 10)
    worker.wait(1.0)
    assert delays_of(worker, 1) == pytest.approx([0.2])


@pytest.mark.parametrize("unit", [0.0, 0.3, 0.5, 0.7, 0.9999])
@pytest.mark.parametrize("outage_s", [0.0, 0.05, 0.19, 0.21, 0.45, 0.4999])
@pytest.mark.parametrize("failed_before", [0, 1, 12])
def test_all_workers_are_back_within_a_second_of_an_outage_under_half_a_second(
    outage_s: float, unit: float, failed_before: int
) -> None:
    worker = registered()
    delays_of(worker, failed_before)
    worker.wait(1.0)
    began = worker.now
    worker.fail(unit)
    while True:
        while worker.state is State.WAITING:
            due = worker.machine.next_deadline()
            assert due is not None
            worker.wait(due - worker.now)
        if worker.now - began >= outage_s:
            break
        worker.fail(unit)  # connections are refused at once
    assert worker.now - began < 1.0


@pytest.mark.parametrize("outage_s", [0.7, 3.0, 60.0, 3600.0])
def test_after_a_longer_outage_all_workers_are_back_within_one_wait(outage_s: float) -> None:
    worker = registered()
    began, last_wait = worker.now, 0.0
    while worker.now - began < outage_s:
        last_wait = delays_of(worker, 1, unit=0.9999)[0]
    assert worker.now - (began + outage_s) <= last_wait <= 11.0


# Several recruiters


def test_workers_divide_themselves_evenly_between_recruiters() -> None:
    first = Counter(
        ReservationMachine(ReservationConfig(f"10.0.0.{number}:7072", (A, B))).recruiters[0] for number in range(400)
    )
    assert min(first.values()) > 160


def test_the_order_of_the_list_and_doubles_in_it_mean_nothing() -> None:
    one = ReservationMachine(ReservationConfig("worker:1", (A, B, C)))
    other = ReservationMachine(ReservationConfig("worker:1", (C, A, B, A)))
    assert one.recruiters == other.recruiters
    assert sorted(one.recruiters) == [A, B, C]


def test_errors_move_on_to_the_next_recruiter_and_reregister_goes_back_to_the_first_choice() -> None:
    worker = registered(embedded(A, B, C))
    first, second, third = worker.machine.recruiters
    seen = [worker.recruiter]
    for _ in range(3):
        delays_of(worker, 1)
        seen.append(worker.recruiter)
    assert seen == [first, second, third, first]
    delays_of(worker, 1)
    assert worker.recruiter == second
    worker.wait(30)
    worker.reregister()
    assert worker.recruiter == first


def test_only_one_registration_is_open_at_a_time() -> None:
    worker = registered(embedded(A, B))
    with pytest.raises(AssertionError, match="registration 7 ended"):
        worker.tell(ev.RegistrationFailed(7, 0.5))

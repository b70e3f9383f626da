"""Bugs of recruiting, put in on purpose: each changes a method as a mistake would. They must be found."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from quarterdeck.core.placement import choose_from
from quarterdeck.recruiter.agent import ReservationAgent
from quarterdeck.recruiter.machine import pool
from quarterdeck.recruiter.machine.pool import PoolMachine
from quarterdeck.recruiter.machine.registration_tries import RegistrationTries
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.machine.reservation_table import ReservationState
from quarterdeck.recruiter.machine.reservation_timers import ProgressTimer
from quarterdeck.recruiter.model import Holder
from quarterdeck.recruiter.service import RecruiterService
from quarterdeck.search.machine.search import SearchMachine
from quarterdeck.search.machine.search_effects import CommitChunk, HangUp, ReleaseWorker
from quarterdeck.search.machine.search_events import ChunkFinished
from quarterdeck.search.root.driver import SearchDriver
from quarterdeck.search.world.faults import FAULTS

Method = Callable[..., Any]


def _changed(*changes: tuple[type, str, Callable[[Method], Method]]) -> AbstractContextManager[object]:
    """Replaces methods by what each change makes of them."""
    stack = ExitStack()
    for owner, name, change in changes:
        stack.enter_context(patch.object(owner, name, change(getattr(owner, name))))
    return stack


def an_address_registered_twice_is_two_workers() -> AbstractContextManager[object]:
    """The older registration stays in the pool."""

    def change(open_: Method) -> Method:
        def changed(machine: Any, number: int, offer: Any, timeout_s: float) -> Any:
            machine._number_of.pop((offer.tenant, offer.addr), None)
            return open_(machine, number, offer, timeout_s)

        return changed

    return _changed((PoolMachine, "_open", change))


def a_recruit_between_register_and_wait_is_not_told() -> AbstractContextManager[object]:
    """The worker is in the pool a moment before anybody waits for what becomes of it."""

    def change(open_: Method) -> Method:
        def changed(service: Any, offer: Any, timeout_s: float, answer: Callable[[Any], None]) -> int:
            waiting: list[bool] = []
            asyncio.get_running_loop().call_later(0.1, waiting.append, True)

            def answer_if_waiting(ending: Any) -> None:
                if waiting:
                    answer(ending)

            return open_(service, offer, timeout_s, answer_if_waiting)

        return changed

    return _changed((RecruiterService, "open", change))


def a_worker_that_hung_up_stays_in_the_pool() -> AbstractContextManager[object]:
    def change(_: Method) -> Method:
        def changed(service: Any, registration: int) -> None:
            pass

        return changed

    return _changed((RecruiterService, "abandon", change))


def a_recruit_gets_one_less_than_there_are() -> AbstractContextManager[object]:
    def changed(pools: Any, number: int) -> list[int]:
        chosen = choose_from(pools, number)
        return chosen[:-1] if 1 < len(chosen) < number else chosen

    return patch.object(pool, "choose_from", changed)


def busy_is_a_flag() -> AbstractContextManager[object]:
    """The first of several searches that ends counts for all of them."""

    def change(not_running: Method) -> Method:
        def changed(machine: Any, search: int) -> None:
            machine._running = 1
            not_running(machine, search)

        return changed

    return _changed((ReservationMachine, "_not_running", change))


def releases_are_dropped() -> AbstractContextManager[object]:
    def change(_: Method) -> Method:
        def changed(agent: Any, reservation: str, tenant: str) -> None:
            pass

        return changed

    return _changed((ReservationAgent, "release", change))


def a_release_that_overtakes_its_reservation_is_dropped() -> AbstractContextManager[object]:
    def change(release: Method) -> Method:
        def changed(agent: Any, reservation: str, tenant: str) -> None:
            if agent.machine.state is not ReservationState.REGISTERED:
                release(agent, reservation, tenant)

        return changed

    return _changed((ReservationAgent, "release", change))


def the_word_that_it_is_idle_is_dropped() -> AbstractContextManager[object]:
    """If it comes while the registration is still being taken back."""

    def change(idle_changed: Method) -> Method:
        def changed(machine: Any, idle: bool) -> None:
            if not idle or machine.state is ReservationState.AWAY:
                idle_changed(machine, idle)

        return changed

    return _changed((ReservationMachine, "_idle_changed", change))


def the_word_that_a_search_broke_off_is_dropped() -> AbstractContextManager[object]:
    def change(search_ended: Method) -> Method:
        def changed(machine: Any, search: int, *, broken: bool) -> None:
            if not broken or search in machine._asked:
                search_ended(machine, search, broken=broken)

        return changed

    return _changed((ReservationMachine, "_search_ended", change))


def any_release_frees_the_worker() -> AbstractContextManager[object]:
    """The name of the reservation is not looked at."""

    def change(release_asked: Method) -> Method:
        def changed(machine: Any, holder: Holder) -> None:
            release_asked(machine, replace(holder, reservation=machine._reservation or holder.reservation))

        return changed

    return _changed((ReservationMachine, "_release_asked", change))


def any_search_is_admitted() -> AbstractContextManager[object]:
    def change(_: Method) -> Method:
        def changed(machine: Any, holder: Holder) -> bool:
            return machine.state is ReservationState.RESERVED

        return changed

    def only_for_searches(decide: Method) -> Method:
        def changed(machine: Any, search: int, holder: Holder) -> None:
            with _changed((ReservationMachine, "_is_current", change)):
                decide(machine, search, holder)

        return changed

    return _changed((ReservationMachine, "_decide", only_for_searches))


def a_root_that_hangs_keeps_its_worker() -> AbstractContextManager[object]:
    """A search without progress is waited for, again and again."""

    def change(stop: Method) -> Method:
        def changed(machine: Any, search: int, why: str) -> None:
            if "no progress" in why:
                machine._deadlines.set(ProgressTimer(search), machine._now + machine.config.progress_s)
            else:
                stop(machine, search, why)

        return changed

    return _changed((ReservationMachine, "_stop", change))


def workers_come_back_late() -> AbstractContextManager[object]:
    def change(fail: Method) -> Method:
        def changed(tries: Any, now: float, unit: float) -> None:
            fail(tries, now, unit)
            tries.not_before = now + 2.5

        return changed

    return _changed((RegistrationTries, "fail", change))


def a_canceled_search_keeps_its_workers() -> AbstractContextManager[object]:
    def change(end: Method) -> Method:
        def changed(machine: Any) -> None:
            end(machine)
            machine._effects[:] = [effect for effect in machine._effects if not isinstance(effect, ReleaseWorker)]

        return changed

    return _changed((SearchMachine, "_end", change))


@contextmanager
def a_late_answer_counts_too() -> Generator[None]:
    """Of a worker that was given up the other searches go on, and what they bring is committed."""

    def go_on(execute: Method) -> Method:
        def changed(driver: Any, effect: Any) -> None:
            if not isinstance(effect, HangUp):
                execute(driver, effect)

        return changed

    def take(_: Method) -> Method:
        def changed(driver: Any, seat: Any, chunk: Any, answer: Any) -> None:
            driver._forget(seat, chunk)
            if not driver.machine.is_over:
                driver._answers[chunk.number] = answer
                driver._stepper.apply(ChunkFinished(seat, chunk.number, 10))

        return changed

    def commit(chunk_finished: Method) -> Method:
        def changed(machine: Any, seat: Any, record: Any, result_bytes: int) -> None:
            if record.seat != seat and record.state == "committed":
                machine._do(CommitChunk(record.number))
            else:
                chunk_finished(machine, seat, record, result_bytes)

        return changed

    changes = (
        (SearchDriver, "_execute", go_on),
        (SearchDriver, "_answered", take),
        (SearchMachine, "_chunk_finished", commit),
    )
    with _changed(*changes):
        yield


@dataclass(frozen=True, slots=True)
class Bug:
    make: Callable[[], AbstractContextManager[object]]
    words: tuple[str, ...]
    """What the message about it may contain: one of these."""
    kinds: tuple[str, ...] = tuple(FAULTS)
    """The faults to look with; fewer only to save time."""
    first: int = 0
    """The seed to begin with, only to save time: at or before the first that shows it."""

    @property
    def name(self) -> str:
        return self.make.__name__


BUGS = (
    Bug(an_address_registered_twice_is_two_workers, ("twice in its pool",), ("cut", "lost-reply")),
    Bug(a_recruit_between_register_and_wait_is_not_told, ("did not tell the worker",)),
    Bug(a_worker_that_hung_up_stays_in_the_pool, ("nobody serves it",)),
    Bug(a_recruit_gets_one_less_than_there_are, ("were free",)),
    Bug(busy_is_a_flag, ("searches run, not",)),
    Bug(releases_are_dropped, ("that was released is not back",)),
    Bug(
        a_release_that_overtakes_its_reservation_is_dropped,
        ("was released and is still reserved",),
        ("partition",),
        first=50,
    ),
    Bug(the_word_that_it_is_idle_is_dropped, ("a worker is lost",), ("busy",)),
    Bug(the_word_that_a_search_broke_off_is_dropped, ("a worker is lost", "a request met"), ("cut", "wedge")),
    Bug(any_release_frees_the_worker, ("took",), ("pause",)),
    Bug(any_search_is_admitted, ("and searches for",), ("pause",), first=30),
    Bug(a_root_that_hangs_keeps_its_worker, ("a worker is lost",), ("wedge",)),
    Bug(workers_come_back_late, ("is not back", "a worker is lost")),
    Bug(a_canceled_search_keeps_its_workers, ("did not release",)),
    Bug(a_late_answer_counts_too, ("committed twice", "says it is missing"), ("lost-reply",), first=30),
)

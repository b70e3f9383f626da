"""The recruiter on a loop with virtual time: registrations are held, answered once, or taken back."""

import asyncio
import copy
import pickle
from collections.abc import Callable
from itertools import count

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.recruiter.machine import pool_effects as ef
from quarterdeck.recruiter.machine import pool_events as ev
from quarterdeck.recruiter.model import Directive, Offer, Recruited
from quarterdeck.recruiter.ports import Recruiting, Registered
from quarterdeck.recruiter.service import Ending, OwnRecruiter, RecruiterService, SupersededError
from tests.crew.played import LoopClock, now_s, played


class Numbered:
    """Ids that a test can foresee."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def reservation_id(self) -> str:
        return f"r{next(self._numbers)}"


def service() -> RecruiterService:
    return RecruiterService(LoopClock(), Numbered())


def offer(name: str = "w", node: str = "n1") -> Offer:
    return Offer(f"{name}:1", node)


async def held(recruiter: RecruiterService, *names: str, timeout_s: float = 30.0) -> list[asyncio.Task[Registered]]:
    """Registrations that have begun."""
    before = recruiter.figures().registrations
    tasks = [asyncio.create_task(recruiter.hold(offer(name), timeout_s)) for name in names]
    await until(lambda: recruiter.figures().registrations == before + len(names))
    return tasks


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(1):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by
            await asyncio.sleep(0)


@played
async def test_a_held_registration_ends_when_its_worker_is_recruited() -> None:
    recruiter = service()
    (waiting,) = await held(recruiter, "w")
    assert recruiter.recruit(1, "nightly") == (Recruited("w:1", "n1", 1, "r1/0"),)
    assert await waiting == Registered(Directive.RESERVED, "r1/0", "nightly", "default")
    assert recruiter.figures().free == 0


@played
async def test_it_ends_after_its_time_with_the_word_to_register_again() -> None:
    recruiter = service()
    begun_s = now_s()
    (waiting,) = await held(recruiter, "w", timeout_s=7.0)
    assert await waiting == Registered(Directive.REREGISTER)
    assert 6.3 <= now_s() - begun_s <= 7.1
    assert recruiter.recruit(1) == ()


@played
async def test_many_that_end_at_the_same_time_all_end() -> None:
    recruiter = service()
    waiting = await held(recruiter, *(f"w{index}" for index in range(300)), timeout_s=5.0)
    assert {one.directive for one in await asyncio.gather(*waiting)} == {Directive.REREGISTER}


@played
async def test_one_that_is_canceled_is_taken_back() -> None:
    recruiter = service()
    (waiting,) = await held(recruiter, "w")
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
    assert recruiter.recruit(1) == ()


@played
async def test_one_whose_address_registers_again_is_told_so_and_the_other_goes_on() -> None:
    recruiter = service()
    (older,) = await held(recruiter, "w")
    (newer,) = await held(recruiter, "w")
    with pytest.raises(SupersededError, match="w:1 has registered again since"):
        await older
    assert not newer.done()
    assert [worker.addr for worker in recruiter.recruit(2)] == ["w:1"]
    assert (await newer).directive is Directive.RESERVED


@played
async def test_a_recruit_in_the_very_moment_of_the_registration_is_heard() -> None:
    recruiter = service()
    heard: list[Ending] = []
    recruiter.open(offer(), 30.0, heard.append)
    recruiter.recruit(1)
    assert heard == [Registered(Directive.RESERVED, "r1/0", "", "default")]


@played
async def test_what_was_answered_can_be_abandoned_and_is_not_answered_again() -> None:
    recruiter = service()
    heard: list[Ending] = []
    registration = recruiter.open(offer(), 30.0, heard.append)
    recruiter.recruit(1)
    recruiter.abandon(registration)
    recruiter.abandon(registration)
    assert len(heard) == 1


@played
async def test_what_was_abandoned_is_not_answered() -> None:
    recruiter = service()
    heard: list[Ending] = []
    registration = recruiter.open(offer(), 30.0, heard.append)
    recruiter.abandon(registration)
    assert recruiter.recruit(1) == ()
    recruiter.close()
    assert heard == []


@played
async def test_to_ask_for_nobody_is_refused_and_costs_nothing() -> None:
    recruiter = service()
    with pytest.raises(QuarterdeckError) as refused:
        recruiter.recruit(0)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert recruiter.figures().recruits == 0


@played
async def test_closing_sends_every_worker_to_another_recruiter_and_takes_no_more() -> None:
    recruiter = service()
    waiting = await held(recruiter, "a", "b")
    recruiter.close()
    recruiter.close()
    assert [one.directive for one in await asyncio.gather(*waiting)] == [Directive.REREGISTER] * 2
    for attempt in (lambda: recruiter.open(offer(), 30.0, lambda _: None), lambda: recruiter.recruit(1)):
        with pytest.raises(QuarterdeckError) as refused:
            attempt()
        assert (refused.value.code, refused.value.retryable) == (ErrorCode.UNAVAILABLE, True)
    with pytest.raises(QuarterdeckError):
        await recruiter.hold(offer(), 30.0)


@played
async def test_free_workers_are_listed_with_how_long_they_have_waited() -> None:
    recruiter = service()
    (first,) = await held(recruiter, "a")
    await asyncio.sleep(2.0)
    (second,) = await held(recruiter, "b")
    assert [(one.offer.addr, round(waiting_s, 3)) for one, waiting_s in recruiter.free()] == [
        ("a:1", 2.0),
        ("b:1", 0.0),
    ]
    recruiter.close()
    await asyncio.gather(first, second)


@played
async def test_the_recruiter_of_the_same_process_gives_a_root_workers_and_nobody_once_it_is_closed() -> None:
    recruiter = service()
    own: Recruiting = OwnRecruiter(recruiter)
    (waiting,) = await held(recruiter, "w")
    assert [worker.addr for worker in await own.recruit(3, "", "default")] == ["w:1"]
    await waiting
    with pytest.raises(QuarterdeckError, match="0 were asked for"):
        await own.recruit(0, "", "default")
    recruiter.close()
    assert await own.recruit(3, "", "default") == ()


@played
async def test_an_observer_sees_every_step() -> None:
    seen: list[tuple[str, int]] = []

    class Watcher:
        def stepped(self, event: ev.Event, effects: list[ef.Effect]) -> None:
            seen.append((type(event).__name__, len(effects)))

    recruiter = RecruiterService(LoopClock(), Numbered(), Watcher())
    recruiter.open(offer(), 30.0, lambda _: None)
    recruiter.recruit(1)
    assert seen == [("RegistrationOpened", 0), ("RecruitRequested", 2)]


def test_the_error_of_a_superseded_registration_can_be_copied() -> None:
    error = SupersededError("w:1")
    for made in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(made), made.code) == (str(error), error.code)

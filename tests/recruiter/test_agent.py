"""The agent of a worker at the recruiters, on the simulated loop: the machine's decisions, carried out."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from quarterdeck.recruiter.agent import AdmittedSearch, NotReservedError, ReservationAgent, SearchStoppedError
from quarterdeck.recruiter.machine import reservation_effects as ef
from quarterdeck.recruiter.machine import reservation_events as ev
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from quarterdeck.recruiter.machine.reservation_table import ReservationState
from quarterdeck.recruiter.model import Directive, Offer
from quarterdeck.recruiter.ports import Registered, RegistrationFailedError
from tests.crew.played import LoopClock, now_s, played, settle

EMBEDDED = ReservationConfig("w:1", ("http://a",), leave_when_abandoned=False)
LEAVES = replace(EMBEDDED, leave_when_abandoned=True)


class PlayedRegistry:
    """Recruiters, played by the test: it ends the registration that is open."""

    def __init__(self) -> None:
        self.open: asyncio.Future[Registered] | None = None
        self.began: list[tuple[float, str, Offer, float]] = []
        self.taken_back = 0

    async def register(self, recruiter: str, offer: Offer, timeout_s: float) -> Registered:
        assert self.open is None, "one registration at a time"
        self.began.append((now_s(), recruiter, offer, timeout_s))
        self.open = asyncio.get_running_loop().create_future()
        try:
            return await self.open
        except asyncio.CancelledError:
            self.taken_back += 1
            raise
        finally:
            self.open = None

    def answer(self, answer: Registered | Exception) -> None:
        assert self.open is not None, "no registration is open"
        if isinstance(answer, Registered):
            self.open.set_result(answer)
        else:
            self.open.set_exception(answer)

    async def reserve(self, reservation: str = "r1") -> None:
        self.answer(Registered(Directive.RESERVED, reservation))
        await settle()


class Scene:
    def __init__(self, config: ReservationConfig) -> None:
        self.registry = PlayedRegistry()
        self.accepting: list[bool] = []
        self.left: list[str] = []
        self.troubles: list[str] = []
        self.machine = ReservationMachine(config)
        self.agent = ReservationAgent(
            self.machine,
            Offer("w:1", "node"),
            self.registry,
            poll_s=30,
            clock=LoopClock(),
            chance=lambda: 0.5,
            set_accepting=self.accepting.append,
            leave=self.left.append,
            observer=self,
            on_trouble=lambda peer, what: self.troubles.append(f"{peer}: {what}"),
        )
        self.running = asyncio.create_task(self.agent.run())

    def stepped(self, event: ev.Event, effects: list[ef.Effect]) -> None:
        self.machine.check_invariants()

    async def registered(self) -> None:
        self.agent.idle_changed(True)
        await asyncio.sleep(0.3)
        assert self.registry.open is not None

    async def reserved(self, reservation: str = "r1") -> None:
        await self.registered()
        await self.registry.reserve(reservation)

    def search(self, reservation: str = "r1", takes_s: float = 5.0) -> "asyncio.Task[float]":
        """A search that runs for so long; when it ended."""
        return asyncio.create_task(self._search(reservation, takes_s))

    async def _search(self, reservation: str, takes_s: float) -> float:
        async with self.agent.searching(reservation):
            await asyncio.sleep(takes_s)
        return now_s()


@asynccontextmanager
async def scene(config: ReservationConfig = EMBEDDED) -> AsyncGenerator[Scene]:
    one = Scene(config)
    try:
        yield one
    finally:
        one.running.cancel()
        await asyncio.wait([one.running])


@played
async def test_an_idle_worker_is_registered_with_what_it_offers() -> None:
    async with scene() as s:
        await s.registered()
        ((at, recruiter, offer, timeout_s),) = s.registry.began
        assert at == pytest.approx(0.2, abs=0.01)
        assert (recruiter, offer, timeout_s) == ("http://a", Offer("w:1", "node"), 30)


@played
async def test_a_worker_that_becomes_busy_is_taken_back_and_registers_again_later() -> None:
    async with scene() as s:
        await s.registered()
        s.agent.idle_changed(False)
        await settle()
        assert s.registry.taken_back == 1
        await s.registered()
        assert len(s.registry.began) == 2


@played
async def test_a_reservation_that_came_in_the_moment_it_is_taken_back_counts() -> None:
    async with scene() as s:
        await s.registered()
        s.registry.answer(Registered(Directive.RESERVED, "r1"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        s.agent.idle_changed(False)
        await settle()
        # Either it was taken back before the answer was heard, or it counts: never is a registration lost sight of.
        assert s.machine.state is (ReservationState.AWAY if s.registry.taken_back else ReservationState.RESERVED)


@played
async def test_a_recruiter_that_fails_is_told_of_and_tried_again() -> None:
    async with scene() as s:
        await s.registered()
        began = now_s()
        s.registry.answer(RegistrationFailedError("it hung up"))
        await asyncio.sleep(0.5)
        assert s.registry.began[-1][0] - began == pytest.approx(0.2, abs=0.01)
        assert s.troubles == ["http://a: we are not registered: it hung up"]


@played
async def test_a_registry_that_breaks_is_one_that_failed() -> None:
    async with scene() as s:
        await s.registered()
        s.registry.answer(LookupError("a bug"))
        await asyncio.sleep(0.5)
        assert len(s.registry.began) == 2
        await asyncio.sleep(1.0)
        assert s.registry.open is not None
        s.registry.open.cancel()
        await asyncio.sleep(0.5)
        assert len(s.registry.began) == 3


@played
async def test_a_recruiter_that_asks_to_register_again_is_followed_at_once() -> None:
    async with scene() as s:
        await s.registered()
        await asyncio.sleep(30)
        s.registry.answer(Registered(Directive.REREGISTER))
        await settle()
        assert len(s.registry.began) == 2


# Searches


@played
async def test_a_reserved_worker_searches_takes_no_other_work_and_is_free_when_released() -> None:
    async with scene() as s:
        await s.reserved()
        assert s.accepting == [False]
        await asyncio.gather(s.search(takes_s=20), s.search(takes_s=30))
        assert s.machine.is_reserved
        s.agent.release("r1")
        assert s.accepting == [False, True]
        await settle()
        assert len(s.registry.began) == 2


@played
async def test_a_search_of_somebody_else_is_refused() -> None:
    async with scene() as s:
        with pytest.raises(NotReservedError, match="it is not reserved"):
            await s.search()
        await s.reserved()
        with pytest.raises(NotReservedError, match="reserved for another"):
            await s.search("r0")


@played
async def test_a_search_that_is_faster_than_its_reservation_waits_for_it() -> None:
    async with scene() as s:
        await s.registered()
        search, other = s.search("r1"), s.search("r0")
        await asyncio.sleep(0.5)
        assert not search.done()
        await s.registry.reserve("r1")
        await search
        assert isinstance(other.exception(), NotReservedError)


@played
async def test_a_release_stops_what_runs_and_the_worker_registers_when_it_has_stopped() -> None:
    async with scene() as s:
        await s.reserved()

        async def slow_to_stop() -> None:
            async with s.agent.searching("r1"):
                try:
                    await asyncio.sleep(50)
                finally:
                    await asyncio.sleep(3)

        searches = [asyncio.create_task(slow_to_stop()), s.search()]
        await settle()
        s.agent.release("r1")
        await asyncio.sleep(2)
        assert (len(s.registry.began), s.accepting) == (1, [False])
        await asyncio.wait(searches)
        assert [type(each.exception()) for each in searches] == [SearchStoppedError] * 2
        await settle()
        assert (len(s.registry.began), s.accepting) == (2, [False, True])


@played
async def test_a_release_in_the_moment_in_which_a_search_was_admitted_stops_it() -> None:
    async with scene() as s:
        await s.reserved()
        search = s.search()
        while not s.machine.searches:  # noqa: ASYNC110 - there is nothing to be told by
            await asyncio.sleep(0)
        s.agent.release("r1")
        with pytest.raises(SearchStoppedError, match="released"):
            await search
        assert s.machine.searches == 0


@played
async def test_a_root_that_hangs_up_leaves_no_search_behind() -> None:
    async with scene() as s:
        await s.registered()
        for turns in range(8):
            early = s.search()
            for _ in range(turns):
                await asyncio.sleep(0)
            early.cancel()
            await asyncio.wait([early])
        await s.registry.reserve()
        for turns in range(8):
            search = s.search()
            for _ in range(turns):
                await asyncio.sleep(0)
            search.cancel()
            await asyncio.wait([search])
            assert search.cancelled()
        assert s.machine.searches == 0
        await asyncio.sleep(10.1)
        assert s.accepting == [False, True]


@played
async def test_a_root_that_hangs_up_in_the_moment_in_which_it_is_refused_is_forgotten() -> None:
    async with scene() as s:
        await s.registered()
        search = s.search()
        await settle()
        search.cancel()
        s.agent.drain()
        await asyncio.wait([search])
        assert search.cancelled()
        await s.running


@played
async def test_a_root_that_hangs_up_as_its_worker_is_released_is_still_canceled() -> None:
    async with scene() as s:
        await s.reserved()
        search = s.search()
        await settle()
        s.agent.release("r1")
        search.cancel()
        await asyncio.wait([search])
        assert search.cancelled()


@played
async def test_a_search_without_progress_is_stopped() -> None:
    async with scene() as s:
        await s.reserved()
        began = now_s()
        searches: list[AdmittedSearch] = []

        async def hang() -> None:
            async with s.agent.searching("r1") as search:
                searches.append(search)
                await asyncio.sleep(1000)

        hanging = asyncio.create_task(hang())
        await asyncio.sleep(50)
        searches[0].progressed()
        with pytest.raises(SearchStoppedError, match="no progress for 60 s"):
            await hanging
        assert now_s() - began == pytest.approx(110, abs=0.1)


@played
async def test_a_worker_that_its_root_left_alone_leaves() -> None:
    async with scene(LEAVES) as s:
        await s.reserved()
        await asyncio.sleep(10.1)
        assert s.left == ["reserved, and no search came for 10 s"]
        assert s.running.done()
        with pytest.raises(NotReservedError, match="it is stopping"):
            await s.search()
        s.agent.release("r1")
        s.agent.idle_changed(False)
        s.agent.drain()


# The end


@played
async def test_draining_lets_searches_finish_and_takes_no_more() -> None:
    async with scene() as s:
        await s.reserved()
        search = s.search(takes_s=7)
        await settle()
        s.agent.drain()
        with pytest.raises(NotReservedError, match="it is draining"):
            await s.search()
        await s.running
        assert search.done()
        assert await search == pytest.approx(7.3, abs=0.1)


@played
async def test_draining_takes_the_registration_back() -> None:
    async with scene() as s:
        await s.registered()
        waiting = s.search()
        await settle()
        s.agent.drain()
        await s.running
        assert s.registry.taken_back == 1
        assert isinstance(waiting.exception(), NotReservedError)


@played
async def test_an_agent_that_is_canceled_stops_searches_and_waits_for_them() -> None:
    async with scene() as s:
        await s.reserved()
        search = s.search()
        await settle()
        s.running.cancel()
        await asyncio.wait([s.running])
        assert isinstance(search.exception(), SearchStoppedError)


@played
async def test_an_agent_that_is_canceled_takes_the_registration_back_and_refuses_who_waits() -> None:
    async with scene() as s:
        await s.registered()
        waiting = s.search()
        await settle()
        s.running.cancel()
        await asyncio.wait([s.running])
        assert s.registry.taken_back == 1
        assert isinstance(waiting.exception(), NotReservedError)

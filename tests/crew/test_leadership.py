"""Coordinators that stand for leadership over one database, on the simulated loop."""

import asyncio
import random
import shutil
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection, text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import CandidateId, Fence
from quarterdeck.core.leadership.model import MOST_BELIEVED, LeadershipLossReason, LeaseConfig
from quarterdeck.crew.leadership import Leadership
from quarterdeck.crew.observers.leading import LeadershipJournal
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.stores.database.fences.checked import DeposedError
from quarterdeck.stores.database.fences.tables import FENCES_SCHEMA
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.leadership.tables import LEADERSHIP_SCHEMA
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.sql import SqlDatabase
from tests.crew.played import LoopClock, now_s, played

T = TypeVar("T")

LEASE_S = 10.0
REGAINED_WITHIN_S = LEASE_S * 1.4 + 0.1


class Unreliable(InlineDatabase):
    """One process's way to the database, which the test makes slow or breaks."""

    def __init__(self, database: SqlDatabase) -> None:
        super().__init__(database)
        self.is_cut = False
        self.delay_s: Callable[[], float] = lambda: 0.0
        self.loses: Callable[[], bool] = lambda: False

    async def run(self, transaction: Callable[[Connection], T]) -> T:
        await self._way()
        done = await super().run(transaction)
        await self._way()
        return done

    async def read(self, transaction: Callable[[Connection], T]) -> T:
        await self._way()
        return await super().read(transaction)

    async def _way(self) -> None:
        delay_s = self.delay_s()
        if delay_s:
            await asyncio.sleep(delay_s)
        if self.is_cut or self.loses():
            raise QuarterdeckError(ErrorCode.UNAVAILABLE, "the database was not asked", "it is cut off", "wait")


class Candidate:
    def __init__(self, name: str, database: SqlDatabase) -> None:
        self.sql = database
        self.database = Unreliable(database)
        config = LeaseConfig(CandidateId(f"{name}-1"), name, LEASE_S)
        self.leadership = Leadership(self.database, config, LoopClock(), LeadershipJournal())
        self.told: list[Fence | None] = []
        self.leadership.follow(self.told.append)
        self.running = asyncio.create_task(self.leadership.run())

    def kill(self) -> None:
        """No last words."""
        self.running.cancel()

    async def wait_leads(self) -> Fence:
        while (fence := self.leadership.fence) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return fence


@pytest.fixture
def sql(tmp_path: Path) -> Iterator[Callable[[], SqlDatabase]]:
    """An empty database, each time that it is asked for."""
    empty = open_database(tmp_path / "empty.db", [FENCES_SCHEMA, LEADERSHIP_SCHEMA])
    empty.upgrade()
    empty.close()
    opened: list[SqlDatabase] = []

    def new() -> SqlDatabase:
        path = tmp_path / f"{len(opened)}.db"
        shutil.copy(tmp_path / "empty.db", path)
        opened.append(open_database(path, []))
        return opened[-1]

    yield new
    for each in opened:
        each.close()


@asynccontextmanager
async def candidates(database: SqlDatabase, *names: str) -> AsyncGenerator[list[Candidate]]:
    standing = [Candidate(name, database) for name in names]
    try:
        yield standing
    finally:
        for one in standing:
            one.kill()
        await asyncio.wait([one.running for one in standing])


@contextmanager
def takes_at_most(limit_s: float) -> Generator[None]:
    began_s = now_s()
    yield
    assert now_s() - began_s <= limit_s


@played
async def test_one_leads(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a", "b") as (a, b):
        await asyncio.sleep(5 * LEASE_S)
        leader, other = (a, b) if a.leadership.fence is not None else (b, a)
        assert (leader.told, other.told) == ([1], [])
        assert other.leadership.fence is None
        assert leader.leadership.leader is not None
        for one in (a, b):
            assert one.leadership.leader is not None
            assert one.leadership.leader.name == leader.leadership.name


@played
async def test_a_dead_leader_is_replaced(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        fence = await a.wait_leads()
        async with candidates(a.sql, "b") as (b,):
            await asyncio.sleep(LEASE_S)
            a.kill()
            with takes_at_most(REGAINED_WITHIN_S):
                assert await b.wait_leads() == fence + 1
            with pytest.raises(DeposedError):
                await a.database.fenced(fence, lambda _: None)


@played
async def test_a_released_leader_is_replaced_at_the_next_look(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        await a.wait_leads()
        async with candidates(a.sql, "b") as (b,):
            await asyncio.sleep(LEASE_S)
            await a.leadership.release()
            assert a.leadership.fence is None
            assert a.told == [1, None]
            with takes_at_most(LEASE_S * 0.2 + 0.1):
                await b.wait_leads()
            await a.leadership.release()
            assert a.leadership.lost == {LeadershipLossReason.RELEASED: 1}
            await asyncio.wait_for(a.running, 1)


@played
async def test_a_leader_that_is_cut_off_ceases_before_another_leads(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        await a.wait_leads()
        async with candidates(a.sql, "b") as (b,):
            await asyncio.sleep(LEASE_S)
            a.database.is_cut = True
            with takes_at_most(REGAINED_WITHIN_S):
                await b.wait_leads()
            assert a.told == [1, None]
            assert a.leadership.lost == {LeadershipLossReason.LEASE_ENDED: 1}
            assert a.leadership.requests_failed > 1
            a.database.is_cut = False
            await asyncio.sleep(LEASE_S)
            assert (a.leadership.fence, b.leadership.fence) == (None, 2)


@played
async def test_a_leader_that_finds_another_ceases_at_the_next_beat(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        await a.wait_leads()
        taken = "UPDATE leaders SET holder = 'z', name = 'z', fence = 9, beat = 99, lease_ms = 10000"
        await a.database.run(lambda connection: connection.execute(text(taken)))
        await asyncio.sleep(LEASE_S * 0.3)
        assert a.told == [1, None]
        assert a.leadership.lost == {LeadershipLossReason.TAKEN_OVER: 1}
        assert await a.wait_leads() == 10, "it stands again, and z says nothing"


@played
async def test_a_refused_write_ends_leadership_at_once(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        fence = await a.wait_leads()
        await a.database.fenced(Fence(7), lambda _: None)
        with pytest.raises(DeposedError) as caught:
            await a.database.fenced(fence, lambda _: None)
        a.leadership.doubt(caught.value.highest)
        assert a.leadership.fence is None
        assert await a.wait_leads() == 8, "nobody else holds the row"


@played
async def test_a_fence_that_is_no_higher_than_ours_is_no_reason_to_doubt(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        fence = await a.wait_leads()
        a.leadership.doubt(fence)
        assert a.leadership.fence == fence
        a.leadership.doubt(Fence(fence + 1))
        assert a.leadership.fence is None
        assert await a.wait_leads() > fence + 1


@played
async def test_a_fence_above_what_was_seen_elsewhere_is_reached_in_one_step(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        await a.wait_leads()
        a.leadership.doubt(Fence(1_000_000))
        assert await a.wait_leads() == 1_000_001
        a.leadership.doubt(MOST_BELIEVED)
        assert a.leadership.fence is None, "the highest that is believed is believed"


@played
async def test_a_follower_that_comes_late_is_told_at_once(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        fence = await a.wait_leads()
        told: list[Fence | None] = []
        a.leadership.follow(told.append)
        assert told == [fence]


@played
async def test_a_request_that_hangs_holds_up_nobody(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        await a.wait_leads()
        a.database.delay_s = lambda: 1e6
        await asyncio.sleep(LEASE_S)
        assert a.leadership.fence is None
        hanging = [task for task in asyncio.all_tasks() if task.get_name().startswith("leadership ")]
        assert len(hanging) == 1
        a.database.delay_s = lambda: 0.0
        with takes_at_most(LEASE_S * 0.3 + 0.1):
            await a.wait_leads()


@played
async def test_a_release_over_a_database_that_hangs_ends_too(sql: Callable[[], SqlDatabase]) -> None:
    async with candidates(sql(), "a") as (a,):
        await a.wait_leads()
        a.database.delay_s = lambda: 1e6
        with takes_at_most(LEASE_S * 0.3 + 0.1):
            await a.leadership.release()


def test_over_a_database_that_is_slow_and_fails_one_leads_at_a_time_and_leadership_comes_back(
    sql: Callable[[], SqlDatabase],
) -> None:
    """The candidates' machines have a simulation of their own; this one is about what the driver and SQL make of it."""
    gains = 0
    for seed in range(6):
        chance = random.Random(seed)
        loop = SimulatedLoop(chance, time_limit_s=2000.0)
        try:
            gains += loop.run_until_complete(_stormy(chance, sql()))
        finally:
            loop.close()
    assert gains > 12, "the trouble was real"


async def _stormy(chance: random.Random, database: SqlDatabase) -> int:
    async with candidates(database, "a", "b", "c") as standing:
        passed: list[Fence] = []

        async def lead(one: Candidate) -> None:
            """Writes as often as it can, as a leader would."""
            while True:
                await asyncio.sleep(chance.uniform(0.1, 1))
                fence = one.leadership.fence
                if fence is None:
                    continue
                try:
                    await one.database.fenced(fence, lambda _, fence=fence: passed.append(fence))
                except DeposedError as error:
                    one.leadership.doubt(error.highest)
                except QuarterdeckError:
                    pass

        writing = [asyncio.create_task(lead(one)) for one in standing]
        for one in standing:
            one.database.delay_s = lambda: chance.choice([0.0, 0.0, chance.uniform(0, 4)])
            one.database.loses = lambda: chance.random() < 0.1
        for _ in range(600):
            await asyncio.sleep(0.5)
            assert sum(one.leadership.fence is not None for one in standing) <= 1
            if chance.random() < 0.01:
                chance.choice(standing).database.is_cut ^= True
        for one in standing:
            one.database.is_cut, one.database.delay_s, one.database.loses = False, lambda: 0.0, lambda: False
        await asyncio.sleep(REGAINED_WITHIN_S + LEASE_S * 0.3)
        assert sum(one.leadership.fence is not None for one in standing) == 1
        for task in writing:
            task.cancel()
        await asyncio.wait(writing)
        assert passed == sorted(passed), "no write of an older leader passed after one of a newer"
        return sum(one.leadership.gained for one in standing)

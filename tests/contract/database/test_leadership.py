"""The row that says who leads, in SQLite and in Postgres."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from sqlalchemy import text

from quarterdeck.core.ids import CandidateId, Fence
from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership.model import NOBODY, LeaderRow, LeaseConfig
from quarterdeck.stores.database.fences.checked import DeposedError, under_fence
from quarterdeck.stores.database.fences.tables import FENCES_SCHEMA
from quarterdeck.stores.database.leadership.row import RowAnswer, carry_out
from quarterdeck.stores.database.leadership.tables import LEADERSHIP_SCHEMA
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.port import Database
from quarterdeck.stores.database.threaded import ThreadedDatabase
from tests.contract.database.places import Place

SCHEMAS = (FENCES_SCHEMA, LEADERSHIP_SCHEMA)
ME = LeaseConfig(CandidateId("me-1"), "me", lease_s=7.5)
OTHER = LeaseConfig(CandidateId("other-1"), "other", lease_s=3.0)

Play = Callable[[Callable[[Database], Awaitable[None]]], None]


@pytest.fixture
def play(place: Place) -> Play:
    async def opened_for(scenario: Callable[[Database], Awaitable[None]]) -> None:
        database = ThreadedDatabase(open_database(place.url, SCHEMAS))
        try:
            await database.upgrade()
            await scenario(database)
        finally:
            await database.close()

    return lambda scenario: asyncio.run(opened_for(scenario))


def test_a_new_database_has_no_leader(play: Play) -> None:
    async def scenario(database: Database) -> None:
        assert await carry_out(database, ef.ReadRow(1), ME) == RowAnswer(NOBODY, changed=False)

    play(scenario)


def test_a_row_is_taken_beaten_and_released(play: Play) -> None:
    async def scenario(database: Database) -> None:
        mine = LeaderRow(ME.candidate, "me", Fence(1), beat=1, lease_s=7.5)
        assert await carry_out(database, ef.TakeRow(1, NOBODY), ME) == RowAnswer(mine, changed=True)
        beaten = replace(mine, beat=2)
        assert await carry_out(database, ef.RaiseBeat(2, Fence(1)), ME) == RowAnswer(beaten, changed=True)
        assert await carry_out(database, ef.ReadRow(3), OTHER) == RowAnswer(beaten, changed=False)
        free = replace(beaten, holder=None, name="", beat=3)
        assert await carry_out(database, ef.ReleaseRow(4), ME) == RowAnswer(free, changed=True)
        others = LeaderRow(OTHER.candidate, "other", Fence(2), beat=4, lease_s=3.0)
        assert await carry_out(database, ef.TakeRow(1, free), OTHER) == RowAnswer(others, changed=True)

    play(scenario)


def test_what_comes_too_late_changes_nothing(play: Play) -> None:
    async def scenario(database: Database) -> None:
        mine = (await carry_out(database, ef.TakeRow(1, NOBODY), ME)).row
        others = (await carry_out(database, ef.TakeRow(1, mine), OTHER)).row
        late = ef.TakeRow(2, mine), ef.RaiseBeat(2, Fence(1)), ef.ReleaseRow(2)
        for request in late:
            assert await carry_out(database, request, ME) == RowAnswer(others, changed=False)

    play(scenario)


def test_a_takeover_refuses_the_writes_of_the_older_leader_from_that_moment(play: Play) -> None:
    async def scenario(database: Database) -> None:
        mine = (await carry_out(database, ef.TakeRow(1, NOBODY), ME)).row
        await database.fenced(mine.fence, lambda _: None)
        await carry_out(database, ef.TakeRow(1, mine), OTHER)
        with pytest.raises(DeposedError):
            await database.fenced(mine.fence, lambda _: None)

    play(scenario)


def test_a_takeover_is_above_fences_that_others_gave_who_elected_elsewhere(play: Play) -> None:
    async def scenario(database: Database) -> None:
        await database.fenced(Fence(40), lambda _: None)
        assert (await carry_out(database, ef.TakeRow(1, NOBODY), ME)).row.fence == 41

    play(scenario)


def test_of_many_who_take_the_row_at_once_one_has_it(play: Play, place: Place) -> None:
    async def scenario(database: Database) -> None:
        others = [ThreadedDatabase(open_database(place.url, SCHEMAS)) for _ in range(4)]
        takers = [LeaseConfig(CandidateId(f"c{number}"), f"c{number}") for number in range(4)]
        try:
            answers = await asyncio.gather(
                *(carry_out(each, ef.TakeRow(1, NOBODY), me) for each, me in zip(others, takers, strict=True))
            )
        finally:
            for each in others:
                await each.close()
        assert sum(answer.changed for answer in answers) == 1
        assert (await carry_out(database, ef.ReadRow(1), ME)).row.fence == 1

    play(scenario)


def test_a_lease_of_a_fraction_comes_back_as_it_was_written(play: Play) -> None:
    async def scenario(database: Database) -> None:
        me = replace(ME, lease_s=0.12345)
        taken = await carry_out(database, ef.TakeRow(1, NOBODY), me)
        assert taken.row.lease_s == 0.124
        assert (await carry_out(database, ef.ReadRow(2), me)).row == taken.row

    play(scenario)


def test_a_takeover_that_fails_raises_no_fence(place: Place) -> None:
    with place.opened(schemas=SCHEMAS) as database:
        database.upgrade()
        database.run(lambda connection: connection.execute(text("DROP TABLE leaders")))
        me = ThreadedDatabase(database)

        async def scenario() -> None:
            with pytest.raises(Exception, match="leaders"):
                await carry_out(me, ef.TakeRow(1, NOBODY), ME)
            await me.close()

        asyncio.run(scenario())
    with place.opened() as database:
        database.run(under_fence(Fence(0), lambda _: None))

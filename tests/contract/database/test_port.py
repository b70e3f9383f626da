"""What every database promises, in SQLite and in Postgres, in threads and inline."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import Connection, insert
from sqlalchemy.exc import IntegrityError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.failures import DatabaseClosedError
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.port import Database
from quarterdeck.stores.database.threaded import ThreadedDatabase
from tests.contract.database.places import Place, counters, increment, value
from tests.contract.database.toys import FRUIT

Scenario = Callable[[Database], Awaitable[None]]
Play = Callable[[Scenario], None]


@pytest.fixture(params=[ThreadedDatabase, InlineDatabase], ids=["threaded", "inline"])
def play(request: pytest.FixtureRequest, counting: Place) -> Play:
    async def opened_for(scenario: Scenario) -> None:
        database: Database = request.param(open_database(counting.url, [FRUIT]))
        try:
            await scenario(database)
        finally:
            await database.close()

    return lambda scenario: asyncio.run(opened_for(scenario))


def test_what_a_transaction_returned_and_wrote_is_there_afterwards(play: Play) -> None:
    async def scenario(database: Database) -> None:
        def add(connection: Connection) -> str:
            increment(connection)
            return "added"

        assert await database.run(add) == "added"
        assert await database.read(value) == 1

    play(scenario)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), QuarterdeckError(ErrorCode.NOT_FOUND, "what", "why", "next")], ids=["any", "ours"]
)
def test_a_transaction_that_raises_leaves_nothing_and_its_error_is_what_the_caller_sees(
    play: Play, error: Exception
) -> None:
    async def scenario(database: Database) -> None:
        def fail(connection: Connection) -> None:
            increment(connection)
            raise error

        with pytest.raises(type(error)) as caught:
            await database.run(fail)
        assert caught.value is error
        assert await database.read(value) == 0

    play(scenario)


def test_a_read_cannot_write(play: Play) -> None:
    async def scenario(database: Database) -> None:
        with pytest.raises(QuarterdeckError, match="only reads tried to write") as caught:
            await database.read(increment)
        assert caught.value.code is ErrorCode.INTERNAL
        assert await database.read(value) == 0

    play(scenario)


def test_a_read_beside_a_write_sees_the_state_before_it_without_waiting(play: Play, counting: Place) -> None:
    async def scenario(database: Database) -> None:
        def write(connection: Connection) -> int:
            increment(connection)
            with counting.opened() as other:
                return other.read(value)  # would it wait, it would wait for ever: this transaction goes on after it

        assert await database.run(write) == 0
        assert await database.read(value) == 1

    play(scenario)


def test_a_read_sees_one_state_from_its_beginning_to_its_end(play: Play, counting: Place) -> None:
    async def scenario(database: Database) -> None:
        def read(connection: Connection) -> tuple[int, int]:
            before = value(connection)
            with counting.opened() as other:
                other.run(increment)
            return before, value(connection)

        assert await database.read(read) == (0, 0)
        assert await database.read(value) == 1

    play(scenario)


def test_many_tasks_that_increment_lose_nothing(play: Play) -> None:
    async def scenario(database: Database) -> None:
        await asyncio.gather(*(database.run(increment) for _ in range(50)))
        assert await database.read(value) == 50

    play(scenario)


def test_a_constraint_speaks_for_itself(play: Play) -> None:
    async def scenario(database: Database) -> None:
        with pytest.raises(IntegrityError):
            await database.run(lambda connection: connection.execute(insert(counters).values(name="a", value=1)))

    play(scenario)


def test_after_an_error_in_a_savepoint_the_transaction_goes_on(play: Play) -> None:
    async def scenario(database: Database) -> None:
        def insert_or_increment(connection: Connection) -> None:
            try:
                with connection.begin_nested():
                    connection.execute(insert(counters).values(name="b", value=1))
                    connection.execute(insert(counters).values(name="a", value=1))
            except IntegrityError:
                increment(connection)

        await database.run(insert_or_increment)
        assert await database.read(lambda connection: connection.execute(counters.select()).all()) == [("a", 1)]

    play(scenario)


def test_values_are_not_in_errors(play: Play) -> None:
    async def scenario(database: Database) -> None:
        rows = [{"name": "a", "value": 424242}]
        with pytest.raises(IntegrityError) as caught:
            await database.run(lambda connection: connection.execute(insert(counters), rows))
        assert "424242" not in str(caught.value)

    play(scenario)


def test_a_closed_database_says_so_and_may_be_closed_again(play: Play) -> None:
    async def scenario(database: Database) -> None:
        await database.run(increment)
        await database.close()
        await database.close()
        for ask in (database.run, database.read):
            with pytest.raises(DatabaseClosedError, match="has closed it"):
                await ask(value)
        with pytest.raises(DatabaseClosedError):
            await database.upgrade()

    play(scenario)

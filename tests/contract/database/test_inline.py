"""Transactions in place: on the simulated loop, where there are no threads, and cancelled at either end."""

import asyncio
import random

import pytest

from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.opening import open_database
from tests.contract.database.places import Place, increment, make_counter, value
from tests.contract.database.toys import FRUIT


def test_it_runs_on_the_simulated_loop(sqlite_place: Place) -> None:
    async def scenario() -> int:
        database = InlineDatabase(open_database(sqlite_place.url, [FRUIT]))
        await database.upgrade()
        await database.run(make_counter)
        await asyncio.gather(*(database.run(increment) for _ in range(5)))
        found = await database.read(value)
        await database.close()
        return found

    loop = SimulatedLoop(random.Random(1))
    try:
        assert loop.run_until_complete(scenario()) == 5
    finally:
        loop.close()


@pytest.mark.parametrize("turns, committed", [(1, 0), (2, 1)], ids=["before", "after"])
def test_a_cancel_comes_before_the_transaction_or_when_it_is_committed(
    sqlite_place: Place, turns: int, committed: int
) -> None:
    async def scenario() -> int:
        database = InlineDatabase(open_database(sqlite_place.url, ()))
        await database.run(make_counter)
        writing = asyncio.create_task(database.run(increment))
        for _ in range(turns):
            await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        found = await database.read(value)
        await database.close()
        return found

    assert asyncio.run(scenario()) == committed

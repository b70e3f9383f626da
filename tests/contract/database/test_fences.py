"""The highest fence: stored with the write it came with, and lower ones are refused."""

import asyncio
import copy
import pickle
from collections.abc import Callable, Generator

import pytest
from sqlalchemy import Connection

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import Fence
from quarterdeck.stores.database.fences.checked import DeposedError, highest_fence, under_fence
from quarterdeck.stores.database.fences.tables import FENCES_SCHEMA
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.options import DatabaseOptions
from quarterdeck.stores.database.port import Database
from quarterdeck.stores.database.sql import SqlDatabase
from quarterdeck.stores.database.threaded import ThreadedDatabase
from tests.contract.database.places import Place, increment, value

IMPATIENT = DatabaseOptions(lock_timeout_s=0.1, attempts=1)


@pytest.fixture
def fenced_place(counting: Place) -> Place:
    with counting.opened(schemas=[FENCES_SCHEMA]) as database:
        database.upgrade()
    return counting


@pytest.fixture
def database(fenced_place: Place) -> Generator[SqlDatabase]:
    with fenced_place.opened() as opened:
        yield opened


@pytest.fixture(params=[ThreadedDatabase, InlineDatabase], ids=["threaded", "inline"])
def asynchronous(request: pytest.FixtureRequest) -> Callable[[SqlDatabase], Database]:
    return request.param


def test_a_write_under_a_fence_passes_and_its_fence_is_kept(
    fenced_place: Place, asynchronous: Callable[[SqlDatabase], Database]
) -> None:
    async def play() -> None:
        database = asynchronous(open_database(fenced_place.url, [FENCES_SCHEMA]))
        try:
            await database.fenced(Fence(3), increment)
            await database.fenced(Fence(3), increment)
            with pytest.raises(DeposedError):
                await database.fenced(Fence(2), increment)
            assert await database.read(value) == 2
        finally:
            await database.close()

    asyncio.run(play())
    with fenced_place.opened() as again:
        assert again.run(highest_fence) == 3, "it outlives the process"


def test_a_write_under_a_lower_fence_is_refused_and_leaves_nothing(database: SqlDatabase) -> None:
    database.run(under_fence(Fence(7), increment))
    with pytest.raises(DeposedError, match="another coordinator leads now") as caught:
        database.run(under_fence(Fence(6), increment))
    assert (caught.value.fence, caught.value.highest) == (6, 7)
    assert caught.value.code is ErrorCode.DEPOSED
    assert caught.value.retryable, "the same request may succeed at the coordinator that leads"
    assert database.read(value) == 1


def test_a_fence_whose_write_failed_was_not_seen(database: SqlDatabase) -> None:
    def fail(connection: Connection) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run(under_fence(Fence(7), fail))
    database.run(under_fence(Fence(6), increment))


def test_no_higher_fence_comes_between_a_check_and_its_commit(fenced_place: Place, database: SqlDatabase) -> None:
    """Otherwise the write of the older leader would be committed after the new one has looked at what there is."""

    def write(connection: Connection) -> None:
        increment(connection)
        with fenced_place.opened(IMPATIENT) as other, pytest.raises(QuarterdeckError, match="others were in the way"):
            other.run(under_fence(Fence(2), lambda _: None))

    database.run(under_fence(Fence(1), write))
    database.run(under_fence(Fence(1), write))
    with fenced_place.opened() as other:
        other.run(under_fence(Fence(2), increment))
    with pytest.raises(DeposedError):
        database.run(under_fence(Fence(1), increment))
    assert database.read(value) == 3


def test_an_older_leader_whose_transaction_began_before_the_takeover_is_refused(
    fenced_place: Place, database: SqlDatabase
) -> None:
    """In Postgres its transaction would see the state before the takeover; in SQLite the two cannot overlap."""
    if fenced_place.kind == "sqlite":
        pytest.skip("only one writes at a time there")
    taken: list[Fence] = []

    def late(connection: Connection) -> None:
        value(connection)  # from here on it sees one state
        if not taken:
            with fenced_place.opened() as other:
                other.run(under_fence(Fence(2), lambda _: None))
            taken.append(Fence(2))
        under_fence(Fence(1), increment)(connection)

    with pytest.raises(DeposedError):
        database.run(late)
    assert database.read(value) == 0


def test_a_refusal_survives_a_copy() -> None:
    error = DeposedError(Fence(1), Fence(2))
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), again.fence, again.highest, str(again)) == (DeposedError, 1, 2, str(error))

"""Threads beside the event loop: what a cancel and a close mean to a transaction that is under way."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import Connection

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.failures import DatabaseClosedError
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.threaded import ThreadedDatabase
from tests.contract.database.places import Place, increment, value


class Held:
    """A transaction that has written and goes on when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()

    def __call__(self, connection: Connection) -> None:
        increment(connection)
        self.begun.set()
        assert self.release.wait(20)

    async def wait_begun(self) -> None:
        await asyncio.to_thread(self.begun.wait, 20)


@asynccontextmanager
async def threaded(place: Place) -> AsyncGenerator[ThreadedDatabase]:
    database = ThreadedDatabase(open_database(place.url, ()))
    try:
        yield database
    finally:
        await database.close()


def now(place: Place) -> int:
    with place.opened() as database:
        return database.read(value)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_readers_and_the_event_loop_go_on_while_the_writer_is_slow(counting: Place) -> None:
    async def scenario() -> None:
        async with threaded(counting) as database:
            held = Held()
            writing = asyncio.create_task(database.run(held))
            await held.wait_begun()
            assert await asyncio.gather(*(database.read(value) for _ in range(10))) == [0] * 10
            assert not writing.done()
            held.release.set()
            await writing
            assert await database.read(value) == 1

    run(scenario)


def test_several_read_at_once(counting: Place) -> None:
    async def scenario() -> None:
        async with threaded(counting) as database:
            met = threading.Barrier(4)
            await asyncio.gather(*(database.read(lambda _: met.wait(20)) for _ in range(4)))

    run(scenario)


def test_a_cancel_ends_the_waiting_and_the_transaction_is_committed_as_a_whole(counting: Place) -> None:
    async def scenario() -> None:
        async with threaded(counting) as database:
            held = Held()
            writing = asyncio.create_task(database.run(held))
            await held.wait_begun()
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            assert await database.read(value) == 0
            held.release.set()
            await database.run(increment)
            assert await database.read(value) == 2

    run(scenario)


def test_a_transaction_that_was_canceled_before_it_began_does_not_begin(counting: Place) -> None:
    async def scenario() -> None:
        async with threaded(counting) as database:
            held = Held()
            writing = asyncio.create_task(database.run(held))
            await held.wait_begun()
            behind = asyncio.create_task(database.run(increment))
            await asyncio.sleep(0)
            behind.cancel()
            with pytest.raises(asyncio.CancelledError):
                await behind
            held.release.set()
            await writing
            await database.run(lambda _: None)
            assert await database.read(value) == 1

    run(scenario)


def test_closing_waits_for_what_was_asked_for(counting: Place) -> None:
    async def scenario() -> None:
        database = ThreadedDatabase(open_database(counting.url, ()))
        held = Held()
        writing = asyncio.create_task(database.run(held))
        behind = asyncio.create_task(database.run(increment))
        await held.wait_begun()
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        with pytest.raises(DatabaseClosedError):
            await database.run(increment)
        assert not closing.done()
        held.release.set()
        await closing
        await asyncio.gather(writing, behind)

    run(scenario)
    assert now(counting) == 2


def test_closing_waits_for_a_read_too(counting: Place) -> None:
    async def scenario() -> None:
        database = ThreadedDatabase(open_database(counting.url, ()))
        begun, release = threading.Event(), threading.Event()

        def read(connection: Connection) -> int:
            begun.set()
            assert release.wait(20)
            return value(connection)

        reading = asyncio.create_task(database.read(read))
        await asyncio.to_thread(begun.wait, 20)
        closing = asyncio.create_task(database.close())
        await asyncio.wait([closing], timeout=0.05)
        assert not closing.done()
        release.set()
        await closing
        assert await reading == 0

    run(scenario)


def test_what_fails_while_it_is_closed_fails_for_whoever_asked(counting: Place) -> None:
    async def scenario() -> None:
        database = ThreadedDatabase(open_database(counting.url, ()))
        held = Held()

        def fail(connection: Connection) -> None:
            held(connection)
            raise ZeroDivisionError

        writing = asyncio.create_task(database.run(fail))
        await held.wait_begun()
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        held.release.set()
        await closing
        with pytest.raises(ZeroDivisionError):
            await writing

    run(scenario)
    assert now(counting) == 0


def test_closing_waits_also_for_a_transaction_that_nobody_waits_for(counting: Place) -> None:
    async def scenario() -> None:
        database = ThreadedDatabase(open_database(counting.url, ()))
        held = Held()
        writing = asyncio.create_task(database.run(held))
        await held.wait_begun()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        assert not closing.done()
        held.release.set()
        await closing

    run(scenario)
    assert now(counting) == 1


def test_closing_gives_up_in_time_and_what_had_not_begun_is_told_so(counting: Place) -> None:
    async def scenario() -> None:
        database = ThreadedDatabase(open_database(counting.url, ()), close_max_s=0.05)
        held = Held()
        writing = asyncio.create_task(database.run(held))
        behind = asyncio.create_task(database.run(increment))
        await held.wait_begun()
        with pytest.raises(QuarterdeckError, match="2 transactions had not ended") as caught:
            await database.close()
        assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED
        held.release.set()
        await writing
        with pytest.raises(DatabaseClosedError):
            await behind

    run(scenario)
    assert now(counting) == 1


def test_no_more_wait_than_may(counting: Place) -> None:
    async def scenario() -> None:
        database = ThreadedDatabase(open_database(counting.url, ()), waiting_max=2)
        held = Held()
        waiting = [asyncio.create_task(database.run(held)), asyncio.create_task(database.run(increment))]
        await held.wait_begun()
        with pytest.raises(QuarterdeckError, match="2 transactions wait for it already") as caught:
            await database.read(value)
        assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
        held.release.set()
        await asyncio.gather(*waiting)
        assert await database.read(value) == 2
        await database.close()

    run(scenario)


def test_no_thread_and_no_connection_is_left_when_it_is_closed(counting: Place) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        async with threaded(counting) as database:
            await asyncio.gather(*(database.read(value) for _ in range(8)), database.run(increment))
            assert {thread.name.rpartition("_")[0] for thread in set(threading.enumerate()) - before} == {
                "database-writer",
                "database-reader",
            }
        assert set(threading.enumerate()) == before

    run(scenario)

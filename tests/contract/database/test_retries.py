"""Transactions that get in each other's way: none is lost, and none is tried for ever."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, func, insert, select, text

from quarterdeck.core.backoff import Backoff
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.failures import DatabaseClosedError
from quarterdeck.stores.database.options import DatabaseOptions
from tests.contract.database.places import Place, counters, increment, set_value, value

HASTY = DatabaseOptions(lock_timeout_s=0.02, attempts=3, backoff=Backoff(base_s=0.001, cap_s=0.001))
"""Gives up soon."""

INCREMENT = """
import sys
from quarterdeck.stores.database.opening import open_database
from tests.contract.database.places import increment
database = open_database(sys.argv[1], ())
print("ready", flush=True)
sys.stdin.read()
for _ in range(30):
    database.run(increment)
database.close()
"""


def test_threads_with_connections_of_their_own_lose_no_increment(counting: Place) -> None:
    def work(_: int) -> None:
        with counting.opened(DatabaseOptions(attempts=100)) as database:
            for _ in range(10):
                database.run(increment)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    with counting.opened() as database:
        assert database.read(value) == 40


def test_threads_of_one_database_lose_no_increment(counting: Place) -> None:
    with counting.opened() as database, ThreadPoolExecutor(8) as threads:
        for future in [threads.submit(database.run, increment) for _ in range(40)]:
            future.result()
        assert database.read(value) == 40


def test_processes_that_write_at_the_same_time_lose_no_increment(counting: Place) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INCREMENT, counting.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.close()
        with counting.opened() as database:
            for _ in range(30):
                database.run(increment)
            assert process.wait() == 0
            assert database.read(value) == 60


def test_a_transaction_that_always_loses_is_given_up_and_says_what_to_look_for(counting: Place) -> None:
    waits = 0

    def chance() -> float:
        nonlocal waits
        waits += 1
        return 0.5

    def hold_and_try(connection: Connection) -> None:
        increment(connection)
        with counting.opened(HASTY, chance) as other:
            other.run(increment)

    with counting.opened() as database, pytest.raises(QuarterdeckError, match="each of 3 times") as caught:
        database.run(hold_and_try)
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert caught.value.retryable
    assert waits == 2
    with counting.opened() as database:
        assert database.read(value) == 0


def test_a_transaction_that_lost_is_tried_again_and_sees_what_the_other_wrote(counting: Place) -> None:
    with counting.opened() as database:
        holding, release = threading.Event(), threading.Event()

        def hold(connection: Connection) -> None:
            increment(connection)
            holding.set()
            assert release.wait(10)

        with ThreadPoolExecutor(1) as thread:
            held = thread.submit(database.run, hold)
            assert holding.wait(10)

            def release_holder() -> float:
                release.set()
                held.result()
                return 0.5

            with counting.opened(HASTY, release_holder) as other:
                other.run(increment)
        assert database.read(value) == 2


def test_closing_ends_the_wait_for_another_try(counting: Place) -> None:
    endless = DatabaseOptions(lock_timeout_s=0.01, backoff=Backoff(base_s=1000, cap_s=1000))

    def hold_and_try(connection: Connection) -> None:
        increment(connection)
        waiting = threading.Event()

        def chance() -> float:
            waiting.set()
            return 0.5

        with counting.opened(endless, chance) as other, ThreadPoolExecutor(1) as thread:
            tried = thread.submit(other.run, increment)
            assert waiting.wait(10)
            other.close()
            with pytest.raises(DatabaseClosedError):
                tried.result(10)

    with counting.opened() as database:
        database.run(hold_and_try)


def test_of_two_that_look_before_they_write_one_sees_the_other(postgres_place: Place) -> None:
    """In SQLite they cannot overlap at all."""
    calls: list[int] = []

    def add_if_few(connection: Connection, name: str) -> None:
        if connection.execute(select(func.count()).select_from(counters)).scalar_one() < 1:
            connection.execute(insert(counters).values(name=name, value=0))

    with postgres_place.opened() as database, postgres_place.opened() as other:
        database.run(counters.metadata.create_all)

        def interrupted(connection: Connection) -> None:
            calls.append(1)
            connection.execute(select(func.count()).select_from(counters)).scalar_one()
            if len(calls) == 1:
                other.run(lambda connection: add_if_few(connection, "b"))
            add_if_few(connection, "a")

        database.run(interrupted)
        assert len(calls) == 2
        assert database.read(lambda connection: connection.execute(select(counters.c.name)).scalars().all()) == ["b"]


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
def test_postgres_says_that_a_race_was_lost(postgres_place: Place, state: str) -> None:
    calls: list[int] = []

    def lose(connection: Connection) -> None:
        calls.append(1)
        connection.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '{state}'; END $$"))

    with postgres_place.opened(HASTY) as database, pytest.raises(QuarterdeckError, match="each of 3 times"):
        database.run(lose)
    assert len(calls) == 3


def test_a_deadlock_is_a_lost_race(postgres_place: Place) -> None:
    options = DatabaseOptions(lock_timeout_s=10)
    met = threading.Barrier(2)

    def both(first: str, second: str) -> int:
        calls: list[int] = []

        def write(connection: Connection) -> None:
            calls.append(1)
            connection.execute(counters.update().values(value=counters.c.value + 1).where(counters.c.name == first))
            if len(calls) == 1:
                met.wait(10)
            connection.execute(counters.update().values(value=counters.c.value + 1).where(counters.c.name == second))

        with postgres_place.opened(options) as database:
            database.run(write)
        return len(calls)

    def rows(connection: Connection) -> None:
        counters.metadata.create_all(connection)
        connection.execute(insert(counters), [{"name": "a", "value": 0}, {"name": "b", "value": 0}])

    with postgres_place.opened() as database, ThreadPoolExecutor(2) as threads:
        database.run(rows)
        calls = [future.result(20) for future in [threads.submit(both, "a", "b"), threads.submit(both, "b", "a")]]
        assert sum(calls) >= 3
        assert database.read(value) == 2


def test_a_transaction_is_tried_from_its_beginning(postgres_place: Place) -> None:
    """What it wrote before it lost is gone."""
    calls: list[int] = []

    def lose_once(connection: Connection) -> None:
        calls.append(value(connection))
        set_value(connection, 7)
        if len(calls) == 1:
            connection.execute(text("DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END $$"))

    def rows(connection: Connection) -> None:
        counters.metadata.create_all(connection)
        connection.execute(insert(counters).values(name="a", value=0))

    with postgres_place.opened() as database:
        database.run(rows)
        database.run(lose_once)
        assert calls == [0, 0]
        assert database.read(value) == 7

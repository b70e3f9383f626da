"""What SQLite is told, and how it fails."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.options import DatabaseOptions
from tests.contract.database.places import Place, counters, increment, make_counter, value
from tests.contract.database.toys import FRUIT


def pragma(connection: Connection, name: str) -> object:
    return connection.execute(text(f"PRAGMA {name}")).scalar_one()


@pytest.mark.parametrize(
    "name, wanted", [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("busy_timeout", 5000)]
)
def test_all_connections_are_set_up_to_keep_what_is_committed(sqlite_place: Place, name: str, wanted: object) -> None:
    with sqlite_place.opened() as database:
        assert database.run(lambda connection: pragma(connection, name)) == wanted
        assert database.read(lambda connection: pragma(connection, name)) == wanted


def test_a_full_disk_is_an_error_that_may_pass_and_nothing_is_changed(sqlite_place: Place) -> None:
    def fill(connection: Connection) -> None:
        connection.execute(text(f"PRAGMA max_page_count = {pragma(connection, 'page_count')}"))
        increment(connection)
        connection.execute(insert(counters), [{"name": f"{i:0>1000}", "value": 0} for i in range(100)])

    with sqlite_place.opened() as database:
        database.run(make_counter)
        with pytest.raises(QuarterdeckError, match=f"{sqlite_place.url} has no room.* disk is full") as caught:
            database.run(fill)
        assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
        assert caught.value.retryable
        assert database.read(value) == 0


def test_a_file_that_is_no_database_is_named_and_left_alone(sqlite_place: Place) -> None:
    file = Path(sqlite_place.url)
    file.write_text("something else" * 1000)
    with (
        sqlite_place.opened(schemas=[FRUIT]) as database,
        pytest.raises(QuarterdeckError, match="not a database") as caught,
    ):
        database.upgrade()
    assert not caught.value.retryable
    assert file.read_text() == "something else" * 1000


def test_a_folder_in_its_place_is_an_error_that_names_it(tmp_path: Path) -> None:
    database = open_database(tmp_path, ())
    with pytest.raises(QuarterdeckError, match=f"{tmp_path} cannot be reached") as caught:
        database.run(make_counter)
    database.close()
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_a_database_that_cannot_be_written_says_so(sqlite_place: Place) -> None:
    def write_where_nothing_may_be_written(connection: Connection) -> None:
        connection.execute(text("PRAGMA query_only=ON"))
        increment(connection)

    with sqlite_place.opened() as database:
        database.run(make_counter)
        with pytest.raises(QuarterdeckError, match="cannot be written") as caught:
            database.run(write_where_nothing_may_be_written)
        assert caught.value.code is ErrorCode.UNAVAILABLE


def test_a_transaction_inside_another_of_the_same_database_is_an_error_and_no_deadlock(sqlite_place: Place) -> None:
    with sqlite_place.opened(DatabaseOptions(pool_timeout_s=0.01)) as database:
        database.run(make_counter)
        with pytest.raises(QuarterdeckError, match="all connections of this process were in use"):
            database.run(lambda _: database.run(increment))
        assert database.read(value) == 0


def test_a_transaction_that_writes_begins_by_locking(sqlite_place: Place) -> None:
    """Otherwise it could lose half-way, having read what another changes meanwhile."""
    hasty = DatabaseOptions(lock_timeout_s=0.01, attempts=1)
    with sqlite_place.opened() as database, sqlite_place.opened(hasty) as other:
        database.run(make_counter)

        def only_begin(_: Connection) -> None:
            other.run(increment)

        with pytest.raises(QuarterdeckError, match="database is locked"):
            database.run(only_begin)

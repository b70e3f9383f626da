"""What Postgres is told, and how it fails: connections that die, passwords that are wrong, servers that are full."""

import traceback
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from tests.contract.database.places import Place, PostgresServer, increment, make_counter, value
from tests.contract.database.toys import FRUIT


@pytest.fixture
def counter(postgres_place: Place) -> Place:
    with postgres_place.opened() as database:
        database.run(make_counter)
    return postgres_place


@pytest.fixture
def guarded(postgres_server: PostgresServer) -> Iterator[None]:
    postgres_server.execute("CREATE ROLE guarded LOGIN PASSWORD 'r1ght'")
    yield
    postgres_server.execute("DROP ROLE guarded")


def backend(connection: Connection) -> int:
    return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()


def setting(connection: Connection, name: str) -> str:
    return connection.execute(text(f"SHOW {name}")).scalar_one()


def test_a_connection_that_was_killed_is_noticed_before_it_is_used(
    counter: Place, postgres_server: PostgresServer
) -> None:
    with counter.opened() as database:
        for ask in (database.run, database.read):
            killed = ask(backend)
            postgres_server.execute(f"SELECT pg_terminate_backend({killed}, 10000)")
            assert ask(backend) != killed
        database.run(increment)
        assert database.read(value) == 1


def test_a_connection_that_dies_in_a_transaction_leaves_nothing_and_the_next_one_works(
    counter: Place, postgres_server: PostgresServer
) -> None:
    def die(connection: Connection) -> None:
        increment(connection)
        postgres_server.execute(f"SELECT pg_terminate_backend({backend(connection)}, 10000)")
        increment(connection)

    with counter.opened() as database:
        with pytest.raises(QuarterdeckError, match="cannot be reached, and nothing was changed") as caught:
            database.run(die)
        assert caught.value.code is ErrorCode.UNAVAILABLE
        assert caught.value.retryable
        database.run(increment)
        assert database.read(value) == 1


def test_a_connection_that_dies_in_the_commit_leaves_a_doubt_that_is_told(counter: Place) -> None:
    def die_at_the_end(connection: Connection) -> None:
        connection.execute(
            text(
                "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
        )
        connection.execute(
            text(
                "CREATE CONSTRAINT TRIGGER dying AFTER UPDATE ON counters "
                "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"
            )
        )

    with counter.opened() as database:
        database.run(die_at_the_end)
        with pytest.raises(QuarterdeckError, match=r"whether a transaction was committed .* is not known") as caught:
            database.run(increment)
        assert not caught.value.retryable
        assert database.read(value) == 0


def test_a_wrong_password_is_told_without_it(guarded: None, postgres_server: PostgresServer) -> None:
    right = Place("postgres", postgres_server.url("postgres", "guarded:r1ght"))
    with right.opened() as database:
        assert database.read(lambda connection: connection.execute(text("SELECT 1")).scalar_one()) == 1
    wrong = Place("postgres", postgres_server.url("postgres", "guarded:s3cret"))
    with wrong.opened() as database, pytest.raises(QuarterdeckError, match="password authentication failed") as caught:
        database.read(value)
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_database_that_is_not_there_is_named(postgres_server: PostgresServer) -> None:
    nowhere = Place("postgres", postgres_server.url("nowhere"))
    with (
        nowhere.opened(schemas=[FRUIT]) as database,
        pytest.raises(QuarterdeckError, match='"nowhere" does not exist') as caught,
    ):
        database.upgrade()
    assert caught.value.code is ErrorCode.UNAVAILABLE


@pytest.mark.parametrize(
    "state, code, says",
    [
        ("53100", ErrorCode.RESOURCE_EXHAUSTED, "has no room"),
        ("53300", ErrorCode.RESOURCE_EXHAUSTED, "has no room"),
        ("57P03", ErrorCode.UNAVAILABLE, "cannot be reached"),
        ("08006", ErrorCode.UNAVAILABLE, "cannot be reached"),
        ("25006", ErrorCode.UNAVAILABLE, "cannot be written"),
        ("XX001", ErrorCode.UNAVAILABLE, "cannot be understood"),
    ],
)
def test_what_the_server_says_is_told_as_what_it_means(counter: Place, state: str, code: ErrorCode, says: str) -> None:
    def fail(connection: Connection) -> None:
        increment(connection)
        connection.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'its words' USING ERRCODE = '{state}'; END $$"))

    with counter.opened() as database:
        with pytest.raises(QuarterdeckError, match=f"{says}.*its words") as caught:
            database.run(fail)
        assert caught.value.code is code
        assert database.read(value) == 0


@pytest.mark.parametrize(
    "name, writing, reading",
    [
        ("transaction_isolation", "serializable", "repeatable read"),
        ("transaction_read_only", "off", "on"),
        ("application_name", "quarterdeck", "quarterdeck"),
        ("client_encoding", "UTF8", "UTF8"),
        ("lock_timeout", "5s", "5s"),
        ("idle_in_transaction_session_timeout", "1min", "1min"),
    ],
)
def test_all_connections_are_set_up_the_same(postgres_place: Place, name: str, writing: str, reading: str) -> None:
    with postgres_place.opened() as database:
        for _ in range(2):  # also when a connection is used again
            assert database.run(lambda connection: setting(connection, name)) == writing
            assert database.read(lambda connection: setting(connection, name)) == reading


def test_what_the_url_says_counts_more_than_what_is_usual(postgres_place: Place) -> None:
    place = Place("postgres", postgres_place.url + "&application_name=somebody")
    with place.opened() as database:
        assert database.read(lambda connection: setting(connection, "application_name")) == "somebody"

"""Each test with a `place` runs in SQLite and in a real Postgres; where none can be started, that half is skipped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.database.places import NoServer, Place, PostgresServer, make_counter, postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    try:
        with postgres() as server:
            yield server
    except NoServer as error:
        pytest.skip(f"Postgres: {error}")


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> PostgresServer | None:
    """For the session, so that the server is no leak of the first test that needs it."""
    return request.getfixturevalue("postgres_server") if request.param == "postgres" else None


@pytest.fixture
def place(server: PostgresServer | None, tmp_path: Path) -> Place:
    """An empty database."""
    if server is None:
        return Place("sqlite", f"sqlite:///{tmp_path}/deep/down/catalog.db")
    return Place("postgres", server.empty_database())


@pytest.fixture
def counting(place: Place) -> Place:
    """One with a counter in it, at 0."""
    with place.opened() as database:
        database.run(make_counter)
    return place


@pytest.fixture
def postgres_place(postgres_server: PostgresServer) -> Place:
    return Place("postgres", postgres_server.empty_database())


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    return Place("sqlite", str(tmp_path / "catalog.db"))

"""Databases to test with, each empty at first: files of SQLite, the database of a Postgres server."""

import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg
from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, insert, select, update

from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.options import DEFAULTS, DatabaseOptions
from quarterdeck.stores.database.schema import Schema
from quarterdeck.stores.database.sql import SqlDatabase

T = TypeVar("T")

scratch: Final = MetaData()
counters: Final = Table(
    "counters", scratch, Column("name", Text, primary_key=True), Column("value", BigInteger, nullable=False)
)


class NoServer(Exception):
    """There is no Postgres on this machine; it says why."""


@dataclass(frozen=True, slots=True)
class PostgresServer:
    folder: str

    def url(self, name: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{name}?host={self.folder}"

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def empty_database(self) -> str:
        """Its URL. It is one database, emptied: a new one would take longer than most tests."""
        self.execute("SET lock_timeout = '5s'; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        return self.url("postgres")


@contextmanager
def postgres() -> Generator[PostgresServer]:
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "postgres_process.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if line.startswith("cannot") or not line:
            raise NoServer(line or "its process has ended")
        yield PostgresServer(line)
        process.stdin.close()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test has its database."""

    kind: str
    url: str

    @contextmanager
    def opened(
        self,
        options: DatabaseOptions = DEFAULTS,
        chance: Callable[[], float] = lambda: 0.5,
        *,
        schemas: Sequence[Schema] = (),
    ) -> Generator[SqlDatabase]:
        database = open_database(self.url, schemas, options, chance)
        try:
            yield database
        finally:
            database.close()


def make_counter(connection: Connection) -> None:
    scratch.create_all(connection)
    connection.execute(insert(counters).values(name="a", value=0))


def value(connection: Connection) -> int:
    return connection.execute(select(counters.c.value).where(counters.c.name == "a")).scalar_one()


def increment(connection: Connection) -> None:
    """Read, then written: what was read must still be so when it is committed."""
    set_value(connection, value(connection) + 1)


def set_value(connection: Connection, new: int) -> None:
    connection.execute(update(counters).values(value=new).where(counters.c.name == "a"))

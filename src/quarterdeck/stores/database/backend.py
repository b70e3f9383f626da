"""How SQLite and Postgres differ: how they are opened, how they fail, how the schema is locked.

Everything else is the same for both, and is written once in `sql`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError


class Verdict(StrEnum):
    """What an error of a database means to whoever waits for a transaction."""

    LOST_RACE = "lost_race"
    """Another transaction was in the way. The same again may succeed."""

    UNREACHABLE = "unreachable"
    """No connection could be made, or the one there was is gone."""

    FULL = "full"
    """There is no room on the disk, in memory or for connections."""

    READ_ONLY = "read_only"
    """It tried to write where nothing may be written."""

    DAMAGED = "damaged"
    """What is stored cannot be understood, or not be read."""

    OTHER = "other"
    """The statement is wrong, or a constraint speaks: for whoever wrote the transaction."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One database, opened by its kind. Nothing is connected before it is used."""

    place: str
    """Where it is, for people. It never holds a password."""

    writer: Engine
    """Transactions that write, as if one after the other. It has one connection."""

    reader: Engine
    """Transactions that see one state and cannot write."""

    upgrader: Engine
    """Transactions that write and see what others committed while they waited for a lock."""

    judge: Callable[[DBAPIError], Verdict]

    lock_schema: Callable[[Connection], None]
    """Waits until no other process changes the schema, and keeps them out until the end of the transaction."""

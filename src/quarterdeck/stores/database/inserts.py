"""Inserts that say what to do if the row exists already. Both databases can do this, but SQLAlchemy has no common form
for it."""

from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import sqlite

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


def insert_into(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """An insert with `on_conflict_do_nothing` and `on_conflict_do_update`, which both take `index_elements` and `set_`,
    and with `excluded`, the row that could not be inserted."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - most processes have no such database

        return postgresql.insert(table)
    return sqlite.insert(table)

"""Inserts that say what to do when the row is there already: both databases can, SQLAlchemy has no one word for it."""

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_into(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insert with `on_conflict_do_nothing` and `on_conflict_do_update`, which both take `index_elements` and `set_`,
    and with `excluded`, the row that could not be inserted."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)

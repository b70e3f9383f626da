"""A schema: the tables of one owner, which version of them a database has, and how it gets the newest.

Each owner has its own migrations and its own table with the version. So any owner's schema may come to a database
later, or not at all, and none looks at another's. A version is the number of a migration; each migration follows
another one.

Alembic, which does the work, is imported only if there is some: most starts find the newest versions. This module must
not tell SQLite from Postgres: the caller holds the lock.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, MetaData, inspect, text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_ENVIRONMENT: Final = Path(__file__).parent / "migrating"
_ALEMBIC_IN_USE: Final = threading.Lock()
"""What a migration calls is one object for the whole process."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database has to have for one owner. No table of it refers to another owner's."""

    owner: str
    """For people: `metrics`."""

    version_table: str
    """Where the version is kept. Not Alembic's usual name: another program may have its own in the same database."""

    metadata: MetaData
    """The tables, as statements name them. A test compares them with what the migrations make."""

    migrations: Path
    """The folder of the migrations, one file each. A migration is history: it is not changed when the tables are."""

    newest: str
    """The last of the migrations. Versions are compared as text: `0001`."""

    def __post_init__(self) -> None:
        for name in (self.owner, self.version_table):
            if not name.isidentifier():
                raise ValueError(f"{name!r} stands in statements as it is, so it must be a plain name")


def check_apart(schemas: Sequence[Schema]) -> None:
    """Two that share a name or a table would take each other's for their own."""
    taken: dict[str, str] = {}
    for schema in schemas:
        for name in (f"owner {schema.owner}", f"table {schema.version_table}", *_tables(schema)):
            if name in taken:
                raise ValueError(f"the schemas of {taken[name]} and of {schema.owner} both have the {name}")
            taken[name] = schema.owner


def _tables(schema: Schema) -> list[str]:
    return [f"table {name}" for name in schema.metadata.tables]


def versions_at_once(connection: Connection, schemas: Sequence[Schema]) -> Mapping[str, str]:
    """By owner, in one query. It is an error of the database when one of them was never there."""
    parts = (f"SELECT '{each.owner}', version_num FROM {each.version_table}" for each in schemas)
    return {str(row[0]): str(row[1]) for row in connection.execute(text(" UNION ALL ".join(parts)))}


def schema_version(connection: Connection, schema: Schema) -> str | None:
    """None when nothing of the owner's is there."""
    if not inspect(connection).has_table(schema.version_table):
        return None
    return connection.execute(text(f"SELECT version_num FROM {schema.version_table}")).scalar_one_or_none()


def is_newest(schema: Schema, version: str | None, place: str) -> bool:
    """Whether nothing is to be done. One that is newer than this program is an error."""
    if version is not None and version > schema.newest:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"the database {place} cannot be used",
            f"its schema of {schema.owner} has version {version}, and this program knows versions up to "
            f"{schema.newest}",
            "use a Quarterdeck as new as the one that changed it, or another database",
        )
    return version == schema.newest


def bring_up_to_date(connection: Connection, schema: Schema) -> None:
    """Does all migrations that are missing, in the transaction of the connection."""
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)  # else the first start tells of each
    from alembic import command  # noqa: PLC0415 - a third of a second, rarely needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", _written(_ENVIRONMENT))
    config.set_main_option("path_separator", "newline")  # the one that no usual path has in it
    config.set_main_option("version_locations", _written(schema.migrations))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = schema.version_table
    with _ALEMBIC_IN_USE:
        command.upgrade(config, schema.newest)


def _written(path: Path) -> str:
    return str(path).replace("%", "%%")

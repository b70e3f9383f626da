"""The version of the schema: which one a database has, and how it gets the newest.

A version is the number of a migration; each has one before it. Alembic, which does the work, is imported only when
there is some: most starts find the newest version there. It must not know SQLite from Postgres: who calls holds the
lock.
"""

import threading
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

NEWEST: Final = "0001"
"""The last of `migrations/versions`."""
VERSION_TABLE: Final = "quarterdeck_schema"
"""Not Alembic's usual name: in a Postgres database another program may have its own."""
MIGRATIONS: Final = Path(__file__).parent / "migrations"

_ALEMBIC_IN_USE: Final = threading.Lock()
"""What a migration calls is one object for the whole process."""


def is_up_to_date(connection: Connection, place: str) -> bool:
    """Whether nothing is to be done. A schema that is newer than this program is an error."""
    found = schema_version(connection)
    if found is not None and found > NEWEST:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"the database {place} cannot be used",
            f"its schema has version {found}, and this program knows versions up to {NEWEST}",
            "use a Quarterdeck as new as the one that changed it, or another database",
        )
    return found == NEWEST


def schema_version(connection: Connection) -> str | None:
    """None when nothing of ours is there."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()


def bring_up_to_date(connection: Connection) -> None:
    """Does all migrations that are missing, in the transaction of the connection."""
    from alembic import command  # noqa: PLC0415 - a third of a second, rarely needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    with _ALEMBIC_IN_USE:
        command.upgrade(config, NEWEST)

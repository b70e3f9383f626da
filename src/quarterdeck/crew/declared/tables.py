"""The tables of declared things, as statements name them. A test compares them with what `migrations` make."""

from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Integer, LargeBinary, Table

from quarterdeck.stores.database.columns import TEXT, new_metadata
from quarterdeck.stores.database.schema import Schema

metadata: Final = new_metadata()

DECLARED_SCHEMA: Final = Schema(
    owner="declared",
    version_table="quarterdeck_declared_schema",
    metadata=metadata,
    migrations=Path(__file__).parent / "migrations",
    newest="0001",
)

ONLY: Final = 1
"""The key of the one row of revisions."""

revisions: Final = Table(
    "declared_revisions",
    metadata,
    Column("revision_id", Integer, primary_key=True, autoincrement=False),
    Column("newest", BigInteger, nullable=False, doc="Incremented by each commit, which keeps the row until its end."),
)

things: Final = Table(
    "declared_things",
    metadata,
    Column("thing_id", TEXT, primary_key=True),
    Column("group_id", TEXT, nullable=False, index=True),
    Column("kind", TEXT, nullable=False),
    Column("tenant", TEXT, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("pinned_to", TEXT),
    Column("state", TEXT, nullable=False),
    Column("worker_id", TEXT, doc="Where it was placed last."),
    Column("generation", BigInteger, nullable=False, doc="The revision of that placing; 0 before the first."),
    Column("revision", BigInteger, nullable=False, index=True, doc="Of its last change."),
    Column("fence", BigInteger, nullable=False, doc="Of the leader that changed it last; 0 before the first."),
    Column("error_code", TEXT),
    Column("error_message", TEXT),
    Column("error_retryable", Boolean),
)

"""The table with the leased row."""

from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Column, Integer, Table

from quarterdeck.stores.database.columns import TEXT, new_metadata
from quarterdeck.stores.database.schema import Schema

metadata: Final = new_metadata()

LEADERSHIP_SCHEMA: Final = Schema(
    owner="leadership",
    version_table="quarterdeck_leadership_schema",
    metadata=metadata,
    migrations=Path(__file__).parent / "migrations",
    newest="0001",
)

ONLY: Final = 1
"""The key of the one row."""

leaders: Final = Table(
    "leaders",
    metadata,
    Column("leader_id", Integer, primary_key=True, autoincrement=False),
    Column("holder", TEXT, doc="None when nobody holds it."),
    Column("name", TEXT, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("lease_ms", BigInteger, nullable=False),
)

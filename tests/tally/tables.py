"""The table, as statements name it. What makes it is in `migrations`."""

from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Column, Table

from quarterdeck.stores.database.columns import TEXT, new_metadata
from quarterdeck.stores.database.schema import Schema

metadata: Final = new_metadata()

TALLY_SCHEMA: Final = Schema(
    owner="tally",
    version_table="tally_schema",
    metadata=metadata,
    migrations=Path(__file__).parent / "migrations",
    newest="0001",
)

tallies: Final = Table(
    "tallies",
    metadata,
    Column("query_id", TEXT, primary_key=True),
    Column("words", BigInteger, nullable=False),
)

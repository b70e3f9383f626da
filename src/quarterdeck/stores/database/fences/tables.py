"""The table of the highest fence. Every database with writes under a fence has it, whoever elects."""

from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Column, Integer, Table

from quarterdeck.stores.database.columns import new_metadata
from quarterdeck.stores.database.schema import Schema

metadata: Final = new_metadata()

FENCES_SCHEMA: Final = Schema(
    owner="fences",
    version_table="quarterdeck_fences_schema",
    metadata=metadata,
    migrations=Path(__file__).parent / "migrations",
    newest="0001",
)

ONLY: Final = 1
"""The key of the one row."""

fences: Final = Table(
    "fences",
    metadata,
    Column("fence_id", Integer, primary_key=True, autoincrement=False),
    Column("highest", BigInteger, nullable=False),
)

"""The table of the ledger."""

from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Column, Identity, Table

from quarterdeck.stores.database.columns import RISING, TEXT, new_metadata
from quarterdeck.stores.database.schema import Schema

metadata: Final = new_metadata()

LEDGER_SCHEMA: Final = Schema(
    "ledger", "quarterdeck_ledger_schema", metadata, Path(__file__).parent / "migrations", newest="0001"
)

entries: Final = Table(
    "ledger_entries",
    metadata,
    Column("entry_id", RISING, Identity(), primary_key=True),
    Column("note", TEXT, nullable=False),
    Column("fence", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

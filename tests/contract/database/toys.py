"""Schemas of two owners who know nothing of each other, with migrations in folders of the tests."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Identity, LargeBinary, Table, UniqueConstraint

from quarterdeck.stores.database.columns import RISING, TEXT, new_metadata
from quarterdeck.stores.database.schema import Schema

_HERE: Final = Path(__file__).parent

fruit_metadata: Final = new_metadata()
fruits: Final = Table(
    "fruits",
    fruit_metadata,
    Column("fruit_id", RISING, Identity(), primary_key=True),
    Column("name", TEXT, nullable=False, unique=True),
    Column("colour", TEXT),
    sqlite_autoincrement=True,
)
FRUIT: Final = Schema("fruit", "fruit_schema", fruit_metadata, _HERE / "fruit_migrations", "0002")
EARLIER_FRUIT: Final = replace(FRUIT, newest="0001")
"""As a program knew it that is older: fruits had no colour."""

tool_metadata: Final = new_metadata()
tools: Final = Table("tools", tool_metadata, Column("tool", TEXT, primary_key=True), Column("picture", LargeBinary))
uses: Final = Table(
    "uses",
    tool_metadata,
    Column("tool", TEXT, ForeignKey("tools.tool", ondelete="CASCADE"), primary_key=True),
    Column("use", TEXT, primary_key=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    UniqueConstraint("use", "at_ms"),
)
TOOLS: Final = Schema("tools", "tools_schema", tool_metadata, _HERE / "tools_migrations", "0001")

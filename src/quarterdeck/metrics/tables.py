"""The tables of metrics, as statements name them. What is here and what `migrations` make is compared by a test."""

from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Identity, Index, Integer, LargeBinary, Table, UniqueConstraint

from quarterdeck.stores.database.columns import RISING, TEXT, new_metadata
from quarterdeck.stores.database.schema import Schema

metadata: Final = new_metadata()

METRICS_SCHEMA: Final = Schema(
    owner="metrics",
    # The name is older than there being other owners.
    version_table="quarterdeck_schema",
    metadata=metadata,
    migrations=Path(__file__).parent / "migrations",
    newest="0001",
)

imports: Final = Table(
    "imports",
    metadata,
    Column("import_id", TEXT, primary_key=True),
    Column("tenant", TEXT, nullable=False),
    Column("source", TEXT, nullable=False, doc="What was imported, for people."),
    Column("fingerprint", TEXT, nullable=False, doc="Of content and options: the same is not imported twice."),
    Column("sample_count", BigInteger, nullable=False),
    Column("series_count", BigInteger, nullable=False),
    Column("imported_at_ms", BigInteger, nullable=False),
    UniqueConstraint("tenant", "fingerprint"),
)

segments: Final = Table(
    "segments",
    metadata,
    Column(
        "segment_id",
        RISING,
        Identity(),
        primary_key=True,
        doc="A larger one is newer; none is used twice. Postgres draws it before the commit: among transactions that "
        "change `catalog_versions` of the tenant, as all must, the order is that of the commits.",
    ),
    Column("import_id", TEXT, ForeignKey("imports.import_id", ondelete="CASCADE"), nullable=False, index=True),
    Column("tenant", TEXT, nullable=False),
    Column("shard", Integer, nullable=False),
    Column("shard_count", Integer, nullable=False),
    Column("url", TEXT, nullable=False, unique=True),
    Column("version", TEXT, nullable=False, doc="Of the object at the URL."),
    Column("min_ts_ms", BigInteger, nullable=False),
    Column("max_ts_ms", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("series_count", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("checksum", TEXT, nullable=False),
    Column("label_index", LargeBinary, nullable=False),
    Index(None, "tenant", "segment_id"),
    sqlite_autoincrement=True,
)

metric_metadata: Final = Table(
    "metric_metadata",
    metadata,
    Column("tenant", TEXT, primary_key=True),
    Column("metric", TEXT, primary_key=True),
    Column("type", TEXT, nullable=False),
    Column("help", TEXT, nullable=False),
    Column("unit", TEXT, nullable=False),
)

catalog_versions: Final = Table(
    "catalog_versions",
    metadata,
    Column("tenant", TEXT, primary_key=True),
    Column(
        "version",
        BigInteger,
        nullable=False,
        doc="Incremented by every change of the tenant's segments, in the same transaction.",
    ),
)

"""The tables, as statements name them. What is here and what `migrations` make is compared by a test.

Text compares by its bytes (collation C; SQLite does so by itself), so that it is ordered alike in both databases, and
an index does not depend on the operating system's idea of a language. Times are milliseconds since 1970.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

_TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")
_RISING: Final = BigInteger().with_variant(Integer(), "sqlite")
"""In SQLite an INTEGER has 64 bits, and only under that name does it count by itself."""

imports: Final = Table(
    "imports",
    metadata,
    Column("import_id", _TEXT, primary_key=True),
    Column("tenant", _TEXT, nullable=False),
    Column("source", _TEXT, nullable=False, doc="What was imported, for people."),
    Column("fingerprint", _TEXT, nullable=False, doc="Of content and options: the same is not imported twice."),
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
        _RISING,
        Identity(),
        primary_key=True,
        doc="A larger one is newer; none is used twice. Postgres draws it before the commit: among transactions that "
        "change `catalog_versions` of the tenant, as all must, the order is that of the commits.",
    ),
    Column("import_id", _TEXT, ForeignKey("imports.import_id", ondelete="CASCADE"), nullable=False, index=True),
    Column("tenant", _TEXT, nullable=False),
    Column("shard", Integer, nullable=False),
    Column("shard_count", Integer, nullable=False),
    Column("url", _TEXT, nullable=False, unique=True),
    Column("version", _TEXT, nullable=False, doc="Of the object at the URL."),
    Column("min_ts_ms", BigInteger, nullable=False),
    Column("max_ts_ms", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("series_count", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("checksum", _TEXT, nullable=False),
    Column("label_index", LargeBinary, nullable=False),
    Index(None, "tenant", "segment_id"),
    sqlite_autoincrement=True,
)

metric_metadata: Final = Table(
    "metric_metadata",
    metadata,
    Column("tenant", _TEXT, primary_key=True),
    Column("metric", _TEXT, primary_key=True),
    Column("type", _TEXT, nullable=False),
    Column("help", _TEXT, nullable=False),
    Column("unit", _TEXT, nullable=False),
)

catalog_versions: Final = Table(
    "catalog_versions",
    metadata,
    Column("tenant", _TEXT, primary_key=True),
    Column(
        "version",
        BigInteger,
        nullable=False,
        doc="Incremented by every change of the tenant's segments, in the same transaction.",
    ),
)

"""Imports, segments and what is said about metrics.

A migration is history: it names tables and columns itself, and is not changed when `tables` is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "imports",
        sa.Column("import_id", text, nullable=False),
        sa.Column("tenant", text, nullable=False),
        sa.Column("source", text, nullable=False),
        sa.Column("fingerprint", text, nullable=False),
        sa.Column("sample_count", sa.BigInteger, nullable=False),
        sa.Column("series_count", sa.BigInteger, nullable=False),
        sa.Column("imported_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("import_id", name="pk_imports"),
        sa.UniqueConstraint("tenant", "fingerprint", name="uq_imports_tenant_fingerprint"),
    )
    op.create_table(
        "segments",
        sa.Column("segment_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("import_id", text, nullable=False),
        sa.Column("tenant", text, nullable=False),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("shard_count", sa.Integer, nullable=False),
        sa.Column("url", text, nullable=False),
        sa.Column("version", text, nullable=False),
        sa.Column("min_ts_ms", sa.BigInteger, nullable=False),
        sa.Column("max_ts_ms", sa.BigInteger, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("series_count", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("checksum", text, nullable=False),
        sa.Column("label_index", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("segment_id", name="pk_segments"),
        sa.ForeignKeyConstraint(["import_id"], ["imports.import_id"], name="fk_segments_import_id", ondelete="CASCADE"),
        sa.UniqueConstraint("url", name="uq_segments_url"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_segments_import_id", "segments", ["import_id"])
    op.create_index("ix_segments_tenant_segment_id", "segments", ["tenant", "segment_id"])
    op.create_table(
        "metric_metadata",
        sa.Column("tenant", text, nullable=False),
        sa.Column("metric", text, nullable=False),
        sa.Column("type", text, nullable=False),
        sa.Column("help", text, nullable=False),
        sa.Column("unit", text, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "metric", name="pk_metric_metadata"),
    )
    op.create_table(
        "catalog_versions",
        sa.Column("tenant", text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_catalog_versions"),
    )

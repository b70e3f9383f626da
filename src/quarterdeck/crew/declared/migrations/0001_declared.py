"""Declared things and the revision of the newest change.

A migration is history: it names tables and columns itself, and is not changed when `tables` is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    revisions = op.create_table(
        "declared_revisions",
        sa.Column("revision_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("newest", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("revision_id", name="pk_declared_revisions"),
    )
    op.bulk_insert(revisions, [{"revision_id": 1, "newest": 0}])
    op.create_table(
        "declared_things",
        sa.Column("thing_id", text, nullable=False),
        sa.Column("group_id", text, nullable=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("tenant", text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("pinned_to", text),
        sa.Column("state", text, nullable=False),
        sa.Column("worker_id", text),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("error_code", text),
        sa.Column("error_message", text),
        sa.Column("error_retryable", sa.Boolean),
        sa.PrimaryKeyConstraint("thing_id", name="pk_declared_things"),
    )
    op.create_index("ix_declared_things_group_id", "declared_things", ["group_id"])
    op.create_index("ix_declared_things_revision", "declared_things", ["revision"])

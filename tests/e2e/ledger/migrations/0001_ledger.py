"""The entries."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "ledger_entries",
        sa.Column("entry_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("note", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("entry_id", name="pk_ledger_entries"),
        sqlite_autoincrement=True,
    )

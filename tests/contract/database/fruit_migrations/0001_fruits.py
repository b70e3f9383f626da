"""Fruits by their names."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "fruits",
        sa.Column("fruit_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("name", text, nullable=False),
        sa.PrimaryKeyConstraint("fruit_id", name="pk_fruits"),
        sa.UniqueConstraint("name", name="uq_fruits_name"),
        sqlite_autoincrement=True,
    )

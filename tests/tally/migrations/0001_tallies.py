"""What was counted."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "tallies",
        sa.Column("query_id", text, nullable=False),
        sa.Column("words", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("query_id", name="pk_tallies"),
    )

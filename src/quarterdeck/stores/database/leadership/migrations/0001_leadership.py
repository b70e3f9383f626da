"""Who leads, with its one row, which nobody holds.

A migration is history: it names tables and columns itself, and is not changed when `tables` is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    leaders = op.create_table(
        "leaders",
        sa.Column("leader_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("holder", text),
        sa.Column("name", text, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("lease_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("leader_id", name="pk_leaders"),
    )
    nobody = {"leader_id": 1, "holder": None, "name": "", "fence": 0, "beat": 0, "lease_ms": 0}
    op.bulk_insert(leaders, [nobody])

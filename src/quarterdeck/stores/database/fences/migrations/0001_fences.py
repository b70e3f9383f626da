"""The highest fence, with its one row.

A migration is history: it names tables and columns itself, and is not changed when `tables` is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    fences = op.create_table(
        "fences",
        sa.Column("fence_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("highest", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("fence_id", name="pk_fences"),
    )
    op.bulk_insert(fences, [{"fence_id": 1, "highest": 0}])

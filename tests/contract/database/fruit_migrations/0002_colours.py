"""Fruits have a colour, or it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("fruits", sa.Column("colour", sa.Text().with_variant(sa.Text(collation="C"), "postgresql")))

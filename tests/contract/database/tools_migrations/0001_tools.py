"""Tools, and what they are used for."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "tools",
        sa.Column("tool", text, nullable=False),
        sa.Column("picture", sa.LargeBinary),
        sa.PrimaryKeyConstraint("tool", name="pk_tools"),
    )
    op.create_table(
        "uses",
        sa.Column("tool", text, nullable=False),
        sa.Column("use", text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tool", "use", name="pk_uses"),
        sa.ForeignKeyConstraint(["tool"], ["tools.tool"], name="fk_uses_tool", ondelete="CASCADE"),
        sa.UniqueConstraint("use", "at_ms", name="uq_uses_use_at_ms"),
    )
    op.create_index("ix_uses_at_ms", "uses", ["at_ms"])

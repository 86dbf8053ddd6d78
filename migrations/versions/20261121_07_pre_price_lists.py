"""The price lists that administrators put, the latest of which is in force."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_07"
down_revision = "20261121_06"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "price_lists",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("put_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("put_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_price_lists")),
    )

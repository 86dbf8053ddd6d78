"""Visits of the console, so that every sidecar of a database knows who has signed in."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_21"
down_revision = "20261122_20"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "console_visits",
        sa.Column("visit_key", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("begun_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("notice", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("visit_key", name=op.f("pk_console_visits")),
        sqlite_with_rowid=False,
    )

"""What kinds of work have used, learned from calls: sketches of their quantiles."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_10"
down_revision = "20261121_09"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "work_sketches",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("sketches", sa.Text(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "tenant", "tool", "kind", "repository", name=op.f("pk_work_sketches")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_work_sketches_changed_at_ms"), "work_sketches", ["changed_at_ms"])

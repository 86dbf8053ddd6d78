"""What each session has seen and what its user said, from which flow rules decide."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_08"
down_revision = "20261121_07"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "session_flows",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("private_by", sa.Text(), nullable=True),
        sa.Column("private_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("untrusted_by", sa.Text(), nullable=True),
        sa.Column("untrusted_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("words", sa.Text(), nullable=True),
        sa.Column("words_from", sa.Text(), nullable=True),
        sa.Column("task_class", sa.Text(), nullable=True),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_session_flows")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_session_flows_changed_at_ms"), "session_flows", ["changed_at_ms"], unique=False
    )

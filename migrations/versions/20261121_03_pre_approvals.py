"""Approvals: what people are asked before a call runs, and what they said."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_03"
down_revision = "20261121_02"
branch_labels = None
depends_on = None

_IS_LIVE = sa.text("state IN ('pending', 'approved')")


def upgrade() -> None:
    _approvals()


def _approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("reservation_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("turn", sa.Text(), nullable=True),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("arguments_hash", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("policy_version", sa.Text(), nullable=False),
        sa.Column("estimate", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("decided_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "state IN ('pending', 'approved', 'rejected', 'expired', 'withdrawn', 'used')",
            name=op.f("ck_approvals_state"),
        ),
        sa.CheckConstraint(
            "(decided_at_ms IS NULL) = (decided_by IS NULL)",
            name=op.f("ck_approvals_decided_by_someone"),
        ),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_approvals")),
        sa.UniqueConstraint("call_id", name=op.f("uq_approvals_call_id")),
        sa.UniqueConstraint("reservation_id", name=op.f("uq_approvals_reservation_id")),
    )
    op.create_index(
        "ix_approvals_created_at_ms_approval_id",
        "approvals",
        ["created_at_ms", "approval_id"],
        unique=False,
    )
    op.create_index(
        "ix_approvals_live",
        "approvals",
        ["expires_at_ms"],
        unique=False,
        sqlite_where=_IS_LIVE,
        postgresql_where=_IS_LIVE,
    )
    op.create_index(
        "uq_approvals_live_question",
        "approvals",
        ["agent", "session", "tool", "arguments_hash"],
        unique=True,
        sqlite_where=_IS_LIVE,
        postgresql_where=_IS_LIVE,
    )

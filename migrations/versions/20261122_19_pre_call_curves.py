"""How each local command went, and the indexes that the timeline of a session is read by."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_19"
down_revision = "20261122_18"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("curve", sa.Text(), nullable=True))
    op.create_index(
        op.f("ix_approvals_session_created_at_ms"), "approvals", ["session", "created_at_ms"]
    )
    op.create_index(op.f("ix_audit_target_at_ms"), "audit", ["target", "at_ms"])

"""Turn control: a session's class, limit, extensions and outcome; hashes of what calls answered."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_04"
down_revision = "20261121_03"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("arguments_hash", sa.Text(), nullable=True))
    op.add_column("calls", sa.Column("result_hash", sa.Text(), nullable=True))
    _session_turns()
    _turn_extensions()


def _session_turns() -> None:
    op.create_table(
        "session_turns",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("task_class", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("base_turns", sa.Integer(), nullable=True),
        sa.Column("was_cut", sa.Boolean(), nullable=False),
        sa.Column("begun_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_solved", sa.Boolean(), nullable=True),
        sa.Column("outcome_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("outcome_by", sa.Text(), nullable=True),
        sa.CheckConstraint("base_turns > 0", name=op.f("ck_session_turns_base_turns")),
        sa.CheckConstraint(
            "(is_solved IS NULL) = (outcome_at_ms IS NULL)",
            name=op.f("ck_session_turns_outcome_at_a_time"),
        ),
        sa.CheckConstraint(
            "(is_solved IS NULL) = (outcome_by IS NULL)",
            name=op.f("ck_session_turns_outcome_by_someone"),
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_session_turns")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_session_turns_tenant_task_class_begun_at_ms",
        "session_turns",
        ["tenant", "task_class", "begun_at_ms"],
        unique=False,
    )


def _turn_extensions() -> None:
    op.create_table(
        "turn_extensions",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("granted_by", sa.Text(), nullable=False),
        sa.Column("granted_at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("turns > 0", name=op.f("ck_turn_extensions_turns")),
        sa.PrimaryKeyConstraint("session_id", "number", name=op.f("pk_turn_extensions")),
        sqlite_with_rowid=False,
    )

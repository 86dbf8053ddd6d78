"""What memory chooses by itself, and what was learned of that."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_18"
down_revision = "20261122_17"
branch_labels = None
depends_on = None

_WHAT = "what IN ('search', 'sharing')"


def upgrade() -> None:
    _choices()
    op.create_table(
        "memory_learned",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("bank", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("in_force", sa.Boolean(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.Column("promoted", sa.LargeBinary(), nullable=True),
        sa.Column("before", sa.LargeBinary(), nullable=True),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "what", "bank", name=op.f("pk_memory_learned")),
        sa.CheckConstraint(_WHAT, name=op.f("ck_memory_learned_what")),
        sqlite_with_rowid=False,
    )


def _choices() -> None:
    op.create_table(
        "memory_choices",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("bank", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("decided_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("propensity", sa.Double(), nullable=False),
        sa.Column("explored", sa.Boolean(), nullable=False),
        sa.Column("price", sa.Double(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("context", sa.LargeBinary(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("latency_us", sa.BigInteger(), nullable=False),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("learned", sa.Text(), nullable=True),
        sa.Column("is_pending", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "what", "key", name=op.f("pk_memory_choices")),
        sa.CheckConstraint(_WHAT, name=op.f("ck_memory_choices_what")),
        sa.CheckConstraint(
            "propensity > 0 AND propensity <= 1", name=op.f("ck_memory_choices_propensity")
        ),
        sqlite_with_rowid=False,
    )
    for name, columns in (
        ("session", ["tenant", "session", "decided_at_ms"]),
        ("decided_at_ms", ["decided_at_ms"]),
        ("pending", ["what", "is_pending", "decided_at_ms"]),
        ("subject", ["tenant", "subject"]),
    ):
        op.create_index(op.f(f"ix_memory_choices_{name}"), "memory_choices", columns)

"""What the router chose, what became of it, and what was learned."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_12"
down_revision = "20261122_11"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _decisions()
    op.create_table(
        "router_outcomes",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("reported_by", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("is_trusted", sa.Boolean(), nullable=False),
        sa.Column("reported_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "call_id", "source", "reported_by", name=op.f("pk_router_outcomes")
        ),
        sa.CheckConstraint("score >= 0 AND score <= 1", name=op.f("ck_router_outcomes_score")),
        sa.CheckConstraint("weight >= 0", name=op.f("ck_router_outcomes_weight")),
        sa.CheckConstraint(
            "source IN ('tests', 'user', 'judge', 'tool', 'task')",
            name=op.f("ck_router_outcomes_source"),
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_router_outcomes_reported_at_ms"), "router_outcomes", ["reported_at_ms"]
    )
    op.create_table(
        "router_models",
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("learned_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_router_models")),
        sa.CheckConstraint(
            "state IN ('candidate', 'incumbent', 'retired')", name=op.f("ck_router_models_state")
        ),
    )
    op.create_table(
        "router_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("incumbent", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("learned_revision", sa.BigInteger(), nullable=False),
        sa.Column("learned", sa.LargeBinary(), nullable=True),
        sa.Column("learned_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("learn_since_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_router_state")),
        sa.CheckConstraint("id = 1", name=op.f("ck_router_state_one")),
    )


def _decisions() -> None:
    op.create_table(
        "router_decisions",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("decided_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("turn", sa.Text(), nullable=True),
        sa.Column("task_class", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("propensity", sa.Double(), nullable=False),
        sa.Column("explored", sa.Boolean(), nullable=False),
        sa.Column("price", sa.Double(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("features", sa.LargeBinary(), nullable=False),
        sa.Column("shadow_model", sa.Text(), nullable=True),
        sa.Column("shadow_tier", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("latency_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("is_trusted", sa.Boolean(), nullable=False),
        sa.Column("is_pending", sa.Boolean(), nullable=False),
        sa.Column("learned_by", sa.Text(), nullable=True),
        sa.Column("learned_score", sa.Double(), nullable=True),
        sa.Column("learned_weight", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_router_decisions")),
        sa.CheckConstraint(
            "propensity > 0 AND propensity <= 1", name=op.f("ck_router_decisions_propensity")
        ),
        sa.CheckConstraint("score >= 0 AND score <= 1", name=op.f("ck_router_decisions_score")),
        sa.CheckConstraint("weight >= 0", name=op.f("ck_router_decisions_weight")),
    )
    for columns in (
        ("decided_at_ms", "call_id"),
        ("session", "decided_at_ms"),
        ("is_pending", "decided_at_ms"),
    ):
        name = op.f(f"ix_router_decisions_{'_'.join(columns)}")
        op.create_index(name, "router_decisions", list(columns))

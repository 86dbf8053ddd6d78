"""Cases by their worth, playbooks, and answers that were made beforehand."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_17"
down_revision = "20261122_16"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _cases()
    _playbooks()
    _quiet()
    op.create_index(op.f("ix_session_turns_outcome_at_ms"), "session_turns", ["outcome_at_ms"])


def _cases() -> None:
    op.create_table(
        "case_reads",
        sa.Column("choice", sa.Text(), nullable=False),
        sa.Column("case_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("task_class", sa.Text(), nullable=False),
        sa.Column("sketch", sa.LargeBinary(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("propensity", sa.Double(), nullable=False),
        sa.Column("explored", sa.Boolean(), nullable=False),
        sa.Column("features", sa.LargeBinary(), nullable=False),
        sa.Column("base", sa.Double(), nullable=False),
        sa.Column("linear", sa.Double(), nullable=False),
        sa.Column("own", sa.Double(), nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        sa.Column("read_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("is_trusted", sa.Boolean(), nullable=False),
        sa.Column("is_pending", sa.Boolean(), nullable=False),
        sa.Column("learned_score", sa.Double(), nullable=True),
        sa.Column("learned_weight", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("choice", "case_id", name=op.f("pk_case_reads")),
        sa.CheckConstraint(
            "propensity > 0 AND propensity <= 1", name=op.f("ck_case_reads_propensity")
        ),
        sa.CheckConstraint("score >= 0 AND score <= 1", name=op.f("ck_case_reads_score")),
        sa.CheckConstraint("weight >= 0", name=op.f("ck_case_reads_weight")),
    )
    op.create_index(op.f("ix_case_reads_is_pending_tenant"), "case_reads", ["is_pending", "tenant"])
    op.create_index(op.f("ix_case_reads_read_at_ms"), "case_reads", ["read_at_ms"])
    op.create_index(
        op.f("ix_case_reads_session_read_at_ms"), "case_reads", ["session", "read_at_ms"]
    )
    op.create_index(
        op.f("ix_case_reads_tenant_case_id_read_at_ms"),
        "case_reads",
        ["tenant", "case_id", "read_at_ms"],
    )
    op.create_table(
        "case_models",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("learned", sa.LargeBinary(), nullable=False),
        sa.Column("learned_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_case_models")),
        sqlite_with_rowid=False,
    )


def _playbooks() -> None:
    op.create_table(
        "playbooks",
        sa.Column("playbook_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("task_class", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("folded_until", sa.BigInteger(), nullable=False),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("playbook_id", name=op.f("pk_playbooks")),
        sa.UniqueConstraint(
            "tenant",
            "namespace",
            "task_class",
            name=op.f("uq_playbooks_tenant_namespace_task_class"),
        ),
    )
    op.create_index(op.f("ix_playbooks_tenant_task_class"), "playbooks", ["tenant", "task_class"])
    op.create_table(
        "playbook_deltas",
        sa.Column("playbook_id", sa.Text(), nullable=False),
        sa.Column("delta_id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("undone_in", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("bullet", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("written_by", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("playbook_id", "delta_id", name=op.f("pk_playbook_deltas")),
        sa.CheckConstraint(
            "kind IN ('add', 'strengthen', 'weaken', 'link', 'retire')",
            name=op.f("ck_playbook_deltas_kind"),
        ),
    )
    op.create_index(
        op.f("ix_playbook_deltas_playbook_id_version"),
        "playbook_deltas",
        ["playbook_id", "version"],
    )
    op.create_table(
        "playbook_sources",
        sa.Column("playbook_id", sa.Text(), nullable=False),
        sa.Column("bullet", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            "playbook_id", "bullet", "source", name=op.f("pk_playbook_sources")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_playbook_sources_source"), "playbook_sources", ["source"])


def _quiet() -> None:
    op.create_table(
        "memory_questions",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("namespaces", sa.Text(), nullable=False),
        sa.Column("filters", sa.Text(), nullable=False),
        sa.Column("asked", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("asked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("answer_tokens", sa.BigInteger(), nullable=False),
        sa.Column("answered_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("head", sa.BigInteger(), nullable=False),
        sa.Column("served", sa.BigInteger(), nullable=False),
        sa.Column("tokens_saved", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "question", name=op.f("pk_memory_questions")),
        sa.CheckConstraint("asked >= 0", name=op.f("ck_memory_questions_asked")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_memory_questions_tenant_asked_at_ms"),
        "memory_questions",
        ["tenant", "asked_at_ms"],
    )
    op.create_table(
        "quiet_works",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("work", sa.Text(), nullable=False),
        sa.Column("began_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("wall_ms", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=True),
        sa.Column("made", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_quiet_works")),
    )
    op.create_index(
        op.f("ix_quiet_works_tenant_began_at_ms"), "quiet_works", ["tenant", "began_at_ms"]
    )

"""The house: tenants, who acts for them, what they may spend and what they did."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_01"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _tenants()
    _principals()
    _tokens()
    _budgets()
    _balances()
    _reservations()
    _reservation_lines()
    _events()
    _sessions()
    _turns()
    _calls()
    _archives()
    _archive_totals()
    _audit()


def _tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_tenants")),
    )


def _principals() -> None:
    op.create_table(
        "principals",
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("role IN ('agent', 'admin')", name=op.f("ck_principals_role")),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant_id"], name=op.f("fk_principals_tenant")
        ),
        sa.PrimaryKeyConstraint("principal_id", name=op.f("pk_principals")),
    )
    op.create_index(op.f("ix_principals_tenant"), "principals", ["tenant"], unique=False)


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("last_four", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.principal_id"], name=op.f("fk_tokens_principal_id")
        ),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_tokens_secret_hash")),
    )
    op.create_index(op.f("ix_tokens_principal_id"), "tokens", ["principal_id"], unique=False)


def _budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), nullable=True),
        sa.Column("is_quota", sa.Boolean(), nullable=False),
        sa.Column("retired_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "scope IN ('tenant', 'agent', 'session')", name=op.f("ck_budgets_scope")
        ),
        sa.CheckConstraint("window_ms > 0", name=op.f("ck_budgets_window")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant_id"], name=op.f("fk_budgets_tenant")),
        sa.PrimaryKeyConstraint("budget_id", name=op.f("pk_budgets")),
    )
    op.create_index(op.f("ix_budgets_tenant"), "budgets", ["tenant"], unique=False)


def _balances() -> None:
    op.create_table(
        "balances",
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("window_start_ms", sa.BigInteger(), nullable=False),
        sa.Column("settled", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("overrun", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "overrun BETWEEN 0 AND 9223372036854775807", name=op.f("ck_balances_overrun_whole")
        ),
        sa.CheckConstraint(
            "reserved BETWEEN 0 AND 9223372036854775807", name=op.f("ck_balances_reserved_whole")
        ),
        sa.CheckConstraint(
            "settled BETWEEN 0 AND 9223372036854775807", name=op.f("ck_balances_settled_whole")
        ),
        sa.PrimaryKeyConstraint(
            "budget_id", "subject", "unit", "window_start_ms", name=op.f("pk_balances")
        ),
        sqlite_with_rowid=False,
    )


def _reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("reservation_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("turn", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("estimate", sa.Text(), nullable=False),
        sa.Column("amount", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("payload_hash", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(ended_at_ms IS NULL) = (state IN ('held', 'forwarded'))",
            name=op.f("ck_reservations_ended_or_live"),
        ),
        sa.CheckConstraint(
            "(idempotency_key IS NULL) = (payload_hash IS NULL)",
            name=op.f("ck_reservations_key_with_hash"),
        ),
        sa.PrimaryKeyConstraint("reservation_id", name=op.f("pk_reservations")),
        sa.UniqueConstraint("call_id", name=op.f("uq_reservations_call_id")),
    )
    op.create_index(
        "ix_reservations_live",
        "reservations",
        ["expires_at_ms"],
        unique=False,
        sqlite_where=sa.text("ended_at_ms IS NULL"),
        postgresql_where=sa.text("ended_at_ms IS NULL"),
    )
    op.create_index(
        "uq_reservations_agent_idempotency_key",
        "reservations",
        ["agent", "idempotency_key"],
        unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )


def _reservation_lines() -> None:
    op.create_table(
        "reservation_lines",
        sa.Column("reservation_id", sa.Text(), nullable=False),
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("window_start_ms", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "amount BETWEEN 0 AND 9223372036854775807",
            name=op.f("ck_reservation_lines_amount_whole"),
        ),
        sa.ForeignKeyConstraint(
            ["reservation_id"],
            ["reservations.reservation_id"],
            name=op.f("fk_reservation_lines_reservation_id"),
        ),
        sa.PrimaryKeyConstraint(
            "reservation_id", "budget_id", "subject", "unit", name=op.f("pk_reservation_lines")
        ),
        sqlite_with_rowid=False,
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reservation_id", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("charges", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('reserved', 'settled', 'released', 'expired')", name=op.f("ck_events_kind")
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_events_reservation_id"), "events", ["reservation_id"], unique=False)


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("closed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("closed_by", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(closed_at_ms IS NULL) = (closed_by IS NULL)",
            name=op.f("ck_sessions_closed_by_someone"),
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_agent"), "sessions", ["agent"], unique=False)
    op.create_index(
        "ix_sessions_open",
        "sessions",
        ["last_seen_at_ms"],
        unique=False,
        sqlite_where=sa.text("closed_at_ms IS NULL"),
        postgresql_where=sa.text("closed_at_ms IS NULL"),
    )


def _turns() -> None:
    op.create_table(
        "turns",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("turn", sa.Text(), nullable=False),
        sa.Column("reservation_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "turn", name=op.f("pk_turns")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_turns_reservation_id"), "turns", ["reservation_id"], unique=False)


def _calls() -> None:
    op.create_table(
        "calls",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("turn", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("policy_version", sa.Text(), nullable=False),
        sa.Column("estimate", sa.Text(), nullable=False),
        sa.Column("measured", sa.Text(), nullable=True),
        sa.Column("unmeasured", sa.Text(), nullable=True),
        sa.Column("memory_peak_bytes", sa.BigInteger(), nullable=True),
        sa.Column("denial", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("isolated", sa.Text(), nullable=True),
        sa.Column("result_bytes", sa.BigInteger(), nullable=True),
        sa.Column("archive_id", sa.Text(), nullable=True),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("tool_calls", sa.BigInteger(), nullable=False),
        sa.Column("turns", sa.BigInteger(), nullable=False),
        sa.Column("wall_ms", sa.BigInteger(), nullable=False),
        sa.Column("cpu_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_calls")),
    )
    op.create_index(
        "ix_calls_ended_at_ms_call_id", "calls", ["ended_at_ms", "call_id"], unique=False
    )
    op.create_index(
        "ix_calls_session_ended_at_ms_call_id",
        "calls",
        ["session", "ended_at_ms", "call_id"],
        unique=False,
    )


def _archives() -> None:
    op.create_table(
        "archives",
        sa.Column("archive_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("archive_id", name=op.f("pk_archives")),
    )
    op.create_index(op.f("ix_archives_created_at_ms"), "archives", ["created_at_ms"], unique=False)
    op.create_index(op.f("ix_archives_session"), "archives", ["session"], unique=False)
    op.create_index(
        "ix_archives_tenant_created_at_ms", "archives", ["tenant", "created_at_ms"], unique=False
    )


def _archive_totals() -> None:
    op.create_table(
        "archive_totals",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "total_bytes BETWEEN 0 AND 9223372036854775807",
            name=op.f("ck_archive_totals_total_bytes_whole"),
        ),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_archive_totals")),
        sqlite_with_rowid=False,
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )

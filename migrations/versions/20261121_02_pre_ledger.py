"""The ledger by account numbers: lines in one text, a chained journal, richer budgets and sessions.

What was in the earlier tables is carried over; the journal opens with the balances as they
stand, because the earlier events were not chained.
"""

import hashlib
import json
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "20261121_02"
down_revision = "20261121_01"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_UNITS = ("memory_mib_s", "io_bytes", "egress_bytes", "energy_mj", "context_tokens")
_INT64_MAX = 2**63 - 1


def upgrade() -> None:
    _set_aside("budgets", "balances", "reservations", "reservation_lines")
    _budgets()
    _balances()
    _reservations()
    _lines_into_reservations()
    _journal()
    _opening_entries()
    _notices()
    _sessions()
    _calls()
    op.drop_table("events")
    for name in ("budgets", "balances", "reservations", "reservation_lines"):
        op.drop_table(f"old_{name}")


def _set_aside(*names: str) -> None:
    # A bare copy, because names of constraints and indexes are taken only once.
    for name in names:
        op.execute(f"CREATE TABLE old_{name} AS SELECT * FROM {name}")  # noqa: S608 - our names
    for name in reversed(names):
        op.drop_table(name)


def _budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("window", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("burst", sa.BigInteger(), nullable=True),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("overdraft", sa.Text(), nullable=False),
        sa.Column("warn_at", sa.Text(), nullable=False),
        sa.Column("is_quota", sa.Boolean(), nullable=False),
        sa.Column("retired_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "scope IN ('tenant', 'agent', 'session')", name=op.f("ck_budgets_scope")
        ),
        sa.CheckConstraint(
            "kind IN ('allowance', 'rate', 'concurrency')", name=op.f("ck_budgets_kind")
        ),
        sa.CheckConstraint("mode IN ('enforce', 'observe')", name=op.f("ck_budgets_mode")),
        sa.CheckConstraint(
            "overdraft IN ('deny', 'allow_and_debt')", name=op.f("ck_budgets_overdraft")
        ),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant_id"], name=op.f("fk_budgets_tenant")),
        sa.PrimaryKeyConstraint("budget_id", name=op.f("pk_budgets")),
    )
    op.create_index(op.f("ix_budgets_tenant"), "budgets", ["tenant"], unique=False)
    op.execute(
        'INSERT INTO budgets (budget_id, tenant, scope, subject, limits, "window", kind, burst,'
        " target, mode, overdraft, warn_at, is_quota, retired_at_ms, created_at_ms,"
        " updated_at_ms, version)"
        " SELECT budget_id, tenant, scope, subject, limits,"
        ' CASE WHEN window_ms IS NULL THEN \'{"kind":"lifetime"}\''
        ' ELSE \'{"kind":"fixed","length_ms":\' || window_ms || \'}\' END,'
        ' \'allowance\', NULL, \'{"tier":"*","tool":"*","upstream":"*"}\', \'enforce\','
        " 'deny', '[]', is_quota, retired_at_ms, created_at_ms, updated_at_ms, version"
        " FROM old_budgets"
    )


def _balances() -> None:
    op.create_table(
        "balances",
        sa.Column("account_id", _ID, nullable=False),
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("window_start_ms", sa.BigInteger(), nullable=False),
        sa.Column("settled", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("overrun", sa.BigInteger(), nullable=False),
        *(
            sa.CheckConstraint(
                f"{name} BETWEEN 0 AND {_INT64_MAX}", name=op.f(f"ck_balances_{name}_whole")
            )
            for name in ("settled", "reserved", "overrun")
        ),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_balances")),
        sa.UniqueConstraint(
            "budget_id",
            "subject",
            "unit",
            "window_start_ms",
            name=op.f("uq_balances_budget_id_subject_unit_window_start_ms"),
        ),
    )
    op.execute(
        "INSERT INTO balances (budget_id, subject, unit, window_start_ms, settled, reserved,"
        " overrun) SELECT budget_id, subject, unit, window_start_ms, settled, reserved, overrun"
        " FROM old_balances ORDER BY budget_id, subject, unit, window_start_ms"
    )


def _reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("reservation_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("upstream", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("turn", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("estimate", sa.Text(), nullable=False),
        sa.Column("opens_turn", sa.Boolean(), nullable=False),
        sa.Column("lines", sa.Text(), nullable=False),
        sa.Column("outlives_process", sa.Boolean(), nullable=False),
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


def _lines_into_reservations() -> None:
    connection = op.get_bind()
    table = sa.table(
        "reservations",
        *(sa.column(name) for name in (*_CARRIED, "kind", "upstream", "tier", "lines")),
        sa.column("opens_turn", sa.Boolean()),
        sa.column("outlives_process", sa.Boolean()),
    )
    written = _lines(connection)
    old = connection.execute(sa.text("SELECT * FROM old_reservations")).mappings().all()
    for row in old:
        estimate = json.loads(row["estimate"])
        is_model = "input_tokens" in estimate or "output_tokens" in estimate
        connection.execute(
            sa.insert(table).values(
                {
                    **{name: row[name] for name in _CARRIED},
                    "kind": "model" if is_model else "tool",
                    "upstream": "",
                    "tier": "",
                    "opens_turn": json.loads(row["amount"]).get("turns", 0) > 0,
                    "lines": " ".join(written.get(row["reservation_id"], [])),
                    "outlives_process": False,
                }
            )
        )


_CARRIED = (
    "reservation_id", "call_id", "name", "tenant", "agent", "session", "turn", "state",
    "estimate", "created_at_ms", "expires_at_ms", "ended_at_ms", "idempotency_key",
    "payload_hash",
)  # fmt: skip


def _lines(connection: sa.Connection) -> dict[str, list[str]]:
    rows = connection.execute(
        sa.text(
            "SELECT l.reservation_id, b.account_id, l.amount FROM old_reservation_lines l"
            " JOIN balances b ON b.budget_id = l.budget_id AND b.subject = l.subject"
            " AND b.unit = l.unit AND b.window_start_ms = l.window_start_ms"
            " ORDER BY l.reservation_id, l.budget_id, l.subject, l.unit"
        )
    )
    written: dict[str, list[str]] = {}
    for reservation_id, account_id, amount in rows:
        written.setdefault(reservation_id, []).append(f"{account_id}:{amount}")
    return written


def _journal() -> None:
    op.create_table(
        "journal",
        sa.Column("seq", _ID, nullable=False, autoincrement=True),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_journal")),
        sa.UniqueConstraint("tenant", "number", name=op.f("uq_journal_tenant_number")),
        sqlite_autoincrement=True,
    )


def _opening_entries() -> None:
    """Book what the balances stand at, tenant by tenant, as the first row of each chain."""
    connection = op.get_bind()
    for tenant, entry in _openings(connection):
        text = f"{'0' * 64}\n{tenant}\n1\n0\n{entry}"
        connection.execute(
            sa.text(
                "INSERT INTO journal (tenant, number, at_ms, entries, hash)"
                " VALUES (:tenant, 1, 0, :entry, :digest)"
            ),
            {
                "tenant": tenant,
                "entry": entry,
                "digest": hashlib.sha256(text.encode()).hexdigest(),
            },
        )


def _openings(connection: sa.Connection) -> Iterator[tuple[str, str]]:
    rows = connection.execute(
        sa.text(
            # An account of a budget that is gone stands in some chain too, or the books would
            # not add up: in that of who held on it, else in the first.
            "SELECT COALESCE(b.tenant, (SELECT MIN(r.tenant) FROM old_reservations r"
            " JOIN old_reservation_lines l ON l.reservation_id = r.reservation_id"
            " WHERE l.budget_id = a.budget_id), (SELECT MIN(tenant_id) FROM tenants)) AS tenant,"
            " a.account_id, a.settled, a.reserved, a.overrun FROM balances a"
            " LEFT JOIN budgets b ON b.budget_id = a.budget_id ORDER BY 1, a.account_id"
        )
    )
    by_tenant: dict[str, list[str]] = {}
    for tenant, account_id, settled, reserved, overrun in rows:
        by_tenant.setdefault(tenant, []).append(f"{account_id}:{settled}:{reserved}:{overrun}")
    for tenant, amounts in by_tenant.items():
        yield tenant, " ".join(["opening", "-", *amounts])


def _notices() -> None:
    op.create_table(
        "notices",
        sa.Column("seq", _ID, nullable=False, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("delivered_at_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind IN ('threshold', 'would_deny')", name=op.f("ck_notices_kind")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_notices")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_notices_undelivered",
        "notices",
        ["seq"],
        unique=False,
        sqlite_where=sa.text("delivered_at_ms IS NULL"),
        postgresql_where=sa.text("delivered_at_ms IS NULL"),
    )


def _sessions() -> None:
    with op.batch_alter_table("sessions") as table:
        table.add_column(sa.Column("frozen_at_ms", sa.BigInteger(), nullable=True))
        table.add_column(sa.Column("frozen_by", sa.Text(), nullable=True))
        table.add_column(sa.Column("parent", sa.Text(), nullable=True))
        table.add_column(sa.Column("carve", sa.Text(), nullable=True))
        table.add_column(sa.Column("carve_reservation", sa.Text(), nullable=True))
        table.create_check_constraint(
            op.f("ck_sessions_frozen_by_someone"),
            "(frozen_at_ms IS NULL) = (frozen_by IS NULL)",
        )
        table.create_check_constraint(
            op.f("ck_sessions_carved_out_of_a_parent"), "(parent IS NULL) = (carve IS NULL)"
        )
    op.create_index(
        "ix_sessions_parent",
        "sessions",
        ["parent"],
        unique=False,
        sqlite_where=sa.text("parent IS NOT NULL"),
        postgresql_where=sa.text("parent IS NOT NULL"),
    )


def _calls() -> None:
    for unit in _UNITS:
        op.add_column("calls", sa.Column(unit, sa.BigInteger(), nullable=False, server_default="0"))

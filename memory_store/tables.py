"""The tables, as the current code reads and writes them.

Times are integers in epoch milliseconds, amounts are integers, JSON is text. The CHECK
constraints repeat what the code already guarantees: they are the last line, not the first.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

# Constraint names are spelled out by a convention, so that a migration can name them.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_INT64_MAX = 2**63 - 1
# SQLite numbers rows by itself only where the column is called INTEGER.
_ID = BigInteger().with_variant(Integer, "sqlite")


def _whole(column: str) -> CheckConstraint:
    # SQLite turns an integer sum that overflows into a float; the upper bound refuses it.
    return CheckConstraint(f"{column} BETWEEN 0 AND {_INT64_MAX}", name=f"{column}_whole")


tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
)

principals = Table(
    "principals",
    metadata,
    Column("principal_id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("tenants.tenant_id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    CheckConstraint("role IN ('agent', 'admin')", name="role"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", Text, primary_key=True),
    Column("principal_id", Text, ForeignKey("principals.principal_id"), nullable=False, index=True),
    # Only the SHA-256 of the secret; with 256 random bits behind it no salt is needed.
    Column("secret_hash", Text, nullable=False, unique=True),
    Column("last_four", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger),
    Column("revoked_at_ms", BigInteger),
)

budgets = Table(
    "budgets",
    metadata,
    Column("budget_id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("tenants.tenant_id"), nullable=False, index=True),
    Column("scope", Text, nullable=False),
    Column("subject", Text),
    Column("limits", Text, nullable=False),
    Column("window", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("burst", BigInteger),
    Column("target", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("overdraft", Text, nullable=False),
    Column("warn_at", Text, nullable=False),
    Column("is_quota", Boolean, nullable=False),
    Column("retired_at_ms", BigInteger),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    CheckConstraint("scope IN ('tenant', 'agent', 'session')", name="scope"),
    CheckConstraint("kind IN ('allowance', 'rate', 'concurrency')", name="kind"),
    CheckConstraint("mode IN ('enforce', 'observe')", name="mode"),
    CheckConstraint("overdraft IN ('deny', 'allow_and_debt')", name="overdraft"),
)

# The number stands for the four parts of the key wherever an amount is booked.
balances = Table(
    "balances",
    metadata,
    Column("account_id", _ID, primary_key=True),
    Column("budget_id", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("window_start_ms", BigInteger, nullable=False),
    Column("settled", BigInteger, nullable=False),
    Column("reserved", BigInteger, nullable=False),
    Column("overrun", BigInteger, nullable=False),
    _whole("settled"),
    _whole("reserved"),
    _whole("overrun"),
    UniqueConstraint("budget_id", "subject", "unit", "window_start_ms"),
)

reservations = Table(
    "reservations",
    metadata,
    Column("reservation_id", Text, primary_key=True),
    Column("call_id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),  # a tool or model call, or a sub-session's carve
    Column("name", Text, nullable=False),
    Column("upstream", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("turn", Text),
    Column("state", Text, nullable=False),
    Column("estimate", Text, nullable=False),
    Column("opens_turn", Boolean, nullable=False),
    Column("lines", Text, nullable=False),  # what is held, account by account
    Column("outlives_process", Boolean, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger),
    Column("idempotency_key", Text),
    Column("payload_hash", Text),
    CheckConstraint(
        "(ended_at_ms IS NULL) = (state IN ('held', 'forwarded'))", name="ended_or_live"
    ),
    CheckConstraint("(idempotency_key IS NULL) = (payload_hash IS NULL)", name="key_with_hash"),
    Index(
        "uq_reservations_agent_idempotency_key",
        "agent",
        "idempotency_key",
        unique=True,
        sqlite_where=text("idempotency_key IS NOT NULL"),
        postgresql_where=text("idempotency_key IS NOT NULL"),
    ),
    Index(
        "ix_reservations_live",
        "expires_at_ms",
        sqlite_where=text("ended_at_ms IS NULL"),
        postgresql_where=text("ended_at_ms IS NULL"),
    ),
)

# Every booking, in the order in which it was made: the balances are the fold of it. Each
# row holds the bookings of one tenant in one transaction, and the hash of the row before.
journal = Table(
    "journal",
    metadata,
    Column("seq", _ID, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("entries", Text, nullable=False),
    Column("hash", Text, nullable=False),
    UniqueConstraint("tenant", "number"),
    sqlite_autoincrement=True,
)

# What an administrator should hear of; it is also the outbox of webhooks and other notifiers.
notices = Table(
    "notices",
    metadata,
    Column("seq", _ID, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("budget_id", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("delivered_at_ms", BigInteger),
    CheckConstraint("kind IN ('threshold', 'would_deny', 'denial', 'approval')", name="kind"),
    Index(
        "ix_notices_undelivered",
        "seq",
        sqlite_where=text("delivered_at_ms IS NULL"),
        postgresql_where=text("delivered_at_ms IS NULL"),
    ),
    sqlite_autoincrement=True,
)

# How far each notifier is: all up to `done_seq` is done with, of what follows what has a receipt.
# Of sidecars on one database the one that leased it delivers.
notice_receivers = Table(
    "notice_receivers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("done_seq", BigInteger, nullable=False),
    Column("leased_by", Text, nullable=False),
    Column("leased_until_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

notice_receipts = Table(
    "notice_receipts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    sqlite_with_rowid=False,
)

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("agent", Text, nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("opened_at_ms", BigInteger, nullable=False),
    Column("last_seen_at_ms", BigInteger, nullable=False),
    Column("closed_at_ms", BigInteger),
    Column("closed_by", Text),
    Column("frozen_at_ms", BigInteger),
    Column("frozen_by", Text),
    Column("parent", Text),
    Column("carve", Text),  # what a sub-session may use
    Column("carve_reservation", Text),  # and the hold on its parents that stands for it
    CheckConstraint("(closed_at_ms IS NULL) = (closed_by IS NULL)", name="closed_by_someone"),
    CheckConstraint("(frozen_at_ms IS NULL) = (frozen_by IS NULL)", name="frozen_by_someone"),
    CheckConstraint("(parent IS NULL) = (carve IS NULL)", name="carved_out_of_a_parent"),
    Index(
        "ix_sessions_parent",
        "parent",
        sqlite_where=text("parent IS NOT NULL"),
        postgresql_where=text("parent IS NOT NULL"),
    ),
    Index(
        "ix_sessions_open",
        "last_seen_at_ms",
        sqlite_where=text("closed_at_ms IS NULL"),
        postgresql_where=text("closed_at_ms IS NULL"),
    ),
)

turns = Table(
    "turns",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("turn", Text, primary_key=True),
    Column("reservation_id", Text, nullable=False, index=True),
    sqlite_with_rowid=False,
)

calls = Table(
    "calls",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("turn", Text),
    Column("status", Text, nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("backend", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("policy_version", Text, nullable=False),
    Column("estimate", Text, nullable=False),
    Column("measured", Text),  # NULL: no usage was reported at all
    Column("unmeasured", Text),
    Column("memory_peak_bytes", BigInteger),
    Column("denial", Text),
    Column("detail", Text, nullable=False),
    Column("isolated", Text),
    Column("result_bytes", BigInteger),
    Column("archive_id", Text),
    # What the call was charged, unit by unit, so that a bill is one sum.
    Column("cost_microusd", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("tool_calls", BigInteger, nullable=False),
    Column("turns", BigInteger, nullable=False),
    Column("wall_ms", BigInteger, nullable=False),
    Column("cpu_ms", BigInteger, nullable=False),
    Column("memory_mib_s", BigInteger, nullable=False, server_default="0"),
    Column("io_bytes", BigInteger, nullable=False, server_default="0"),
    Column("egress_bytes", BigInteger, nullable=False, server_default="0"),
    Column("energy_mj", BigInteger, nullable=False, server_default="0"),
    Column("context_tokens", BigInteger, nullable=False, server_default="0"),
    Column("probe_1", BigInteger, nullable=False, server_default="0"),
    Column("probe_2", BigInteger, nullable=False, server_default="0"),
    Column("probe_3", BigInteger, nullable=False, server_default="0"),
    Column("probe_4", BigInteger, nullable=False, server_default="0"),
    Column("memory_bytes", BigInteger, nullable=False, server_default="0"),
    Column("memory_writes", BigInteger, nullable=False, server_default="0"),
    Column("memory_read_tokens", BigInteger, nullable=False, server_default="0"),
    # Equal for equal arguments and results of one session; NULL where nobody compares.
    Column("arguments_hash", Text),
    Column("result_hash", Text),
    Column("price_version", Text),
    Column("usage_source", Text),  # NULL: of no model call, or of one from before this was kept
    Column("curve", Text),  # of a local command, some hundred characters; no listing reads it
    Index("ix_calls_ended_at_ms_call_id", "ended_at_ms", "call_id"),
    Index("ix_calls_session_ended_at_ms_call_id", "session", "ended_at_ms", "call_id"),
)

archives = Table(
    "archives",
    metadata,
    Column("archive_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False, index=True),
    Column("call_id", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False, index=True),
    Index("ix_archives_tenant_created_at_ms", "tenant", "created_at_ms"),
)

# What adding up a tenant's entries would give, kept so that no insert has to add them up.
archive_totals = Table(
    "archive_totals",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("total_bytes", BigInteger, nullable=False),
    _whole("total_bytes"),
    sqlite_with_rowid=False,
)

audit = Table(
    "audit",
    metadata,
    Column("seq", _ID, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("before", Text),
    Column("after", Text),
    Index("ix_audit_target_at_ms", "target", "at_ms"),
    sqlite_autoincrement=True,
)

# Every list of model prices that an administrator put, so that the version on a call's record
# can be looked up for good. The latest is in force; one without content says: the file's.
price_lists = Table(
    "price_lists",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("version", Text, nullable=False),
    Column("content", Text),
    Column("put_at_ms", BigInteger, nullable=False),
    Column("put_by", Text, nullable=False),
)

# What the archive keeps where several sidecars share a database; else it keeps files.
archive_blobs = Table(
    "archive_blobs",
    metadata,
    Column("archive_id", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("written_at_ms", BigInteger, nullable=False),
)

# Where several sidecars share a database: whose turn it is to change a tenant's books, how
# many turns there were, and how many of them changed its budgets or the state of a session.
turns_taken = Table(
    "turns_taken",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("changes", BigInteger, nullable=False),
    Column("standing", BigInteger, nullable=False),
)

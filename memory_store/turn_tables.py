"""The tables of turn control and of what became of sessions."""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Integer, Table, Text

from memory_store.tables import metadata

# Beside `sessions`, not in it: a session's class is known before its first call is admitted.
session_turns = Table(
    "session_turns",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("task_class", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("base_turns", Integer),  # NULL: not limited
    Column("was_cut", Boolean, nullable=False),
    Column("begun_at_ms", BigInteger, nullable=False),
    Column("is_solved", Boolean),  # NULL: nobody said how it went
    Column("outcome_at_ms", BigInteger),
    Column("outcome_by", Text),
    CheckConstraint("base_turns > 0", name="base_turns"),
    CheckConstraint("(is_solved IS NULL) = (outcome_at_ms IS NULL)", name="outcome_at_a_time"),
    CheckConstraint("(is_solved IS NULL) = (outcome_by IS NULL)", name="outcome_by_someone"),
    Index("ix_session_turns_tenant_task_class_begun_at_ms", "tenant", "task_class", "begun_at_ms"),
    Index("ix_session_turns_outcome_at_ms", "outcome_at_ms"),
    sqlite_with_rowid=False,
)

turn_extensions = Table(
    "turn_extensions",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("turns", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("granted_by", Text, nullable=False),
    Column("granted_at_ms", BigInteger, nullable=False),
    CheckConstraint("turns > 0", name="turns"),
    sqlite_with_rowid=False,
)

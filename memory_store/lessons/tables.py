"""The tables of what is learned of experiences."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from memory_store.tables import metadata

# Which cases were read, for what, with which chance, and what became of their readers.
case_reads = Table(
    "case_reads",
    metadata,
    Column("choice", Text, primary_key=True),  # the call by which they were read
    Column("case_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("reader", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("task_class", Text, nullable=False),
    Column("sketch", LargeBinary, nullable=False),  # of the words of the task
    Column("slot", Integer, nullable=False),
    Column("propensity", Double, nullable=False),
    Column("explored", Boolean, nullable=False),
    Column("features", LargeBinary, nullable=False),  # float64, little-endian
    Column("base", Double, nullable=False),
    Column("linear", Double, nullable=False),
    Column("own", Double, nullable=False),
    Column("share", Double, nullable=False),
    Column("read_at_ms", BigInteger, nullable=False),
    Column("score", Double),  # NULL: nobody said what became of it
    Column("weight", Double, nullable=False),
    Column("is_trusted", Boolean, nullable=False),
    Column("is_pending", Boolean, nullable=False),  # there is something to learn of it
    Column("learned_score", Double),
    Column("learned_weight", Double),
    CheckConstraint("propensity > 0 AND propensity <= 1", name="propensity"),
    CheckConstraint("score >= 0 AND score <= 1", name="score"),
    CheckConstraint("weight >= 0", name="weight"),
    Index("ix_case_reads_tenant_case_id_read_at_ms", "tenant", "case_id", "read_at_ms"),
    Index("ix_case_reads_session_read_at_ms", "session", "read_at_ms"),
    Index("ix_case_reads_is_pending_tenant", "is_pending", "tenant"),
    Index("ix_case_reads_read_at_ms", "read_at_ms"),
)

case_models = Table(
    "case_models",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("learned", LargeBinary, nullable=False),
    Column("learned_at_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

playbooks = Table(
    "playbooks",
    metadata,
    Column("playbook_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("task_class", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("folded_until", BigInteger, nullable=False),  # up to this version there are no deltas
    Column("folded", Text, nullable=False),  # the bullets as of then
    Column("changed_at_ms", BigInteger, nullable=False),
    UniqueConstraint("tenant", "namespace", "task_class"),
    Index("ix_playbooks_tenant_task_class", "tenant", "task_class"),
)

playbook_deltas = Table(
    "playbook_deltas",
    metadata,
    Column("playbook_id", Text, primary_key=True),
    Column("delta_id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("undone_in", BigInteger),  # NULL: it counts
    Column("kind", Text, nullable=False),
    Column("bullet", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("written_by", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    CheckConstraint("kind IN ('add', 'strengthen', 'weaken', 'link', 'retire')", name="kind"),
    Index("ix_playbook_deltas_playbook_id_version", "playbook_id", "version"),
)

# Which experiences stand for a bullet, so that what is erased or revoked takes it along.
playbook_sources = Table(
    "playbook_sources",
    metadata,
    Column("playbook_id", Text, primary_key=True),
    Column("bullet", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Index("ix_playbook_sources_source", "source"),
    sqlite_with_rowid=False,
)

# What is asked of the memory time and again, and the answer that was made beforehand.
memory_questions = Table(
    "memory_questions",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("question", Text, primary_key=True),  # a hash of who may read what, and of the words
    Column("words", Text, nullable=False),
    Column("namespaces", Text, nullable=False),
    Column("filters", Text, nullable=False),
    Column("asked", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),  # what the last answer by searching took
    Column("asked_at_ms", BigInteger, nullable=False),
    Column("answer", Text),  # NULL: there is none, or it no longer holds
    Column("sources", Text, nullable=False),
    Column("answer_tokens", BigInteger, nullable=False),
    Column("answered_at_ms", BigInteger),
    Column("head", BigInteger, nullable=False),  # of the tenant's log, as of the answer
    Column("served", BigInteger, nullable=False),
    Column("tokens_saved", BigInteger, nullable=False),
    CheckConstraint("asked >= 0", name="asked"),
    Index("ix_memory_questions_tenant_asked_at_ms", "tenant", "asked_at_ms"),
    sqlite_with_rowid=False,
)

# What the house did in quiet hours, and what it took.
quiet_works = Table(
    "quiet_works",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("work", Text, nullable=False),
    Column("began_at_ms", BigInteger, nullable=False),
    Column("wall_ms", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost_microusd", BigInteger),
    Column("made", BigInteger, nullable=False),
    Index("ix_quiet_works_tenant_began_at_ms", "tenant", "began_at_ms"),
)

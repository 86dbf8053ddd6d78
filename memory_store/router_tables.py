"""The tables of the router: what it chose, what became of it, and what was learned."""

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
)

from memory_store.tables import metadata

router_decisions = Table(
    "router_decisions",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("decided_at_ms", BigInteger, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("turn", Text),
    Column("task_class", Text),
    Column("policy", Text, nullable=False),
    Column("model", Text),  # NULL: no learned model had a part in it
    Column("tier", Text, nullable=False),
    Column("propensity", Double, nullable=False),
    Column("explored", Boolean, nullable=False),
    Column("price", Double, nullable=False),  # what a micro-dollar counted, in quality
    Column("options", Text, nullable=False),
    Column("features", LargeBinary, nullable=False),
    Column("shadow_model", Text),
    Column("shadow_tier", Text),
    Column("status", Text),  # NULL: it has not ended, or nobody said how
    Column("cost_microusd", BigInteger),
    Column("output_tokens", BigInteger),
    Column("latency_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("score", Double),  # what all reports amount to, NULL without any
    Column("weight", Double, nullable=False),
    Column("is_trusted", Boolean, nullable=False),
    Column("is_pending", Boolean, nullable=False),  # there is something to learn of it
    Column("learned_by", Text),  # the model whose bandit has learned the two that follow
    Column("learned_score", Double),
    Column("learned_weight", Double),
    CheckConstraint("propensity > 0 AND propensity <= 1", name="propensity"),
    CheckConstraint("score >= 0 AND score <= 1", name="score"),
    CheckConstraint("weight >= 0", name="weight"),
    Index("ix_router_decisions_decided_at_ms_call_id", "decided_at_ms", "call_id"),
    Index("ix_router_decisions_session_decided_at_ms", "session", "decided_at_ms"),
    Index("ix_router_decisions_is_pending_decided_at_ms", "is_pending", "decided_at_ms"),
)

router_outcomes = Table(
    "router_outcomes",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("reported_by", Text, primary_key=True),
    Column("score", Double, nullable=False),
    Column("weight", Double, nullable=False),
    Column("is_trusted", Boolean, nullable=False),
    Column("reported_at_ms", BigInteger, nullable=False, index=True),
    CheckConstraint("score >= 0 AND score <= 1", name="score"),
    CheckConstraint("weight >= 0", name="weight"),
    CheckConstraint("source IN ('tests', 'user', 'judge', 'tool', 'task')", name="source"),
    sqlite_with_rowid=False,
)

router_models = Table(
    "router_models",
    metadata,
    Column("version", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("parent", Text),  # what was in force when it was trained; NULL: the tier rules
    Column("before", Text),  # what it took the place of; NULL: the tier rules
    Column("checksum", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("learned_until_ms", BigInteger, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("changed_at_ms", BigInteger, nullable=False),
    CheckConstraint("state IN ('candidate', 'incumbent', 'retired')", name="state"),
)

# One row: what is in force, and what the bandit beside it has learned.
router_state = Table(
    "router_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("incumbent", Text),
    Column("revision", BigInteger, nullable=False),  # of the choice of a model
    Column("learned_revision", BigInteger, nullable=False),
    Column("learned", LargeBinary),
    Column("learned_at_ms", BigInteger, nullable=False),
    Column("learn_since_ms", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one"),
)

"""The tables of what memory chooses by itself, and of what was learned of that."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Index,
    LargeBinary,
    Table,
    Text,
)

from memory_store.tables import metadata

# A search that was done by some plan, or an experience that was offered to a bank.
memory_choices = Table(
    "memory_choices",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("what", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # the call of a search, the experience that was offered
    Column("bank", Text, nullable=False),  # the namespace of the bank, '' for a search
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("decided_at_ms", BigInteger, nullable=False),
    Column("arm", Text, nullable=False),
    Column("propensity", Double, nullable=False),
    Column("explored", Boolean, nullable=False),
    Column("price", Double, nullable=False),  # what a micro-dollar counted, in quality
    Column("options", Text, nullable=False),
    Column("context", LargeBinary, nullable=False),
    Column("subject", Text),  # the copy in the bank, NULL where there is none
    Column("shown", Text, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("latency_us", BigInteger, nullable=False),
    Column("cost_microusd", BigInteger, nullable=False),
    Column("outcome", Text),  # NULL: nobody has said anything of it
    Column("learned", Text),  # the outcome that was learned last
    Column("is_pending", Boolean, nullable=False),
    CheckConstraint("what IN ('search', 'sharing')", name="what"),
    CheckConstraint("propensity > 0 AND propensity <= 1", name="propensity"),
    Index("ix_memory_choices_session", "tenant", "session", "decided_at_ms"),
    Index("ix_memory_choices_decided_at_ms", "decided_at_ms"),
    Index("ix_memory_choices_pending", "what", "is_pending", "decided_at_ms"),
    Index("ix_memory_choices_subject", "tenant", "subject"),
    sqlite_with_rowid=False,
)

# What was learned of a tenant's searches, or of one bank, and what was known before.
memory_learned = Table(
    "memory_learned",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("what", Text, primary_key=True),
    Column("bank", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("in_force", Boolean, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("promoted", LargeBinary),  # as it was when it was last put in force
    Column("before", LargeBinary),  # as it was the time before that
    Column("changed_at_ms", BigInteger, nullable=False),
    CheckConstraint("what IN ('search', 'sharing')", name="what"),
    sqlite_with_rowid=False,
)

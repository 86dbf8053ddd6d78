"""The tables of experiences: the rows are the truth, every index is derived from them."""

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
    text,
)

from memory_store.tables import metadata

# SQLite numbers rows by itself only where the column is called INTEGER.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

experience_namespaces = Table(
    "experience_namespaces",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("owner", Text, nullable=False),  # empty: shared; no two rows may differ by NULL alone
    Column("bytes_max", BigInteger),
    Column("created_at_ms", BigInteger, nullable=False),
    UniqueConstraint("tenant", "name", "owner"),
    CheckConstraint("bytes_max >= 0", name="bytes_max"),
)

experience_grants = Table(
    "experience_grants",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("principal", Text, primary_key=True),
    Column("right", Text, nullable=False),
    Column("granted_by", Text, nullable=False),
    Column("granted_at_ms", BigInteger, nullable=False),
    CheckConstraint("\"right\" IN ('read', 'write', 'manage')", name="right"),
    sqlite_with_rowid=False,
)

# The content comes last: SQLite reads what stands before it without turning its pages.
experiences = Table(
    "experiences",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("experience_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("standing", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("traits", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("writer", Text, nullable=False),
    Column("call_id", Text),
    Column("upstream", Text),
    Column("source", Text, nullable=False),
    Column("derived_from", Text, nullable=False),
    Column("learned_at_ms", BigInteger, nullable=False),
    Column("valid_from_ms", BigInteger, nullable=False),
    Column("valid_until_ms", BigInteger),
    Column("actor", Text, nullable=False),
    Column("session", Text),
    Column("task_class", Text),
    Column("tags", Text, nullable=False),
    Column("cost_microusd", BigInteger),
    Column("outcome", Double),
    Column("supersedes", Text),
    Column("superseded_by", Text),
    Column("superseded_at_ms", BigInteger),  # when the house heard of the correction
    Column("superseded_from_ms", BigInteger),  # from when on the correction is true
    Column("expires_at_ms", BigInteger),
    Column("signature", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("entry_number", BigInteger, nullable=False),  # of the log: that it was written
    Column("entry_hash", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("content", LargeBinary),  # NULL: it is a blob
    CheckConstraint(
        "standing IN ('active', 'quarantined', 'superseded', 'revoked')", name="standing"
    ),
    CheckConstraint("lane IN ('operator', 'user', 'agent', 'tool', 'web')", name="lane"),
    CheckConstraint("size_bytes >= 0", name="size_bytes"),
    # Of the tenant: no conflict may tell one tenant of the ids of another.
    UniqueConstraint("tenant", "experience_id"),
    Index("ix_experiences_namespace_number", "namespace", "number"),
    Index("ix_experiences_session_number", "session", "number"),
    Index("ix_experiences_writer_number", "writer", "number"),
    Index("ix_experiences_learned_at_ms", "learned_at_ms"),
    Index(
        "ix_experiences_call_id",
        "call_id",
        sqlite_where=text("call_id IS NOT NULL"),
        postgresql_where=text("call_id IS NOT NULL"),
    ),
    Index(
        "ix_experiences_expires_at_ms",
        "expires_at_ms",
        sqlite_where=text("expires_at_ms IS NOT NULL"),
        postgresql_where=text("expires_at_ms IS NOT NULL"),
    ),
    Index(
        "ix_experiences_quarantined",
        "tenant",
        "number",
        sqlite_where=text("standing = 'quarantined'"),
        postgresql_where=text("standing = 'quarantined'"),
    ),
    # No number is used again, or a log would speak of two experiences by one.
    sqlite_autoincrement=True,
)

experience_terms = Table(
    "experience_terms",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("namespace", Text, nullable=False),
    Column("terms", Text, nullable=False),
    Column("seal", Text, nullable=False),  # over all that it is found by
)

experience_vectors = Table(
    "experience_vectors",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("axes", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),  # float16, little-endian
)

experience_links = Table(
    "experience_links",
    metadata,
    Column("source", _NUMBER, primary_key=True, autoincrement=False),
    Column("target", _NUMBER, primary_key=True, autoincrement=False),
    Column("relation", Text, primary_key=True),
    CheckConstraint(
        "relation IN ('derived_from', 'supersedes', 'same_as', 'cites')", name="relation"
    ),
    Index("ix_experience_links_target_relation", "target", "relation"),
    sqlite_with_rowid=False,
)

# What was made of something withdrawn and is to be withdrawn next: left by a crash, it is known.
experience_withdrawals = Table(
    "experience_withdrawals",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("goes", Text, primary_key=True),
    Column("only_of", Text, primary_key=True),  # empty: whoever wrote it
    Column("tenant", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    CheckConstraint("goes IN ('revoked', 'erased')", name="goes"),
    sqlite_with_rowid=False,
)

experience_blobs = Table(
    "experience_blobs",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),  # of the file; none is used twice
    Column("size_bytes", BigInteger, nullable=False),
    Column("held_by", BigInteger, nullable=False),  # how many experiences
    CheckConstraint("held_by > 0", name="held_by"),
    sqlite_with_rowid=False,
)

# On a server: the bytes of the blobs themselves.
experience_contents = Table(
    "experience_contents",
    metadata,
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("written_at_ms", BigInteger, nullable=False, index=True),
)

experience_log = Table(
    "experience_log",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("experience_id", Text, nullable=False),
    Column("experience_number", BigInteger, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("standing", Text),
    Column("digest", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("hash", Text, nullable=False),
    CheckConstraint("event IN ('written', 'marked', 'erased')", name="event"),
    Index(
        "ix_experience_log_erased",
        "tenant",
        "experience_id",
        sqlite_where=text("event = 'erased'"),
        postgresql_where=text("event = 'erased'"),
    ),
    sqlite_with_rowid=False,
)

# The end of each tenant's log, and the secret that its digests and receipts are made with.
experience_keys = Table(
    "experience_keys",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    Column("head_number", BigInteger, nullable=False),
    Column("head_hash", Text, nullable=False),
)

experience_totals = Table(
    "experience_totals",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("lane", Text, primary_key=True),
    Column("items", BigInteger, nullable=False),
    Column("content_bytes", BigInteger, nullable=False),
    CheckConstraint("items >= 0", name="items"),
    CheckConstraint("content_bytes >= 0", name="content_bytes"),
    sqlite_with_rowid=False,
)

# How often something was erased from the database file, and up to which of these times nothing of
# it is left there: one row, none before the first erasure.
experience_scrubs = Table(
    "experience_scrubs",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("asked", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    CheckConstraint("number = 1", name="number"),
)

# What a writer has written into a lane in a window, for the quotas of lanes.
experience_tallies = Table(
    "experience_tallies",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("writer", Text, primary_key=True),
    Column("lane", Text, primary_key=True),
    Column("window_from_ms", BigInteger, nullable=False),
    Column("writes", BigInteger, nullable=False),
    Column("content_bytes", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

experience_uses = Table(
    "experience_uses",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    Column("number", BigInteger, nullable=False, index=True),
    Column("reader", Text, nullable=False),
    Column("session", Text),
    Column("call_id", Text),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("used", Boolean),
    Column("score", Double),
    CheckConstraint("score >= 0 AND score <= 1", name="score"),
)

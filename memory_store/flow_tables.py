"""The table of what sessions have seen and what their users said."""

from sqlalchemy import BigInteger, Column, Table, Text

from memory_store.tables import metadata

# Beside `sessions`, not in it: a user's words are known before the first call is admitted.
session_flows = Table(
    "session_flows",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("private_by", Text),
    Column("private_at_ms", BigInteger),
    Column("untrusted_by", Text),
    Column("untrusted_at_ms", BigInteger),
    Column("words", Text),
    Column("words_from", Text),
    Column("task_class", Text),
    Column("changed_at_ms", BigInteger, nullable=False, index=True),
    sqlite_with_rowid=False,
)

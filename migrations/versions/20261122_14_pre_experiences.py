"""Experiences: namespaces, what is kept in them, its log, and what is noted of its use."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_14"
down_revision = "20261122_13"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _namespaces()
    _experiences()
    _derived()
    _contents()
    _log()
    _scrubs()
    _uses()


def _namespaces() -> None:
    op.create_table(
        "experience_namespaces",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("bytes_max", sa.BigInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("bytes_max >= 0", name=op.f("ck_experience_namespaces_bytes_max")),
        sa.PrimaryKeyConstraint("namespace", name=op.f("pk_experience_namespaces")),
        sa.UniqueConstraint(
            "tenant", "name", "owner", name=op.f("uq_experience_namespaces_tenant_name_owner")
        ),
    )
    op.create_table(
        "experience_grants",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("right", sa.Text(), nullable=False),
        sa.Column("granted_by", sa.Text(), nullable=False),
        sa.Column("granted_at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "\"right\" IN ('read', 'write', 'manage')", name=op.f("ck_experience_grants_right")
        ),
        sa.PrimaryKeyConstraint("namespace", "principal", name=op.f("pk_experience_grants")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "experience_totals",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("items", sa.BigInteger(), nullable=False),
        sa.Column("content_bytes", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("content_bytes >= 0", name=op.f("ck_experience_totals_content_bytes")),
        sa.CheckConstraint("items >= 0", name=op.f("ck_experience_totals_items")),
        sa.PrimaryKeyConstraint("tenant", "namespace", "lane", name=op.f("pk_experience_totals")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "experience_tallies",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("window_from_ms", sa.BigInteger(), nullable=False),
        sa.Column("writes", sa.BigInteger(), nullable=False),
        sa.Column("content_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "writer", "lane", name=op.f("pk_experience_tallies")),
        sqlite_with_rowid=False,
    )


def _experiences() -> None:
    op.create_table(
        "experiences",
        *_written(),
        *_said(),
        sa.CheckConstraint(
            "lane IN ('operator', 'user', 'agent', 'tool', 'web')", name=op.f("ck_experiences_lane")
        ),
        sa.CheckConstraint(
            "standing IN ('active', 'quarantined', 'superseded', 'revoked')",
            name=op.f("ck_experiences_standing"),
        ),
        sa.CheckConstraint("size_bytes >= 0", name=op.f("ck_experiences_size_bytes")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_experiences")),
        sa.UniqueConstraint(
            "tenant", "experience_id", name=op.f("uq_experiences_tenant_experience_id")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_experiences_call_id", "experiences", ["call_id"], **_where("call_id"))
    op.create_index(
        "ix_experiences_expires_at_ms", "experiences", ["expires_at_ms"], **_where("expires_at_ms")
    )
    op.create_index("ix_experiences_learned_at_ms", "experiences", ["learned_at_ms"])
    op.create_index("ix_experiences_namespace_number", "experiences", ["namespace", "number"])
    op.create_index(
        "ix_experiences_quarantined",
        "experiences",
        ["tenant", "number"],
        sqlite_where=sa.text("standing = 'quarantined'"),
        postgresql_where=sa.text("standing = 'quarantined'"),
    )
    op.create_index("ix_experiences_session_number", "experiences", ["session", "number"])
    op.create_index("ix_experiences_writer_number", "experiences", ["writer", "number"])


def _written() -> list[sa.Column[object]]:
    return [
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("experience_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("traits", sa.BigInteger(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("upstream", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("derived_from", sa.Text(), nullable=False),
    ]


def _said() -> list[sa.Column[object]]:
    return [
        sa.Column("learned_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("valid_from_ms", sa.BigInteger(), nullable=False),
        sa.Column("valid_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=True),
        sa.Column("task_class", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Double(), nullable=True),
        sa.Column("supersedes", sa.Text(), nullable=True),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.Column("superseded_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("superseded_from_ms", sa.BigInteger(), nullable=True),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("entry_number", sa.BigInteger(), nullable=False),
        sa.Column("entry_hash", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=True),
    ]


def _derived() -> None:
    op.create_table(
        "experience_terms",
        sa.Column("number", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("seal", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_experience_terms")),
    )
    op.create_table(
        "experience_vectors",
        sa.Column("number", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("axes", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_experience_vectors")),
    )
    op.create_table(
        "experience_links",
        sa.Column("source", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("target", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("relation", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "relation IN ('derived_from', 'supersedes', 'same_as', 'cites')",
            name=op.f("ck_experience_links_relation"),
        ),
        sa.PrimaryKeyConstraint("source", "target", "relation", name=op.f("pk_experience_links")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_experience_links_target_relation", "experience_links", ["target", "relation"]
    )
    op.create_table(
        "experience_withdrawals",
        sa.Column("number", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("goes", sa.Text(), nullable=False),
        sa.Column("only_of", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "goes IN ('revoked', 'erased')", name=op.f("ck_experience_withdrawals_goes")
        ),
        sa.PrimaryKeyConstraint(
            "number", "goes", "only_of", name=op.f("pk_experience_withdrawals")
        ),
        sqlite_with_rowid=False,
    )


def _contents() -> None:
    op.create_table(
        "experience_blobs",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("held_by", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("held_by > 0", name=op.f("ck_experience_blobs_held_by")),
        sa.PrimaryKeyConstraint("tenant", "address", name=op.f("pk_experience_blobs")),
        sa.UniqueConstraint("name", name=op.f("uq_experience_blobs_name")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "experience_contents",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("written_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_experience_contents")),
    )
    op.create_index(
        op.f("ix_experience_contents_written_at_ms"), "experience_contents", ["written_at_ms"]
    )


def _log() -> None:
    op.create_table(
        "experience_log",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("experience_id", sa.Text(), nullable=False),
        sa.Column("experience_number", sa.BigInteger(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "event IN ('written', 'marked', 'erased')", name=op.f("ck_experience_log_event")
        ),
        sa.PrimaryKeyConstraint("tenant", "number", name=op.f("pk_experience_log")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_experience_log_erased",
        "experience_log",
        ["tenant", "experience_id"],
        sqlite_where=sa.text("event = 'erased'"),
        postgresql_where=sa.text("event = 'erased'"),
    )
    op.create_table(
        "experience_keys",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("head_number", sa.BigInteger(), nullable=False),
        sa.Column("head_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_experience_keys")),
    )


def _scrubs() -> None:
    op.create_table(
        "experience_scrubs",
        sa.Column("number", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("asked", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("number = 1", name=op.f("ck_experience_scrubs_number")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_experience_scrubs")),
    )


def _uses() -> None:
    op.create_table(
        "experience_uses",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=True),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.Boolean(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.CheckConstraint("score >= 0 AND score <= 1", name=op.f("ck_experience_uses_score")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_experience_uses")),
    )
    op.create_index(op.f("ix_experience_uses_at_ms"), "experience_uses", ["at_ms"])
    op.create_index(op.f("ix_experience_uses_number"), "experience_uses", ["number"])


def _where(column: str) -> dict[str, sa.TextClause]:
    """Return what says that an index has only the rows with something in that column."""
    given = sa.text(f"{column} IS NOT NULL")
    return {"sqlite_where": given, "postgresql_where": given}

"""Notices of denials and approvals, and how far each notifier is with them."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_20"
down_revision = "20261122_19"
branch_labels = None
depends_on = None

_KINDS = "kind IN ('threshold', 'would_deny', 'denial', 'approval')"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _notices_again()
    else:
        op.drop_constraint(op.f("ck_notices_kind"), "notices", type_="check")
        op.create_check_constraint(op.f("ck_notices_kind"), "notices", sa.text(_KINDS))
    op.create_table(
        "notice_receivers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("done_seq", sa.BigInteger(), nullable=False),
        sa.Column("leased_by", sa.Text(), nullable=False),
        sa.Column("leased_until_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_notice_receivers")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "notice_receipts",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "seq", name=op.f("pk_notice_receipts")),
        sqlite_with_rowid=False,
    )


def _notices_again() -> None:
    """Make the table anew: SQLite changes no constraint of one that stands."""
    op.drop_index(op.f("ix_notices_undelivered"), "notices")
    op.rename_table("notices", "notices_before")
    op.create_table(
        "notices",
        sa.Column("seq", sa.Integer(), nullable=False, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("delivered_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_notices")),
        sa.CheckConstraint(_KINDS, name=op.f("ck_notices_kind")),
        sqlite_autoincrement=True,
    )
    op.execute("INSERT INTO notices SELECT * FROM notices_before")
    op.drop_table("notices_before")
    op.create_index(
        op.f("ix_notices_undelivered"),
        "notices",
        ["seq"],
        sqlite_where=sa.text("delivered_at_ms IS NULL"),
    )

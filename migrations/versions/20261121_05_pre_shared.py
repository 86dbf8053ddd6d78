"""What several sidecars on one database need: archived contents, and a count of changes."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_05"
down_revision = "20261121_02"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "archive_blobs",
        sa.Column("archive_id", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("written_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("archive_id", name=op.f("pk_archive_blobs")),
    )
    changes = op.create_table(
        "standing_changes",
        sa.Column("one", sa.Integer(), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("one = 1", name=op.f("ck_standing_changes_one_row")),
        sa.PrimaryKeyConstraint("one", name=op.f("pk_standing_changes")),
    )
    op.bulk_insert(changes, [{"one": 1, "changes": 0}])

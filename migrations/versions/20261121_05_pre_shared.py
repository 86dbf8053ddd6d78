"""What several sidecars on one database need: archived contents, and turns at the books."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_05"
down_revision = "20261121_04"
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
    op.create_table(
        "turns_taken",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.Column("standing", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_turns_taken")),
    )
    op.execute(
        "INSERT INTO turns_taken (tenant, changes, standing)"
        " SELECT DISTINCT tenant, 0, 0 FROM journal"
    )

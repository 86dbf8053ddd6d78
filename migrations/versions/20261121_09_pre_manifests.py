"""The manifests of upstreams that were approved, the latest of which is in force."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_09"
down_revision = "20261121_08"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "manifests",
        sa.Column("upstream", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("approved_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("approved_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("upstream", name=op.f("pk_manifests")),
    )

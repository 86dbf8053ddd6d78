"""Who counted the tokens of each model call."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_13"
down_revision = "20261122_12"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("usage_source", sa.Text(), nullable=True))

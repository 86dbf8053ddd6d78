"""Which version of the price list each model call was charged by."""

import sqlalchemy as sa
from alembic import op

revision = "20261121_06"
down_revision = "20261121_05"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("price_version", sa.Text(), nullable=True))

"""How the memory and the processor time of each local command went."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_19"
down_revision = "20261122_18"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("curve", sa.Text(), nullable=True))

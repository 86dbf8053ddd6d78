"""What calls were charged for what they wrote into the experience memory and read out of it."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_16"
down_revision = "20261122_15"
branch_labels = None
depends_on = None

_UNITS = ("memory_bytes", "memory_writes", "memory_read_tokens")


def upgrade() -> None:
    for unit in _UNITS:
        op.add_column("calls", sa.Column(unit, sa.BigInteger(), nullable=False, server_default="0"))

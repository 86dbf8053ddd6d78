"""What calls were charged of the units that operators' own probes count."""

import sqlalchemy as sa
from alembic import op

revision = "20261122_11"
down_revision = "20261122_10"
branch_labels = None
depends_on = None

_UNITS = ("probe_1", "probe_2", "probe_3", "probe_4")


def upgrade() -> None:
    for unit in _UNITS:
        op.add_column("calls", sa.Column(unit, sa.BigInteger(), nullable=False, server_default="0"))

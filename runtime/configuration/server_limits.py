"""What a server that the sidecar starts may take of the machine, all its processes together."""

from typing import Annotated, Literal

from pydantic import Field

from runtime.configuration.table import Positive, Table
from tool_gateway.server_ports import ServerLimits

_MIB = 1024 * 1024


class ServerLimitsTable(Table):
    """Limits for as long as a server lives; what is left out is not limited."""

    memory_mib: Positive | None = None
    pids: Positive | None = None
    cpus: Annotated[float, Field(strict=True, gt=0, le=1024)] | None = None
    # "best_effort" starts it where the host cannot enforce them all, too.
    isolation: Literal["required", "best_effort"] = "required"


def server_limits_of(table: ServerLimitsTable | None) -> ServerLimits | None:
    """Return the limits that a table asks for, None for none."""
    if table is None:
        return None
    return ServerLimits(
        memory_bytes=None if table.memory_mib is None else table.memory_mib * _MIB,
        pids=table.pids,
        cpu_millis=None if table.cpus is None else max(1, round(table.cpus * 1000)),
        required=table.isolation == "required",
    )

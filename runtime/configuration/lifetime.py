"""How long an upstream lives: when it is asked whether it does, and when it may rest."""

from typing import Annotated

from pydantic import Field

from runtime.configuration.table import Table
from tool_gateway.upstreams.spec import Health

_DAY_S = 24 * 60 * 60

IdleSeconds = Annotated[int, Field(strict=True, ge=1, le=30 * _DAY_S)]
SessionCount = Annotated[int, Field(strict=True, ge=1, le=1_000)]


class HealthTable(Table):
    """How often an upstream is asked whether it answers (0: never), and when it is hung."""

    every_s: Annotated[int, Field(strict=True, ge=0, le=_DAY_S)] = 30
    timeout_s: Annotated[int, Field(strict=True, ge=1, le=3600)] = 10
    failures_max: Annotated[int, Field(strict=True, ge=1, le=100)] = 2


def health_of(table: HealthTable) -> Health | None:
    """Return the checks that a table asks for, None for none."""
    if table.every_s == 0:
        return None
    return Health(
        every_ms=table.every_s * 1000,
        timeout_ms=table.timeout_s * 1000,
        failures_max=table.failures_max,
    )

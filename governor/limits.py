"""The ceilings that the machine must enforce while a local command runs."""

from dataclasses import dataclass
from enum import StrEnum


class Isolation(StrEnum):
    """What a rule demands of the machine."""

    REQUIRED = "required"
    BEST_EFFORT = "best_effort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionLimits:
    """Ceilings for one local command; None leaves the resource unlimited.

    `cpu_millis` is a rate in thousandths of a processor, `cpu_ms` a total.
    """

    memory_bytes: int | None
    pids: int | None
    cpu_millis: int | None
    cpu_ms: int | None
    wall_ms: int
    output_bytes: int

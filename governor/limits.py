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

    `cpu_millis` is a rate in thousandths of a processor, `cpu_ms` a total. Above
    `memory_high_bytes` a command is slowed down, above `memory_bytes` it is ended. `cpu_weight`
    (1 to 10,000, as in cgroup v2) is its share where processors are short.
    """

    memory_bytes: int | None
    pids: int | None
    cpu_millis: int | None
    cpu_ms: int | None
    wall_ms: int
    output_bytes: int
    memory_high_bytes: int | None = None
    swap_bytes: int | None = None
    cpu_weight: int | None = None
    io_read_bps: int | None = None
    io_write_bps: int | None = None
    egress_bytes: int | None = None

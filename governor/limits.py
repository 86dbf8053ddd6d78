"""The ceilings that the machine must enforce while a local command runs."""

from dataclasses import dataclass
from enum import StrEnum

from governor.confines import FREE, Confines


class Isolation(StrEnum):
    """What a rule demands of the machine."""

    REQUIRED = "required"
    BEST_EFFORT = "best_effort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionLimits:
    """Ceilings for one local command; None leaves the resource unlimited.

    `cpu_millis` is a rate in thousandths of a processor, `cpu_ms` a total. Above
    `memory_high_bytes` a command is slowed down, above `memory_bytes` it is ended. `cpu_weight`
    (1 to 10,000, as in cgroup v2) is its share where processors are short. While it runs its
    memory limit may be raised up to `memory_ceiling_bytes`; None raises it never. It is expected
    to stay below `memory_expected_bytes` and to matter as `weight_wished` says: a machine that
    can slow it down above the one, or divide by the other, does so, and no other is asked to.
    `confines` are what it may not do at all, `probe_limits` how far operators' own probes may
    count, by their names or by those of their units.
    """

    memory_bytes: int | None
    pids: int | None
    cpu_millis: int | None
    cpu_ms: int | None
    wall_ms: int
    output_bytes: int
    memory_high_bytes: int | None = None
    memory_low_bytes: int | None = None
    memory_min_bytes: int | None = None
    swap_bytes: int | None = None
    cpu_weight: int | None = None
    io_read_bps: int | None = None
    io_write_bps: int | None = None
    egress_bytes: int | None = None
    memory_ceiling_bytes: int | None = None
    memory_expected_bytes: int | None = None
    weight_wished: int | None = None
    confines: Confines = FREE
    probe_limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimits:
    """Ceilings and shares of a group of processes: a call, all of a session, all of a tenant.

    None leaves the resource unlimited, and a share what the kernel gives by itself. What
    `memory_low_bytes` protects is taken from the group last, `memory_min_bytes` never.
    """

    memory_bytes: int | None = None
    memory_high_bytes: int | None = None
    memory_low_bytes: int | None = None
    memory_min_bytes: int | None = None
    swap_bytes: int | None = None
    pids: int | None = None
    cpu_millis: int | None = None
    cpu_weight: int | None = None
    io_read_bps: int | None = None
    io_write_bps: int | None = None


UNLIMITED = SharedLimits()


def shared_part(limits: ExecutionLimits) -> SharedLimits:
    """Return what of a call's limits the machine holds for the group of its processes."""
    return SharedLimits(
        memory_bytes=limits.memory_bytes,
        memory_high_bytes=limits.memory_high_bytes,
        memory_low_bytes=limits.memory_low_bytes,
        memory_min_bytes=limits.memory_min_bytes,
        swap_bytes=limits.swap_bytes,
        pids=limits.pids,
        cpu_millis=limits.cpu_millis,
        cpu_weight=limits.cpu_weight,
        io_read_bps=limits.io_read_bps,
        io_write_bps=limits.io_write_bps,
    )

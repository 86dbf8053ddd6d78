"""What calls may take of the machine: one by itself, all of a session, all of a tenant."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from governor.limits import ExecutionLimits, SharedLimits
from runtime.configuration.table import Amount, Flag, Positive, Table

_MIB = 1024 * 1024

Cpus = Annotated[float, Field(strict=True, gt=0, le=1024)]
Weight = Annotated[int, Field(strict=True, ge=1, le=10_000)]


class _Shares(Table):
    """What a call, a session and a tenant can be limited in alike."""

    memory_mib: Positive | None = None
    # Above this it is slowed down and asked to give memory back; above memory_mib it is ended.
    memory_high_mib: Positive | None = None
    swap_mib: Amount | None = None
    pids: Positive | None = None
    cpus: Cpus | None = None
    # Its share where processors are short; 100 is everybody's.
    cpu_weight: Weight | None = None
    io_read_bps: Positive | None = None
    io_write_bps: Positive | None = None

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        high, most = self.memory_high_mib, self.memory_mib
        if high is not None and most is not None and high > most:
            raise ValueError(
                f"memory_high_mib: {high} is above memory_mib ({most}), which ends it first"
            )
        if self.swap_mib is not None and most is None:
            raise ValueError("swap_mib: this goes with memory_mib; add that")
        return self


class Limits(_Shares):
    """What one call may take of the machine."""

    memory_mib: Positive | None = 512
    # Up to here a call may declare that it needs more, or be given more while it runs.
    memory_mib_max: Positive | None = None
    pids: Positive | None = 128
    cpus: Cpus | None = 1.0
    cpu_ms: Positive | None = None
    wall_ms: Positive = 60_000
    output_bytes: Positive = 8 * _MIB
    egress_bytes: Amount | None = None

    @model_validator(mode="after")
    def _is_below_its_ceiling(self) -> Self:
        most, given = self.memory_mib_max, self.memory_mib
        if most is not None and (given is None or given > most):
            raise ValueError(f"memory_mib_max: {most} is a ceiling; it cannot be below memory_mib")
        return self


class Shared(_Shares):
    """What all calls of one session, or of one tenant, may take together."""

    # Kept for it when memory is short: taken last, and never.
    memory_low_mib: Positive | None = None
    memory_min_mib: Positive | None = None


class Local(Table):
    """Local commands: whom they run as, where, and what they share."""

    user: str = "nobody"
    workdir: str | None = None
    at_once_max: Positive = 32
    free_loopback: Flag = False
    watch_opens: Flag = True
    # Whether sessions are kept from hurting one another, and what they may all hold together;
    # None is what the machine has.
    isolation: Flag = True
    memory_mib: Positive | None = None
    # What python_run runs; None is the system's own, never that of the sidecar.
    python: str | None = None
    session: Shared = Shared()
    tenant: Shared = Shared()

    @model_validator(mode="after")
    def _is_within_the_tenants(self) -> Self:
        for name in ("memory_mib", "pids", "cpus"):
            mine, above = getattr(self.session, name), getattr(self.tenant, name)
            if mine is not None and above is not None and mine > above:
                raise ValueError(
                    f"session.{name}: {mine} is above tenant.{name} ({above}), which holds first"
                )
        return self


def execution_limits(table: Limits) -> ExecutionLimits:
    """Return a rule's limits as the executor takes them."""
    return ExecutionLimits(
        memory_bytes=_bytes(table.memory_mib),
        memory_high_bytes=_bytes(table.memory_high_mib),
        memory_ceiling_bytes=_bytes(table.memory_mib_max),
        swap_bytes=_bytes(table.swap_mib),
        pids=table.pids,
        cpu_millis=_millis(table.cpus),
        cpu_weight=table.cpu_weight,
        cpu_ms=table.cpu_ms,
        wall_ms=table.wall_ms,
        output_bytes=table.output_bytes,
        egress_bytes=table.egress_bytes,
        io_read_bps=table.io_read_bps,
        io_write_bps=table.io_write_bps,
    )


def shared_limits(table: Shared) -> SharedLimits:
    """Return what a session's or a tenant's calls may have together."""
    return SharedLimits(
        memory_bytes=_bytes(table.memory_mib),
        memory_high_bytes=_bytes(table.memory_high_mib),
        memory_low_bytes=_bytes(table.memory_low_mib),
        memory_min_bytes=_bytes(table.memory_min_mib),
        swap_bytes=_bytes(table.swap_mib),
        pids=table.pids,
        cpu_millis=_millis(table.cpus),
        cpu_weight=table.cpu_weight,
        io_read_bps=table.io_read_bps,
        io_write_bps=table.io_write_bps,
    )


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * _MIB


def _millis(cpus: float | None) -> int | None:
    return None if cpus is None else max(1, round(cpus * 1000))

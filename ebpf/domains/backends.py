"""Which control groups this host lets domains be made of, most capable first, by trying them."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ebpf.domains.controls import block_devices
from ebpf.domains.controls_v1 import BLKIO, CPUACCT, ControlsV1
from ebpf.domains.controls_v2 import ControlsV2
from ebpf.domains.groups import read, read_field, write
from ebpf.domains.hierarchies import UNIFIED, Hierarchy
from ebpf.domains.own_place import delegated_place
from ebpf.domains.place import Place
from ebpf.domains.reins import FREEZER, FreezerReins, UnifiedReins
from ebpf.domains.tree import GroupBackend, GroupDomains
from ebpf.errors import DomainError
from governor.limits import ExecutionLimits

_MIB = 1 << 20
_RATE = 1 << 30

V1_CONTROLLERS = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A backend that works here: where its domains stand, and which files its groups have."""

    backend: GroupBackend
    hierarchies: Mapping[str, Hierarchy]
    files: frozenset[str]
    controllers: tuple[str, ...]


def v2_backend(hierarchies: Mapping[str, Hierarchy]) -> Found:
    """Return domains of version 2 alone.

    Raises:
        DomainError: this process has no group of its own with the controllers.
    """
    _require(hierarchies, (UNIFIED,))
    place, controllers = delegated_place(hierarchies[UNIFIED])
    found = {UNIFIED: place}
    controls = ControlsV2(mount=place.mount, controllers=controllers)
    backend = GroupBackend(controls=controls, reins=UnifiedReins())
    return _tried(backend, found, controllers, _check_v2)


def hybrid_backend(hierarchies: Mapping[str, Hierarchy]) -> Found:
    """Return domains with limits of version 1, held and ended by version 2.

    Raises:
        DomainError: some part of that does not work on this host.
    """
    names = (*V1_CONTROLLERS, UNIFIED)
    _require(hierarchies, names)
    backend = GroupBackend(controls=ControlsV1(cpu_time_from=UNIFIED), reins=UnifiedReins())
    return _tried(backend, _with_disks(hierarchies, names), names, _check_v1)


def v1_backend(hierarchies: Mapping[str, Hierarchy]) -> Found:
    """Return domains of version 1 alone, held and ended by its freezer.

    Raises:
        DomainError: some part of that does not work on this host.
    """
    names = (*V1_CONTROLLERS, CPUACCT, FREEZER)
    _require(hierarchies, names)
    backend = GroupBackend(controls=ControlsV1(cpu_time_from=CPUACCT), reins=FreezerReins())
    return _tried(backend, _with_disks(hierarchies, names), names, _check_v1)


def _require(hierarchies: Mapping[str, Hierarchy], names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in hierarchies]
    if missing:
        message = f"no hierarchy is mounted for {', '.join(missing)}"
        raise DomainError(message)


def _with_disks(
    hierarchies: Mapping[str, Hierarchy], names: tuple[str, ...]
) -> dict[str, Hierarchy]:
    return {name: hierarchies[name] for name in (*names, BLKIO) if name in hierarchies}


def _tried(
    backend: GroupBackend,
    hierarchies: Mapping[str, Hierarchy],
    controllers: tuple[str, ...],
    check: Callable[[Mapping[str, Path], tuple[str, ...]], None],
) -> Found:
    """Make a domain, have its limits read back, and remove it.

    Raises:
        DomainError: a limit was not kept, or the domain cannot be made or removed.
    """
    domains = GroupDomains(backend, hierarchies, instance=f"probe-{os.getpid()}")
    place = Place(tenant="probe", session="probe", call="probe")
    has_io = BLKIO in hierarchies or "io" in controllers
    domain = domains.make(
        place, _probe_limits(controllers, has_io=has_io and bool(block_devices()))
    )
    directories = domain.directories
    try:
        check(directories, controllers)
        _check_kill(backend, directories)
        files = frozenset(
            file.name for path in directories.values() for file in path.iterdir() if file.is_file()
        )
    finally:
        domain.remove_now()
    return Found(
        backend=backend,
        hierarchies=hierarchies,
        files=files,
        controllers=controllers,
    )


def _probe_limits(controllers: tuple[str, ...], *, has_io: bool) -> ExecutionLimits:
    has_cpu = "cpu" in controllers
    rate = _RATE if has_io else None
    return ExecutionLimits(
        memory_bytes=64 * _MIB,
        pids=16,
        cpu_millis=500 if has_cpu else None,
        cpu_weight=50 if has_cpu else None,
        cpu_ms=None,
        wall_ms=1,
        output_bytes=1,
        io_read_bps=rate,
        io_write_bps=rate,
    )


def _check_v1(directories: Mapping[str, Path], _controllers: tuple[str, ...]) -> None:
    _answers(directories["memory"], "memory.limit_in_bytes", str(64 * _MIB))
    _answers(directories["pids"], "pids.max", "16")
    _answers(directories["cpu"], "cpu.cfs_quota_us", "50000")
    _answers(directories["cpu"], "cpu.shares", "512")
    read_field(directories["memory"] / "memory.oom_control", "oom_kill")
    read_field(directories["pids"] / "pids.events", "max")
    if BLKIO in directories and (devices := block_devices()):
        expected = {f"{device} {_RATE}" for device in devices}
        for verb in ("read", "write"):
            control = f"blkio.throttle.{verb}_bps_device"
            held = set(read(directories[BLKIO] / control).splitlines())
            if held != expected:
                message = f"{control} holds {held} after {expected} was written"
                raise DomainError(message)


def _check_v2(directories: Mapping[str, Path], controllers: tuple[str, ...]) -> None:
    group = directories[UNIFIED]
    _answers(group, "memory.max", str(64 * _MIB))
    _answers(group, "memory.oom.group", "1")
    _answers(group, "pids.max", "16")
    if "cpu" in controllers:
        _answers(group, "cpu.max", "50000 100000")
        _answers(group, "cpu.weight", "50")
    if "io" in controllers:
        held = read(group / "io.max")
        for device in block_devices():
            if f"{device} rbps={_RATE} wbps={_RATE}" not in held:
                message = f"io.max holds {held!r} after {device} was written"
                raise DomainError(message)
    read_field(group / "memory.events.local", "oom")
    read_field(group / "pids.events", "max")


def _check_kill(backend: GroupBackend, directories: Mapping[str, Path]) -> None:
    """See that an empty group can be told to end, and to stand still."""
    group = directories[backend.reins.hierarchy]
    if backend.reins.hierarchy == FREEZER:
        write(group / "freezer.state", "FROZEN")
        write(group / "freezer.state", "THAWED")
    else:
        write(group / "cgroup.kill", "1")
        write(group / "cgroup.freeze", "0")


def _answers(group: Path, control: str, expected: str) -> None:
    found = read(group / control).strip()
    if found != expected:
        message = f"{control} holds {found!r} after {expected!r} was written"
        raise DomainError(message)

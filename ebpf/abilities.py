"""What each kind of domain can do, row by row: held by the kernel, observed, or absent."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ebpf.domains.backends import Found
from ebpf.domains.controlled import POLL_SECONDS
from ebpf.domains.controls_v1 import BLKIO, NO_HIGH, NO_IO
from ebpf.domains.hierarchies import UNIFIED
from ebpf.domains.observed import SAMPLE_SECONDS
from ebpf.domains.reins import FREEZER
from ebpf.pressure import PRESSURE


class CapabilityState(StrEnum):
    """How well a host does one thing."""

    ENFORCED = "enforced"
    OBSERVED = "observed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing that a host can do, by which means, and what limits it."""

    name: str
    state: CapabilityState
    by: str
    why: str = ""


_POLLED = f"polled every {round(POLL_SECONDS * 1000)} ms, then the domain is killed"
_SAMPLED = f"sampled every {round(POLL_SECONDS * 1000)} ms"
_DIRTY = (
    "what is dirty at the end counts as written; a file that several wrote counts for one of them"
)
_DIRECT = "version 1 holds back direct writes alone; the kernel writes the buffered ones later"


def group_rows(found: Found) -> tuple[Capability, ...]:
    """Return the rows of a host whose domains are control groups."""
    is_v2 = "memory.max" in found.files
    limits = _rows_v2(found) if is_v2 else _rows_v1(found)
    return (*limits, *_rows_of_reins(found), _pressure(found))


def _rows_v2(found: Found) -> tuple[Capability, ...]:
    cpu = "" if "cpu" in found.controllers else "the cpu controller is not delegated"
    io = "" if "io" in found.controllers else "the io controller is not delegated"
    swap = "memory.swap.max"
    no_swap = "" if swap in found.files else "this kernel keeps no account of swap"
    return (
        _held("memory", "memory.max"),
        _held("memory_high", "memory.high"),
        _held("memory_protection", "memory.low, memory.min"),
        _held("swap", swap, unless=no_swap),
        _held("pids", "pids.max"),
        _held("cpu_rate", "cpu.max", unless=cpu),
        _held("cpu_weight", "cpu.weight", unless=cpu),
        _held("cpu_time", "cpu.stat", why=_POLLED),
        _held("io_read", "io.max", unless=io, why="each disk by itself"),
        _held("io_write", "io.max", unless=io, why="each disk by itself"),
        _peak("peak_memory", "memory.peak", found, older="5.19"),
        _swap_peak("memory.swap.peak", "memory.swap.current", found, no_swap),
        _peak("peak_pids", "pids.peak", found, older="6.1"),
        _held("io_bytes", "io.stat", unless=io, why=_DIRTY),
        _held("causes", "memory.events.local"),
    )


def _rows_v1(found: Found) -> tuple[Capability, ...]:
    time = "cpu.stat" if UNIFIED in found.controllers else "cpuacct.usage"
    io = "" if BLKIO in found.hierarchies else "no hierarchy is mounted for blkio"
    swap = "memory.memsw.limit_in_bytes"
    no_swap = "" if swap in found.files else "this kernel keeps no account of swap"
    no_protection = "control groups of version 1 protect no memory"
    return (
        _held("memory", "memory.limit_in_bytes"),
        _held("memory_high", "", unless=NO_HIGH),
        _held("memory_protection", "", unless=no_protection),
        _held("swap", swap, unless=no_swap),
        _held("pids", "pids.max"),
        _held("cpu_rate", "cpu.cfs_quota_us"),
        _held("cpu_weight", "cpu.shares"),
        _held("cpu_time", time, why=_POLLED),
        _held("io_read", "blkio.throttle", unless=io, why="each disk by itself"),
        _held("io_write", "blkio.throttle", unless=io or _DIRECT),
        _held("peak_memory", "memory.max_usage_in_bytes"),
        _swap_peak("", "memory.stat", found, no_swap),
        _peak("peak_pids", "pids.peak", found, older="6.1"),
        _held("io_bytes", "", unless=NO_IO),
        _held("causes", "memory.oom_control, cgroup.event_control"),
    )


def _rows_of_reins(found: Found) -> tuple[Capability, ...]:
    if found.backend.reins.hierarchy == FREEZER:
        kill, freeze = "freezer.state, SIGKILL to each", "freezer.state"
    else:
        kill, freeze = "cgroup.kill", "cgroup.freeze"
    return (
        _held("wall", kill),
        _held("output", kill),
        _held("kill_tree", kill),
        _held("freeze", freeze),
        _held("shared_limits", "groups of sessions and tenants"),
        _held("placement", "born in its group, or in it before it becomes the command"),
    )


def _pressure(found: Found) -> Capability:
    if "memory.pressure" in found.files:
        return _held("pressure", "memory.pressure of each domain")
    return _machine_pressure("the kernel keeps none for each group")


def _machine_pressure(why: str) -> Capability:
    if Path(PRESSURE).exists():
        return Capability(
            name="pressure", state=CapabilityState.OBSERVED, by=str(PRESSURE), why=f"{why}"
        )
    return _held("pressure", "", unless="this kernel keeps no account of pressure")


def _held(name: str, by: str, *, unless: str = "", why: str = "") -> Capability:
    """Return a row that the kernel holds, or an absent one where `unless` says why."""
    if unless:
        return Capability(name=name, state=CapabilityState.ABSENT, by="nothing", why=unless)
    return Capability(name=name, state=CapabilityState.ENFORCED, by=by, why=why)


def _peak(name: str, file: str, found: Found, *, older: str) -> Capability:
    return _held(name, file, unless="" if file in found.files else f"this kernel is below {older}")


def _swap_peak(peak: str, now: str, found: Found, no_swap: str) -> Capability:
    if no_swap or peak in found.files:
        return _held("peak_swap", peak, unless=no_swap)
    return Capability(name="peak_swap", state=CapabilityState.OBSERVED, by=now, why=_SAMPLED)


_ONLY_GROUPS = (
    *("memory_high", "memory_protection", "swap", "cpu_rate", "cpu_weight"),
    *("io_read", "io_write", "peak_swap", "peak_pids", "shared_limits"),
)


def observed_rows(why: str) -> tuple[Capability, ...]:
    """Return the rows of a host without control groups; `why` it has none for us."""
    sampled = f"sampled every {round(SAMPLE_SECONDS * 1000)} ms; {why}"
    observed = CapabilityState.OBSERVED
    return (
        Capability(name="memory", state=observed, by="psutil, RLIMIT_DATA", why=sampled),
        Capability(name="pids", state=observed, by="psutil, RLIMIT_NPROC", why=sampled),
        Capability(name="cpu_time", state=observed, by="psutil, RLIMIT_CPU", why=sampled),
        Capability(name="wall", state=observed, by="SIGKILL to the tree", why=why),
        Capability(name="output", state=observed, by="SIGKILL to the tree", why=why),
        Capability(name="kill_tree", state=observed, by="keeper process, marker", why=why),
        Capability(name="freeze", state=observed, by="SIGSTOP to the tree", why=why),
        Capability(name="placement", state=observed, by="keeper process, marker", why=why),
        Capability(name="peak_memory", state=observed, by="psutil", why=sampled),
        Capability(name="causes", state=observed, by="samples, /proc/vmstat", why=why),
        *(_held(name, "", unless=why) for name in _ONLY_GROUPS),
        _io_bytes_observed(),
        _machine_pressure(why),
    )


def _io_bytes_observed() -> Capability:
    if Path("/proc/self/io").exists():
        why = "of processes that were waited for"
        return Capability(
            name="io_bytes", state=CapabilityState.OBSERVED, by="rusage of the keeper", why=why
        )
    return _held("io_bytes", "", unless="this system has no keeper that adds it up")

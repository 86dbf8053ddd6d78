"""What would stand around a command with certain limits, by what its host can do."""

from ebpf.capability import Capability, CapabilityState, Host
from ebpf.containment import Containment
from ebpf.means import needed_for
from governor.call import Enforcement, Isolated
from governor.limits import UNLIMITED, ExecutionLimits, SharedLimits


def isolated(
    host: Host,
    limits: ExecutionLimits,
    shares: tuple[SharedLimits, ...],
    containment: Containment,
) -> Isolated:
    """Return what holds a command to its limits and its shares, and keeps it from the sidecar."""
    needed = _capabilities_for(limits, shares, host)
    short = [found for found in needed if found.state is not CapabilityState.ENFORCED]
    absent = [found for found in short if found.state is CapabilityState.ABSENT]
    if absent:
        enforcement = Enforcement.NONE
    else:
        enforcement = Enforcement.OBSERVED if short else Enforcement.ENFORCED
    reasons = _reasons(absent or short)
    if containment.why:
        reasons.append(containment.why)
    return Isolated(
        enforcement=enforcement,
        contained=containment.contained,
        by=f"{host.backend}, {containment.by}",
        why="; ".join(reasons),
    )


def shortfall(host: Host, limits: SharedLimits) -> str:
    """Return why limits of a whole tree would not be enforced here; empty where they would."""
    wanted = {"memory": limits.memory_bytes, "pids": limits.pids, "cpu_rate": limits.cpu_millis}
    needed = [host.capability(name) for name, bound in wanted.items() if bound is not None]
    return "; ".join(_reasons([f for f in needed if f.state is not CapabilityState.ENFORCED]))


def _capabilities_for(
    limits: ExecutionLimits, shares: tuple[SharedLimits, ...], host: Host
) -> list[Capability]:
    """Return what the host must be capable of for these limits, and the shared ones, to hold."""
    wanted = {
        "memory": (limits.memory_bytes, *(share.memory_bytes for share in shares)),
        "memory_high": (limits.memory_high_bytes, *(share.memory_high_bytes for share in shares)),
        "swap": (limits.swap_bytes, *(share.swap_bytes for share in shares)),
        "pids": (limits.pids, *(share.pids for share in shares)),
        "cpu_rate": (limits.cpu_millis, *(share.cpu_millis for share in shares)),
        "cpu_weight": (limits.cpu_weight, *(share.cpu_weight for share in shares)),
        "io_read": (limits.io_read_bps, *(share.io_read_bps for share in shares)),
        "io_write": (limits.io_write_bps, *(share.io_write_bps for share in shares)),
        "cpu_time": (limits.cpu_ms,),
        "wall": (limits.wall_ms,),
        "output": (limits.output_bytes,),
        "egress_bytes": (limits.egress_bytes,),
        "shared_limits": tuple(None if share == UNLIMITED else 1 for share in shares),
    }
    names = [name for name, bounds in wanted.items() if any(map(_is_set, bounds))]
    return [host.capability(name) for name in (*names, *needed_for(limits), "kill_tree")]


def _is_set(bound: int | None) -> bool:
    return bound is not None


def _reasons(short: list[Capability]) -> list[str]:
    """Return each reason once, with all that it explains."""
    names: dict[str, list[str]] = {}
    for found in short:
        for reason in found.why.split("; "):
            names.setdefault(f"{found.state}: {reason}", []).append(found.name)
    return [f"{', '.join(sharing)} {reason}" for reason, sharing in names.items()]

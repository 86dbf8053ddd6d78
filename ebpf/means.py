"""By which means this host holds a command to what its rule withholds."""

from pathlib import Path

from ebpf.attachment import Attachment
from ebpf.capability import CapabilityState, Host
from ebpf.confining.confiner import Confiner
from ebpf.confining.files import FILES
from ebpf.confining.programs import DEVICES, NETWORK
from ebpf.errors import CapabilityMissingError, ProbeError
from ebpf.seccomp import Sockets, filter_for
from governor.confines import Confines
from governor.confines import Devices as DevicesAllowed
from governor.limits import ExecutionLimits

NOT_JOINABLE = "its launcher may not enter the groups of the sidecar"
_NO_FILTER = "agents have no filter of system calls"
# What is held by programs on a command's group.
_ON_GROUP = ("egress_bytes", "network", "no_network", "devices", "probes")


def needed_for(limits: ExecutionLimits) -> tuple[str, ...]:
    """Return the names of the capabilities without which confines and probes do not hold."""
    needed, confines = [], limits.confines
    if limits.probe_limits:
        needed.append("probes")
    if confines.network is not None:
        needed.append("network" if confines.network else "no_network")
    if confines.paths:
        needed.append("files")
    if confines.devices is DevicesAllowed.STANDARD:
        needed.append("devices")
    return tuple(needed)


def programs_for(confines: Confines, host: Host) -> tuple[str, ...]:
    """Return the programs that are hung on a domain with these confines."""
    network = NETWORK if confines.network is not None and _has(host, "network") else ()
    devices = (
        DEVICES if confines.devices is DevicesAllowed.STANDARD and _has(host, "devices") else ()
    )
    files = FILES if confines.paths and _has(host, "file_programs") else ()
    return (*network, *devices, *files)


def host_of_agent(host: Host, *, is_joinable: bool) -> Host:
    """Return what of a host holds an agent: it has no filter of system calls, perhaps no group."""
    if is_joinable:
        return host if _has(host, "network") else host.without("no_network", _NO_FILTER)
    for name in _ON_GROUP:
        host = host.without(name, NOT_JOINABLE)
    return host


async def held_on(
    confiner: Confiner, group: Path, confines: Confines, host: Host
) -> list[Attachment]:
    """Return what holds a domain to its confines, nothing where no program is needed for it.

    Whether a command may run where the host cannot hold it was decided by its rule.

    Raises:
        CapabilityMissingError: the kernel refused what it took when the host was probed.
    """
    programs = programs_for(confines, host)
    if not programs:
        return []
    try:
        return [await confiner.hold(group, confines, programs=programs)]
    except ProbeError as error:
        message = "the command cannot be held to what its rule allows"
        raise CapabilityMissingError(message) from error


def system_calls_for(confines: Confines, host: Host) -> bytes | None:
    """Return the filter of system calls for a command, None where the host takes none."""
    if not _has(host, "system_calls"):
        return None
    sockets = Sockets.ANY
    if confines.network is not None:
        # Without programs on its group a command that may reach nothing makes no socket for it.
        is_local = not confines.network and not _has(host, "network")
        sockets = Sockets.LOCAL if is_local else Sockets.CONFINED
    return filter_for(sockets, guards_others=not host.landlock_abi)


def _has(host: Host, name: str) -> bool:
    return host.capability(name).state is CapabilityState.ENFORCED

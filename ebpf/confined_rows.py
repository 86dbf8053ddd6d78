"""What this host withholds from commands, and what it knows of their energy: rows of `doctor`."""

import os
from pathlib import Path

from ebpf.abilities import Capability, CapabilityState
from ebpf.confining.rows import why_no_devices, why_no_file_programs, why_no_network
from ebpf.energy import EnergyCounters
from ebpf.errors import EnergyUnknownError
from ebpf.seccomp import is_supported

_WITH_BCC = "as far as the system's bcc compiles them: `flyball probe add` tries"


def confined_rows(own: Path | None, abi: int) -> tuple[Capability, ...]:
    """Return what of a rule's confines this host holds a command to, and by which means.

    `own` is this process's group in the v2 hierarchy, None where domains have none there.
    """
    has_filter = is_supported()
    no_network, no_devices = why_no_network(own), why_no_devices(own)
    why_no_filter = "no seccomp in this kernel, or system calls that are not known here"
    alone = "no socket of the internet can be made" if no_network and has_filter else ""
    no_files = "" if abi else "not in this kernel, or not enabled at boot"
    return (
        _held("network", "programs on the group, by address and port", no_network),
        _held(
            "no_network",
            "seccomp" if alone else "programs on the group",
            "" if alone else no_network,
            told=alone,
        ),
        _held("devices", "a program on the group", no_devices),
        _held("files", f"landlock {abi}", no_files),
        _held(
            "file_programs",
            "BPF LSM: names in hidden places, code from no_exec_from",
            _told(why_no_file_programs(own)),
        ),
        _held("system_calls", "seccomp", "" if has_filter else why_no_filter),
        _held("probes", "programs of operators", no_network, told=_WITH_BCC),
    )


def _told(why_not: str) -> str:
    """Return the reason without the library's own account of it."""
    return why_not.partition(" (libbpf")[0]


def _held(name: str, by: str, why_not: str, *, told: str = "") -> Capability:
    if why_not:
        return Capability(name=name, state=CapabilityState.ABSENT, by="nothing", why=why_not)
    return Capability(name=name, state=CapabilityState.ENFORCED, by=by, why=told)


def energy_row() -> Capability:
    """Return whether the processors count what they draw."""
    counters = EnergyCounters(ticks_per_second=os.sysconf("SC_CLK_TCK"))
    try:
        packages = counters.read(now_ms=0).packages
    except EnergyUnknownError as error:
        why = f"{error}; energy.watts_per_core makes an estimate of processor time"
        return Capability(name="energy", state=CapabilityState.ABSENT, by="nothing", why=why)
    why = "measured for the machine; a call is attributed its share by processor time"
    by = f"powercap: {', '.join(sorted(packages))}"
    return Capability(name="energy", state=CapabilityState.OBSERVED, by=by, why=why)

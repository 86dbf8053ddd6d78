"""What this host can enforce or observe, found by trying it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from ebpf.domains.hierarchies import Hierarchy, find_hierarchies
from ebpf.domains.hybrid import POLL_SECONDS, check_hybrid
from ebpf.domains.observed import SAMPLE_SECONDS
from ebpf.errors import DomainError
from ebpf.launcher.landlock import ABI_SIGNAL, supported_abi
from ebpf.metering_parts import found_parts, parts_without


class CapabilityState(StrEnum):
    """How well a host does one thing."""

    ENFORCED = "enforced"
    OBSERVED = "observed"
    ABSENT = "absent"


class BackendKind(StrEnum):
    """What domains are made of."""

    HYBRID = "hybrid"
    RLIMIT = "rlimit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing that a host can do, by which means, and what limits it."""

    name: str
    state: CapabilityState
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host as it was found: which domains to build on it and what they can promise."""

    backend: BackendKind
    capabilities: tuple[Capability, ...]
    is_root: bool
    landlock_abi: int
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)

    def capability(self, name: str) -> Capability:
        """Return the capability of that name, an absent one where nobody probed for it."""
        for capability in self.capabilities:
            if capability.name == name:
                return capability
        return Capability(name=name, state=CapabilityState.ABSENT, by="nothing", why="not probed")

    def without(self, name: str, why: str) -> "Host":
        """Return the host without one of its capabilities, which turned out not to be had."""
        lost = Capability(name=name, state=CapabilityState.ABSENT, by="nothing", why=why)
        kept = tuple(lost if found.name == name else found for found in self.capabilities)
        return replace(self, capabilities=kept)


def probe_host(*, proc: Path = Path("/proc"), force_rlimit: bool = False) -> Host:
    """Return what this host can do, after making and removing a domain to be sure.

    `force_rlimit` leaves the control groups alone, as if there were none.
    """
    is_root = os.geteuid() == 0
    abi = supported_abi()
    fences = (_containment(is_root=is_root, abi=abi), _landlock(abi))
    hierarchies = _hierarchies(proc)
    why = "control groups were left alone on request" if force_rlimit else ""
    if not force_rlimit:
        try:
            check_hybrid(hierarchies, instance=f"probe-{os.getpid()}")
        except DomainError as error:
            why = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
    backend = BackendKind.RLIMIT if why else BackendKind.HYBRID
    limits = _observed_limits(why) if why else _hybrid_limits()
    return Host(
        backend=backend,
        capabilities=limits + fences + _metering(hierarchies, why),
        is_root=is_root,
        landlock_abi=abi,
        hierarchies=hierarchies,
    )


def _hierarchies(proc: Path) -> Mapping[str, Hierarchy]:
    own = proc / "self"
    try:
        return find_hierarchies(
            mountinfo=(own / "mountinfo").read_text(), memberships=(own / "cgroup").read_text()
        )
    except FileNotFoundError:
        return {}  # no Linux, or no control groups in this kernel


def _hybrid_limits() -> tuple[Capability, ...]:
    polled = f"polled every {round(POLL_SECONDS * 1000)} ms, then the domain is killed"
    enforced = CapabilityState.ENFORCED
    return (
        Capability(name="memory", state=enforced, by="memory.limit_in_bytes"),
        Capability(name="pids", state=enforced, by="pids.max"),
        Capability(name="cpu_rate", state=enforced, by="cpu.cfs_quota_us"),
        Capability(name="cpu_time", state=enforced, by="cpuacct.usage", why=polled),
        Capability(name="wall", state=enforced, by="cgroup.kill"),
        Capability(name="output", state=enforced, by="cgroup.kill"),
        Capability(name="kill_tree", state=enforced, by="cgroup.kill"),
        Capability(name="peak_memory", state=enforced, by="memory.max_usage_in_bytes"),
    )


def _observed_limits(why: str) -> tuple[Capability, ...]:
    sampled = f"sampled every {round(SAMPLE_SECONDS * 1000)} ms; {why}"
    observed = CapabilityState.OBSERVED
    return (
        Capability(name="memory", state=observed, by="psutil, RLIMIT_DATA", why=sampled),
        Capability(name="pids", state=observed, by="psutil, RLIMIT_NPROC", why=sampled),
        Capability(name="cpu_rate", state=CapabilityState.ABSENT, by="nothing", why=why),
        Capability(name="cpu_time", state=observed, by="psutil, RLIMIT_CPU", why=sampled),
        Capability(name="wall", state=observed, by="SIGKILL to the tree", why=why),
        Capability(name="output", state=observed, by="SIGKILL to the tree", why=why),
        Capability(name="kill_tree", state=observed, by="keeper process, marker", why=why),
        Capability(name="peak_memory", state=observed, by="psutil", why=sampled),
    )


def _metering(hierarchies: Mapping[str, Hierarchy], why_not: str) -> tuple[Capability, ...]:
    """Return what programs in the kernel count of a domain, and what they hold."""
    return tuple(
        Capability(
            name=part.name,
            state=CapabilityState.ABSENT
            if part.why_not
            else CapabilityState.ENFORCED
            if part.holds
            else CapabilityState.OBSERVED,
            by="nothing" if part.why_not else part.by,
            why=part.why_not,
        )
        for part in (parts_without(why_not) if why_not else found_parts(hierarchies))
    )


def _containment(*, is_root: bool, abi: int) -> Capability:
    state = CapabilityState.ENFORCED
    if is_root:
        return Capability(name="containment", state=state, by="another user, no privileges")
    if abi:
        by = "landlock"
        why = "the command has the sidecar's user; not where it works around the state directory"
        return Capability(name="containment", state=state, by=by, why=why)
    why = "the command has the sidecar's user, and this kernel has no Landlock"
    return Capability(name="containment", state=CapabilityState.ABSENT, by="nothing", why=why)


def _landlock(abi: int) -> Capability:
    if not abi:
        why = "not in this kernel, or not enabled at boot"
        return Capability(name="landlock", state=CapabilityState.ABSENT, by="nothing", why=why)
    why = "" if abi >= ABI_SIGNAL else f"signals are held back from version {ABI_SIGNAL} on"
    return Capability(name="landlock", state=CapabilityState.ENFORCED, by=f"version {abi}", why=why)

"""What this host can enforce or observe, found by trying it."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from ebpf.abilities import Capability, CapabilityState, group_rows, observed_rows
from ebpf.confined_rows import confined_rows, energy_row
from ebpf.domains.backends import Found, hybrid_backend, v1_backend, v2_backend
from ebpf.domains.hierarchies import UNIFIED, Hierarchy, find_hierarchies
from ebpf.errors import DomainError
from ebpf.launcher.landlock import ABI_SIGNAL, supported_abi
from ebpf.metering_parts import Part, found_parts, parts_without

__all__ = ["BackendKind", "Capability", "CapabilityState", "Host", "probe_host"]


class BackendKind(StrEnum):
    """What domains are made of."""

    V2 = "v2"
    HYBRID = "hybrid"
    V1 = "v1"
    RLIMIT = "rlimit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host as it was found: which domains to build on it and what they can promise."""

    backend: BackendKind
    capabilities: tuple[Capability, ...]
    is_root: bool
    landlock_abi: int
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    found: Found | None = None

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


GROUPS = "groups"
# What every row says, and whoever is told of them; the row of the groups says it at length.
_LEFT_ALONE = "control groups were left alone on request"
_NONE_USABLE = "no control groups that can be used here"
_NONE_WRITABLE = "no control groups that this user may write"

# Most capable first.
_BACKENDS: Mapping[BackendKind, Callable[[Mapping[str, Hierarchy]], Found]] = {
    BackendKind.V2: v2_backend,
    BackendKind.HYBRID: hybrid_backend,
    BackendKind.V1: v1_backend,
}


def probe_host(
    *,
    proc: Path = Path("/proc"),
    force_rlimit: bool = False,
    only: BackendKind | None = None,
) -> Host:
    """Return what this host can do, after making and removing a domain to be sure.

    `force_rlimit` leaves the control groups alone, as if there were none; `only` tries no other
    kind of them.
    """
    is_root = os.geteuid() == 0
    abi = supported_abi()
    fences = (_containment(is_root=is_root, abi=abi), _landlock(abi), energy_row())
    hierarchies = _hierarchies(proc)
    reasons = [_LEFT_ALONE] if force_rlimit else []
    wanted = [] if force_rlimit else [kind for kind in _BACKENDS if only in {None, kind}]
    for kind in wanted:
        try:
            found = _BACKENDS[kind](hierarchies)
        except DomainError as error:
            reason = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
            reasons.append(f"{kind}: {reason}")
            continue
        return Host(
            backend=kind,
            capabilities=(
                Capability(name=GROUPS, state=CapabilityState.ENFORCED, by=kind),
                *group_rows(found),
                *fences,
                *_metering(found.hierarchies, ""),
                *confined_rows(_own_group(found.hierarchies), abi),
            ),
            is_root=is_root,
            landlock_abi=abi,
            hierarchies={**hierarchies, **found.hierarchies},
            found=found,
        )
    why = _LEFT_ALONE if force_rlimit else _NONE_USABLE if is_root else _NONE_WRITABLE
    return Host(
        backend=BackendKind.RLIMIT,
        capabilities=(
            _no_groups("; ".join(reasons)),
            *observed_rows(why),
            *fences,
            *_metering(hierarchies, why),
            *confined_rows(None, abi),
        ),
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


def _own_group(hierarchies: Mapping[str, Hierarchy]) -> Path | None:
    unified = hierarchies.get(UNIFIED)
    return None if unified is None else unified.own


def _metering(hierarchies: Mapping[str, Hierarchy], why_not: str) -> tuple[Capability, ...]:
    """Return what programs in the kernel count of a domain, and what they hold."""
    parts = parts_without(why_not) if why_not else found_parts(hierarchies)
    return tuple(map(_row_of, parts))


def _row_of(part: Part) -> Capability:
    if part.why_not:
        absent = CapabilityState.ABSENT
        return Capability(name=part.name, state=absent, by="nothing", why=part.why_not)
    if part.holds:
        return Capability(name=part.name, state=CapabilityState.ENFORCED, by=part.by)
    observed = CapabilityState.OBSERVED
    return Capability(name=part.name, state=observed, by=part.by, why="counted, not limited")


def _no_groups(why: str) -> Capability:
    """Return the one row that says at length why there are no domains of control groups."""
    return Capability(name=GROUPS, state=CapabilityState.ABSENT, by="nothing", why=why)


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

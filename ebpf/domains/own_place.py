"""The sidecar's own place in the v2 hierarchy, made ready for groups beneath it.

The kernel gives controllers only to groups beneath one that has no processes itself. Where the
sidecar stands in the group that was delegated to it, it therefore moves into a leaf of that
group first, with whoever started it.
"""

import os
from dataclasses import replace
from pathlib import Path

from ebpf.domains.controls_v2 import OPTIONAL, REQUIRED
from ebpf.domains.groups import read, remove_group, write
from ebpf.domains.hierarchies import Hierarchy
from ebpf.errors import DomainError

LEAF = "sidecar"
_SYSTEMD = Path("/run/systemd/system")
_DELEGATED = ("user.delegate", "trusted.delegate")
_PARENTS_MAX = 64


def place_of(hierarchy: Hierarchy) -> Path:
    """Return the group that domains stand in: the sidecar's own, or the one above its leaf."""
    own = hierarchy.own
    return own.parent if own.name == LEAF and own != hierarchy.mount else own


def delegated_place(
    hierarchy: Hierarchy, *, systemd: Path = _SYSTEMD
) -> tuple[Hierarchy, tuple[str, ...]]:
    """Return the place where domains can be made, and the controllers that they get.

    Raises:
        DomainError: nothing is delegated to this process here.
    """
    place = place_of(hierarchy)
    available = read(place / "cgroup.controllers").split()
    missing = [name for name in REQUIRED if name not in available]
    if missing:
        message = f"the v2 hierarchy has no {' and no '.join(missing)} controller here"
        raise DomainError(message)
    _check_delegation(place, mount=hierarchy.mount, systemd=systemd)
    wanted = [name for name in (*REQUIRED, *OPTIONAL) if name in available]
    enabled = read(place / "cgroup.subtree_control").split()
    if not set(wanted) <= set(enabled):
        _enable(place, wanted)
    return replace(hierarchy, own=place), tuple(wanted)


def _check_delegation(place: Path, *, mount: Path, systemd: Path) -> None:
    """Refuse a group that systemd has kept for itself.

    Raises:
        DomainError: it has, or the group cannot be written.
    """
    if not os.access(place / "cgroup.subtree_control", os.W_OK):
        message = f"{place} is not delegated to this user"
        raise DomainError(message)
    if not systemd.exists() or os.geteuid() != 0 or place == mount:
        return
    if not any(_attribute(place, name) == b"1" for name in _DELEGATED):
        message = (
            f"systemd has not delegated {place}: start the sidecar with Delegate=yes "
            "(systemd-run --scope -p Delegate=yes flyball up)"
        )
        raise DomainError(message)


def _attribute(place: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(place, name)
    except OSError:
        return None


def _enable(place: Path, controllers: list[str]) -> None:
    enabling = " ".join(f"+{name}" for name in controllers)
    try:
        write(place / "cgroup.subtree_control", enabling)
    except DomainError as error:
        leaf = place / LEAF
        moved = _step_aside(place, leaf)
        try:
            write(place / "cgroup.subtree_control", enabling)
        except DomainError:
            for pid in moved:
                write(place / "cgroup.procs", str(pid))
            remove_group(leaf)
            others = len(read(place / "cgroup.procs").split()) - len(moved)
            message = (
                f"{place.name} cannot give its controllers on"
                f"{f', {others} other processes stand in it' if others > 0 else ''}"
            )
            raise DomainError(message) from error


def _step_aside(place: Path, leaf: Path) -> list[int]:
    """Move this process, and whoever started it, from the group into a leaf of it."""
    present = set(map(int, read(place / "cgroup.procs").split()))
    moving = [pid for pid in _with_parents(os.getpid()) if pid in present]
    try:
        leaf.mkdir(exist_ok=True)
    except OSError as error:
        message = f"{leaf} cannot be made"
        raise DomainError(message) from error
    for pid in moving:
        write(leaf / "cgroup.procs", str(pid))
    return moving


def _with_parents(pid: int) -> list[int]:
    found = []
    for _ in range(_PARENTS_MAX):
        if pid <= 0:
            break
        found.append(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            break
        # The name before it may hold anything, so what follows is found from the end.
        pid = int(stat[stat.rindex(b")") + 2 :].split()[1])
    return found

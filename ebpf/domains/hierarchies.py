"""Where the control groups of this process are mounted, and where it stands in each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

UNIFIED = "unified"  # the name under which the v2 hierarchy is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """One mounted hierarchy: its root, and the directory of this process in it."""

    mount: Path
    own: Path


def find_hierarchies(*, mountinfo: str, memberships: str) -> Mapping[str, Hierarchy]:
    """Return the hierarchies by controller, from /proc/self's `mountinfo` and `cgroup`."""
    mounted = dict(_mounted(mountinfo))
    found: dict[str, Hierarchy] = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(",") if controllers else (UNIFIED,):
            if name in mounted:
                root, mount = mounted[name]
                found[name] = Hierarchy(mount=mount, own=_own_directory(root, mount, path))
    return found


def _mounted(mountinfo: str) -> Iterator[tuple[str, tuple[str, Path]]]:
    for line in mountinfo.splitlines():
        # The fourth field is the root of the mount, the fifth its place; the fields after
        # them vary in number and end at the dash, which the file system's type follows.
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if not kind or kind[0] not in {"cgroup", "cgroup2"}:
            continue
        place = (_unescaped(fields[3]), Path(_unescaped(fields[4])))
        for name in (UNIFIED,) if kind[0] == "cgroup2" else kind[2].split(","):
            yield name, place


def _unescaped(field: str) -> str:
    """Undo the octal escapes of mountinfo."""
    for code in ("040", "011", "012", "134"):
        field = field.replace("\\" + code, chr(int(code, 8)))
    return field


def _own_directory(root: str, mount: Path, path: str) -> Path:
    """Return where `path` is seen; in a container only a subtree of it may be mounted."""
    place = PurePosixPath(path)
    if place.is_relative_to(root):
        return mount / place.relative_to(root)
    return mount

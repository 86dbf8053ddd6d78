"""How much memory there is for commands: of the machine, of the groups around the sidecar."""

from collections.abc import Mapping
from pathlib import Path

from ebpf.domains.groups import read, read_field
from ebpf.domains.hierarchies import UNIFIED, Hierarchy
from ebpf.errors import DomainError

_MEMINFO = Path("/proc/meminfo")
_KIB = 1024


class HostMemory:
    """Answers what commands can hold in all, when they hold so much already."""

    def __init__(
        self,
        hierarchies: Mapping[str, Hierarchy],
        *,
        bytes_max: int | None,
        meminfo: Path = _MEMINFO,
    ) -> None:
        """Take what an operator lets commands have; None is all that there is.

        Raises:
            DomainError: the machine does not say how much memory is available.
        """
        self._bytes_max = bytes_max
        self._meminfo = meminfo
        self._around = _groups_around(hierarchies)
        self(0)

    def __call__(self, held_bytes: int) -> int:
        """Return what commands can hold that hold `held_bytes` now.

        Raises:
            DomainError: the machine does not say.
        """
        left = [self._available(), *(_left_in(limit, usage) for limit, usage in self._around)]
        there_is = held_bytes + min(one for one in left if one is not None)
        return there_is if self._bytes_max is None else min(self._bytes_max, there_is)

    def _available(self) -> int:
        for line in read(self._meminfo).splitlines():
            name, _, rest = line.partition(":")
            if name == "MemAvailable":
                return int(rest.split()[0]) * _KIB
        message = f"{self._meminfo} has no MemAvailable"
        raise DomainError(message)


def _groups_around(hierarchies: Mapping[str, Hierarchy]) -> tuple[tuple[Path, Path], ...]:
    """Return the limit and the usage of each group that this process is in, as files."""
    found: list[tuple[Path, Path]] = []
    for name, limit, usage in (
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        (UNIFIED, "memory.max", "memory.current"),
    ):
        if name not in hierarchies:
            continue
        hierarchy = hierarchies[name]
        group = hierarchy.own
        while group != hierarchy.mount and group.is_relative_to(hierarchy.mount):
            if (group / limit).exists():
                found.append((group / limit, group / usage))
            group = group.parent
    return tuple(found)


def _left_in(limit: Path, usage: Path) -> int | None:
    """Return how much more a group can hold, what is cached of files aside; None is no limit."""
    text = read(limit).strip()
    if text == "max":
        return None
    statistics = limit.with_name("memory.stat")
    prefix = "total_" if limit.name == "memory.limit_in_bytes" else ""
    cached = sum(read_field(statistics, f"{prefix}{kind}_file") for kind in ("active", "inactive"))
    return int(text) - max(0, int(read(usage)) - cached)

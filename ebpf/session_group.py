"""The control group of one session: its weight, its memory, its standing still."""

from collections.abc import Mapping
from pathlib import Path

from ebpf.domains.groups import read, read_field, write
from ebpf.domains.hierarchies import UNIFIED
from ebpf.errors import DomainError

_SHARES_OF_USUAL = 1024  # cpu.shares of version 1 that stand for a cpu.weight of 100
_WEIGHT_USUAL = 100
_WEIGHT_MAX = 10_000
_FILES_V1 = ("total_inactive_file", "total_active_file")
_FILES_V2 = ("inactive_file", "active_file")


class SessionGroup:
    """Reads and writes what isolation needs of one group, in either version of control groups.

    `directories` holds the group's place by controller (`memory`, `cpu`) and in the v2 hierarchy
    (`unified`); with version 2 alone all are the same.
    """

    def __init__(
        self,
        directories: Mapping[str, Path],
        *,
        usual_weight: int | None = None,
        protected_bytes_min: int = 0,
    ) -> None:
        """Take the places; nothing is written before it changes.

        What an operator gave every session is kept: weights are relative to `usual_weight`, and
        no less than `protected_bytes_min` is protected.
        """
        self._usual_weight = usual_weight or _WEIGHT_USUAL
        self._protected_bytes_min = protected_bytes_min
        self._memory = directories["memory"]
        self._cpu = directories["cpu"]
        self._unified = directories[UNIFIED]
        self.is_v2 = self._memory == self._unified
        self._written: dict[Path, str] = {}

    @property
    def exists(self) -> bool:
        """Tell whether the group is still there."""
        return self._unified.exists() and self._memory.exists()

    @property
    def usage_path(self) -> Path:
        """Return the file that tells what it holds, page cache included."""
        name = "memory.current" if self.is_v2 else "memory.usage_in_bytes"
        return self._memory / name

    def set_weight(self, weight: int) -> None:
        """Give it a share of the processors, from 1 to 10,000 where 100 is usual.

        Raises:
            DomainError: the kernel refused.
        """
        weight = max(1, min(_WEIGHT_MAX, weight * self._usual_weight // _WEIGHT_USUAL))
        if self.is_v2:
            self._set(self._cpu / "cpu.weight", weight)
        else:
            self._set(self._cpu / "cpu.shares", max(2, weight * _SHARES_OF_USUAL // _WEIGHT_USUAL))

    def protect(self, memory_bytes: int) -> None:
        """Have its memory reclaimed last up to so many bytes; version 1 knows a soft limit only.

        Raises:
            DomainError: the kernel refused.
        """
        memory_bytes = max(memory_bytes, self._protected_bytes_min)
        if self.is_v2:
            self._set(self._memory / "memory.low", memory_bytes)
        else:
            self._set(self._memory / "memory.soft_limit_in_bytes", memory_bytes or -1)

    def freeze(self) -> None:
        """Have the kernel stop all that is inside; it stands still within milliseconds.

        Raises:
            DomainError: the kernel refused.
        """
        self._set(self._unified / "cgroup.freeze", 1)

    def thaw(self) -> None:
        """Let all that is inside go on.

        Raises:
            DomainError: the kernel refused.
        """
        self._set(self._unified / "cgroup.freeze", 0)

    def held_bytes(self) -> int:
        """Return the memory that nothing but its own end takes back: all but the page cache.

        Raises:
            DomainError: it cannot be read.
        """
        statistics = self._memory / "memory.stat"
        of_files = _FILES_V2 if self.is_v2 else _FILES_V1
        cached = sum(read_field(statistics, name) for name in of_files)
        return max(0, int(read(self.usage_path)) - cached)

    def processor_wait_us(self) -> int | None:
        """Return for how long something in it has waited for a processor; None is unknown."""
        try:
            line = read(self._unified / "cpu.pressure").splitlines()[0]
        except (DomainError, IndexError):
            return None
        _, _, total = line.rpartition("total=")
        return int(total) if total.isdigit() else None

    def processor_used_us(self) -> int | None:
        """Return the processor time that it has used; None is unknown."""
        try:
            return read_field(self._unified / "cpu.stat", "usage_usec")
        except DomainError:
            return None

    def _set(self, path: Path, value: int) -> None:
        """Write what is not in force yet."""
        text = str(value)
        if self._written.get(path) != text:
            write(path, text)
            self._written[path] = text

"""What every version of control groups offers: holding limits, and counting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ebpf.errors import DomainError
from governor.limits import SharedLimits

# The directory of one group in each hierarchy that it needs, by controller.
Directories = Mapping[str, Path]

CPU_PERIOD_US = 100_000
CPU_QUOTA_US_MIN = 1_000  # the kernel's own floor: one hundredth of a processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the kernel has counted for a group; None, with the reason, where it did not say."""

    cpu_us: int | None
    memory_peak_bytes: int | None
    swap_peak_bytes: int | None
    io_bytes: int | None
    pids_peak: int | None
    pids_refused: int | None
    memory_kills: int | None
    memory_high_hits: int | None
    unknown: Mapping[str, str] = field(default_factory=dict)


class Gathering:
    """Readings that may fail one by one, each with its reason kept."""

    def __init__(self, absent: Mapping[str, str]) -> None:
        """Take what this kind of control group never counts, with the reasons."""
        self.unknown = dict(absent)

    def take(self, name: str, read: Callable[[], int]) -> int | None:
        """Return a figure; None, and the reason noted, where it cannot be read."""
        try:
            return read()
        except (DomainError, ValueError) as error:
            self.unknown.setdefault(name, str(error))
            return None


class ShortageCount(Protocol):
    """Counts how often a group's memory limit left the kernel nothing but to kill."""

    def read(self) -> int | None:
        """Return the count since the group was made; None where the kernel does not say."""

    def close(self) -> None:
        """Count no more."""


class Controls(Protocol):
    """One version's way of holding limits and counting, in the hierarchies that it needs."""

    @property
    def hierarchies(self) -> tuple[str, ...]:
        """Return where each group has a directory."""

    @property
    def io_hierarchy(self) -> str | None:
        """Return where those that limit disks have one as well; None where it is the same."""

    def open_up(self, directories: Directories) -> None:
        """Let the groups beneath a new one have limits of their own.

        Raises:
            DomainError: the kernel refused.
        """

    def put(
        self, directories: Directories, limits: SharedLimits, *, before: SharedLimits, leaf: bool
    ) -> None:
        """Put limits in force where they differ from those of `before`.

        A `leaf` is a domain, whose memory limit comes with as much swap as it asks for, else none.

        Raises:
            DomainError: the kernel refused one, or more is in use than it would allow.
        """

    def end_together(self, directories: Directories) -> None:
        """Have the kernel kill all of a domain where it must kill one for want of memory.

        Raises:
            DomainError: the kernel refused.
        """

    def memory_now(self, directories: Directories) -> int:
        """Return how much memory the group holds.

        Raises:
            DomainError: it cannot be read.
        """

    def figures(self, directories: Directories) -> Figures:
        """Return what has been counted for the group and all that ever was beneath it."""

    def shortages_of(self, directories: Directories) -> ShortageCount:
        """Return a count that begins now."""

    def shortages_above(self, base: Directories) -> ShortageCount:
        """Return a count for all that stands above the sidecar's own groups."""

    def own_shortages(self, counts: Sequence[int | None]) -> list[int | None]:
        """Return each level's own part of counts that were read from the narrowest up."""

    def refusals_by(self, directories: Directories) -> int | None:
        """Return how many forks this group's own limit refused; None where nobody counts that."""

    def is_full(self, directories: Directories, pids: int) -> bool | None:
        """Tell whether a group ever held `pids` processes; None where nobody counts."""


class Reins(Protocol):
    """Holds and ends everything in a group at once."""

    hierarchy: str

    def members(self, directory: Path) -> tuple[int, ...]:
        """Return the ids of the processes in a group itself.

        Raises:
            DomainError: they cannot be read.
        """

    async def freeze(self, directory: Path) -> None:
        """Let nothing run that is in a group or beneath it, or that enters.

        Raises:
            DomainError: the kernel refused, or some process did not stand still in time.
        """

    def thaw(self, directory: Path) -> None:
        """Let a group run again.

        Raises:
            DomainError: the kernel refused.
        """

    async def kill(self, directory: Path) -> None:
        """Kill all that is in a group and beneath it; return when nothing is left.

        Raises:
            DomainError: something survived.
        """


def quota_us(cpu_millis: int) -> int:
    """Return a rate of processor time as the kernel takes it, for each period."""
    return max(CPU_QUOTA_US_MIN, cpu_millis * CPU_PERIOD_US // 1000)


def block_devices(root: Path = Path("/sys/block")) -> tuple[str, ...]:
    """Return the numbers of the disks that can be throttled, as `major:minor`.

    All of them, because nobody knows where a command will write. What has no size, or lives in
    memory, is left out.
    """
    found = []
    try:
        disks = sorted(root.iterdir())
    except OSError:
        return ()
    for disk in disks:
        if disk.name.startswith(("ram", "loop", "zram")):
            continue
        try:
            if int((disk / "size").read_text()):
                found.append((disk / "dev").read_text().strip())
        except (OSError, ValueError):
            continue  # unplugged while we looked
    return tuple(found)

"""Limits and counts of control groups of version 2, all in one hierarchy."""

from collections.abc import Sequence
from pathlib import Path

from ebpf.domains.controls import (
    CPU_PERIOD_US,
    Directories,
    Figures,
    Gathering,
    ShortageCount,
    block_devices,
    quota_us,
)
from ebpf.domains.controls_v1 import in_use, peak_reached
from ebpf.domains.groups import read, read_field, read_number, write
from ebpf.domains.hierarchies import UNIFIED
from ebpf.domains.shortage_counts import FieldCount
from ebpf.errors import DomainError
from governor.limits import SharedLimits

REQUIRED = ("memory", "pids")
OPTIONAL = ("cpu", "io")

_RECLAIM_ROUNDS_MAX = 5
_SWAP = "memory.swap.max"
_WEIGHT = 100  # what a new group has

_PLAIN_CONTROLS = (
    ("memory_min_bytes", "memory.min", "0"),
    ("memory_low_bytes", "memory.low", "0"),
    ("memory_high_bytes", "memory.high", "max"),
    ("swap_bytes", "memory.swap.max", "max"),
    ("pids", "pids.max", "max"),
    ("cpu_weight", "cpu.weight", str(_WEIGHT)),
)


class ControlsV2:
    """Everything in one directory, with as many controllers as are delegated."""

    io_hierarchy: str | None = None
    hierarchies: tuple[str, ...] = (UNIFIED,)

    def __init__(self, *, mount: Path, controllers: Sequence[str]) -> None:
        """Take where the hierarchy is mounted, and the controllers that groups may have."""
        self._mount = mount
        self._enabling = " ".join(f"+{name}" for name in controllers)
        self._has_io = "io" in controllers

    def open_up(self, directories: Directories) -> None:
        """Give the controllers on to the groups beneath."""
        write(directories[UNIFIED] / "cgroup.subtree_control", self._enabling)

    def put(
        self, directories: Directories, limits: SharedLimits, *, before: SharedLimits, leaf: bool
    ) -> None:
        """Write what differs; a file of a controller that is not delegated is an error."""
        group = directories[UNIFIED]
        if limits.memory_bytes != before.memory_bytes:
            _put_memory(group, limits.memory_bytes)
        is_limited = limits.memory_bytes is not None and limits.swap_bytes is None
        if leaf and before.memory_bytes is None and is_limited and (group / _SWAP).exists():
            write(group / _SWAP, "0")
        for name, control, nothing in _PLAIN_CONTROLS:
            value: int | None = getattr(limits, name)
            if value != getattr(before, name):
                write(group / control, nothing if value is None else str(value))
        if limits.cpu_millis != before.cpu_millis:
            rate = limits.cpu_millis
            quota = "max" if rate is None else str(quota_us(rate))
            write(group / "cpu.max", f"{quota} {CPU_PERIOD_US}")
        for word, rate, was in (
            ("rbps", limits.io_read_bps, before.io_read_bps),
            ("wbps", limits.io_write_bps, before.io_write_bps),
        ):
            if rate != was:
                for device in block_devices():
                    value_text = "max" if rate is None else str(rate)
                    write(group / "io.max", f"{device} {word}={value_text}")

    def end_together(self, directories: Directories) -> None:
        """Tell the kernel."""
        write(directories[UNIFIED] / "memory.oom.group", "1")

    def memory_now(self, directories: Directories) -> int:
        """Return all memory of the group, page cache included."""
        return read_number(directories[UNIFIED] / "memory.current")

    def figures(self, directories: Directories) -> Figures:
        """Return the counters of the group, those of dead processes included."""
        group = directories[UNIFIED]
        events = group / "memory.events"
        found = Gathering(
            {} if self._has_io else {"io_bytes": "the io controller is not delegated"}
        )
        return Figures(
            cpu_us=found.take("cpu_ms", lambda: read_field(group / "cpu.stat", "usage_usec")),
            memory_peak_bytes=found.take(
                "memory_peak_bytes", lambda: read_number(group / "memory.peak")
            ),
            swap_peak_bytes=found.take("swap_peak_bytes", lambda: _swap_bytes(group)),
            io_bytes=found.take("io_bytes", lambda: _io_bytes(group)) if self._has_io else None,
            pids_peak=found.take("pids_peak", lambda: read_number(group / "pids.peak")),
            pids_refused=found.take(
                "pids_refused", lambda: read_field(group / "pids.events", "max")
            ),
            memory_kills=found.take("memory_kills", lambda: read_field(events, "oom_kill")),
            memory_high_hits=found.take("memory_high_hits", lambda: read_field(events, "high")),
            unknown=found.unknown,
        )

    def shortages_of(self, directories: Directories) -> ShortageCount:
        """Return what the kernel counts for this group's own limit."""
        return FieldCount((directories[UNIFIED],))

    def shortages_above(self, base: Directories) -> ShortageCount:
        """Return what is counted for the limits around the sidecar, as far as they are seen."""
        above = [path for path in base[UNIFIED].parents if path.is_relative_to(self._mount)]
        return FieldCount(above)

    def own_shortages(self, counts: Sequence[int | None]) -> list[int | None]:
        """Return the counts: each is of its own limit alone."""
        return list(counts)

    def refusals_by(self, directories: Directories) -> int | None:
        """Return what the group's own limit refused, where the kernel tells that (6.11)."""
        local = directories[UNIFIED] / "pids.events.local"
        try:
            return read_field(local, "max") if local.exists() else None
        except DomainError:
            return None

    def is_full(self, directories: Directories, pids: int) -> bool | None:
        """Tell whether the peak reached `pids`."""
        return peak_reached(directories[UNIFIED] / "pids.peak", pids)


def _put_memory(group: Path, most: int | None) -> None:
    """Write `memory.max`, after making room where more is in use.

    The kernel would rather kill than refuse a limit below what is in use, so it is asked to
    take memory back first, and the limit is left alone where that is not enough.

    Raises:
        DomainError: more is in use, and nothing of it can be taken back.
    """
    if most is not None:
        for _ in range(_RECLAIM_ROUNDS_MAX):
            excess = read_number(group / "memory.current") - most
            if excess <= 0 or not _is_reclaimed(group, excess):
                break
        used = read_number(group / "memory.current")
        if used > most:
            raise DomainError(in_use(group, most, used))
    write(group / "memory.max", "max" if most is None else str(most))


def _is_reclaimed(group: Path, excess: int) -> bool:
    try:
        write(group / "memory.reclaim", str(excess))
    except DomainError:
        return False  # an older kernel, or nothing that could be given back
    return True


def _swap_bytes(group: Path) -> int:
    """Return the most swap that was held, or what is held now where no peak is kept."""
    peak = group / "memory.swap.peak"
    return read_number(peak if peak.exists() else group / "memory.swap.current")


def _io_bytes(group: Path) -> int:
    """Return what went to and came from disks, with what is still to be written.

    The kernel charges a page to who dirtied it first, and writes it when it likes: pages of a
    file that several groups write may be counted for another of them.
    """
    total = 0
    for line in read(group / "io.stat").splitlines():
        words = dict(word.partition("=")[::2] for word in line.split()[1:])
        total += int(words.get("rbytes", 0)) + int(words.get("wbytes", 0))
    dirty = read_field(group / "memory.stat", "file_dirty")
    return total + dirty + read_field(group / "memory.stat", "file_writeback")

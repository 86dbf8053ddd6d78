"""Limits and counts of control groups of version 1, each controller in its own hierarchy."""

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
from ebpf.domains.groups import read, read_field, read_number, write
from ebpf.domains.hierarchies import UNIFIED
from ebpf.domains.shortage_counts import EventCount
from ebpf.errors import DomainError
from governor.limits import SharedLimits

CPUACCT = "cpuacct"
BLKIO = "blkio"

# Memory and swap together are charged before memory alone, and the kernel counts only the
# refusals of memory alone. With this much more room above, those come first: a kill can be
# told from one that the whole host's shortage caused, at the price of 16 pages of swap.
_SWAP_SLACK_BYTES = 64 << 10
_NO_LIMIT = -1
_SHARES = 1024  # what version 1 calls the weight of 100
_SHARES_MIN, _SHARES_MAX = 2, 262_144

# A figure that leaves most of the writing out would be worse than none.
NO_IO = "control groups of version 1 count no buffered writes for their group"
NO_HIGH = "control groups of version 1 have no limit that slows down"
_ABSENT = {"io_bytes": NO_IO, "memory_high_hits": NO_HIGH}


class ControlsV1:
    """Memory, pids and cpu of version 1; processor time from where it is counted."""

    io_hierarchy: str | None = BLKIO

    def __init__(self, *, cpu_time_from: str) -> None:
        """Count processor time in the hierarchy of that name, cpuacct's or the unified one."""
        self._cpu_time_from = cpu_time_from
        self.hierarchies: tuple[str, ...] = ("memory", "pids", "cpu", cpu_time_from)

    def open_up(self, directories: Directories) -> None:
        """Have older kernels count and limit for the groups beneath as well."""
        control = directories["memory"] / "memory.use_hierarchy"
        if control.exists() and read(control).strip() == "0":
            write(control, "1")

    def put(
        self, directories: Directories, limits: SharedLimits, *, before: SharedLimits, leaf: bool
    ) -> None:
        """Write what differs; what version 1 lacks is left to the caller's capabilities."""
        wanted = (limits.memory_bytes, limits.swap_bytes)
        if wanted != (before.memory_bytes, before.swap_bytes):
            _put_memory(directories["memory"], limits, leaf=leaf)
        if limits.pids != before.pids:
            write(directories["pids"] / "pids.max", _or_max(limits.pids))
        cpu = directories["cpu"]
        if limits.cpu_millis != before.cpu_millis:
            rate = limits.cpu_millis
            write(cpu / "cpu.cfs_period_us", str(CPU_PERIOD_US))
            write(cpu / "cpu.cfs_quota_us", str(_NO_LIMIT if rate is None else quota_us(rate)))
        if limits.cpu_weight != before.cpu_weight:
            shares = _SHARES if limits.cpu_weight is None else limits.cpu_weight * _SHARES // 100
            write(cpu / "cpu.shares", str(min(max(shares, _SHARES_MIN), _SHARES_MAX)))
        for verb, rate, was in (
            ("read", limits.io_read_bps, before.io_read_bps),
            ("write", limits.io_write_bps, before.io_write_bps),
        ):
            if rate != was:
                control = directories[BLKIO] / f"blkio.throttle.{verb}_bps_device"
                for device in block_devices():
                    write(control, f"{device} {rate or 0}")

    def end_together(self, directories: Directories) -> None:
        """Leave it to whoever watches the domain: version 1 kills one process at a time."""

    def memory_now(self, directories: Directories) -> int:
        """Return all memory of the group, page cache included."""
        return read_number(directories["memory"] / "memory.usage_in_bytes")

    def figures(self, directories: Directories) -> Figures:
        """Return the counters of each hierarchy."""
        memory, pids = directories["memory"], directories["pids"]
        found = Gathering(_ABSENT)
        return Figures(
            cpu_us=found.take("cpu_ms", lambda: self._cpu_us(directories)),
            memory_peak_bytes=found.take(
                "memory_peak_bytes", lambda: read_number(memory / "memory.max_usage_in_bytes")
            ),
            swap_peak_bytes=found.take(
                # Taken now, not at its highest: the domain keeps the highest of what it saw.
                "swap_peak_bytes",
                lambda: read_field(memory / "memory.stat", "swap"),
            ),
            io_bytes=None,
            pids_peak=found.take("pids_peak", lambda: read_number(pids / "pids.peak")),
            pids_refused=found.take(
                "pids_refused", lambda: read_field(pids / "pids.events", "max")
            ),
            memory_kills=found.take(
                "memory_kills", lambda: read_field(memory / "memory.oom_control", "oom_kill")
            ),
            memory_high_hits=None,
            unknown=found.unknown,
        )

    def _cpu_us(self, directories: Directories) -> int:
        directory = directories[self._cpu_time_from]
        if self._cpu_time_from == UNIFIED:
            return read_field(directory / "cpu.stat", "usage_usec")
        return -(-read_number(directory / "cpuacct.usage") // 1000)

    def shortages_of(self, directories: Directories) -> ShortageCount:
        """Return the notices that the kernel gives for this group and those above it."""
        return EventCount(directories["memory"])

    def shortages_above(self, base: Directories) -> ShortageCount:
        """Return the notices of a group without a limit: only those above it can be short."""
        return EventCount(base["memory"])

    def own_shortages(self, counts: Sequence[int | None]) -> list[int | None]:
        """Take from each level what it was told of the next wider one."""
        wider = (*counts[1:], 0)
        return [
            None if count is None or above is None else max(0, count - above)
            for count, above in zip(counts, wider, strict=True)
        ]

    def refusals_by(self, directories: Directories) -> int | None:
        """Return None: a refusal is counted where the fork was tried, whosesoever limit it was."""
        return None

    def is_full(self, directories: Directories, pids: int) -> bool | None:
        """Tell whether the peak reached `pids`."""
        return peak_reached(directories["pids"] / "pids.peak", pids)


def peak_reached(control: Path, most: int) -> bool | None:
    """Tell whether a peak reached `most`; None where the kernel keeps none."""
    try:
        return read_number(control) >= most
    except DomainError:
        return None


def _put_memory(memory: Path, limits: SharedLimits, *, leaf: bool) -> None:
    """Write memory, and memory with swap, in the order in which the kernel takes them."""
    most = limits.memory_bytes
    swap = limits.swap_bytes or 0
    alone = _NO_LIMIT if most is None else most
    total = _NO_LIMIT if most is None else most + max(swap, _SWAP_SLACK_BYTES)
    with_swap = memory / "memory.memsw.limit_in_bytes"
    controls = [(memory / "memory.limit_in_bytes", alone)]
    if with_swap.exists() and (leaf or limits.swap_bytes is not None):
        controls.append((with_swap, total))
    is_raised = most is None or most > read_number(memory / "memory.limit_in_bytes")
    for control, value in reversed(controls) if is_raised else controls:
        try:
            write(control, str(value))
        except DomainError as error:
            used = read_number(memory / "memory.usage_in_bytes")
            if most is None or used <= most:
                raise
            raise DomainError(in_use(memory, most, used)) from error
    if leaf and most is not None:
        write(memory / "memory.swappiness", "0" if not swap else "60")


def in_use(memory: Path, most: int, used: int) -> str:
    """Return why a limit cannot be lowered."""
    return f"{memory.name}: memory cannot be limited to {most} bytes, {used} are in use"


def _or_max(value: int | None) -> str:
    return "max" if value is None else str(value)

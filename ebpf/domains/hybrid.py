"""Domains of v1 controllers for the limits and of the v2 hierarchy for killing whole trees.

One domain is one directory in each of five hierarchies. The kernel enforces memory, pids
and the CPU rate; the total of CPU time has no limit in the kernel, so the counter is polled
and the domain killed. `cgroup.kill` reaches every process at once, whatever it has done to
its session, its parent or its signal handlers.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.to_thread

from ebpf.command import EndCause
from ebpf.domains.domain import Entry, Measured
from ebpf.domains.groups import (
    child_groups,
    find_groups,
    freeze_group,
    kill_group,
    read,
    read_field,
    remove_group,
    remove_groups,
    thaw_group,
    write,
)
from ebpf.domains.hierarchies import UNIFIED, Hierarchy
from ebpf.domains.memory_time import MemoryTime
from ebpf.errors import DomainError
from governor.limits import ExecutionLimits

# `unified` last: a process that is in it is in all, so killing what is there misses none.
CONTROLLERS = ("memory", "pids", "cpu", "cpuacct", UNIFIED)

POLL_SECONDS = 0.05
_CPU_PERIOD_US = 100_000
_CPU_QUOTA_US_MIN = 1_000  # the kernel's own floor: one hundredth of a processor

# Memory and swap together are charged before memory alone, and the kernel counts only the
# refusals of memory alone. With this much more room above, those come first: a kill can be
# told from one that the whole host's shortage caused, at the price of 16 pages of swap.
_SWAP_SLACK_BYTES = 64 << 10

_PROBE_LIMITS = ExecutionLimits(
    memory_bytes=64 << 20, pids=16, cpu_millis=500, cpu_ms=None, wall_ms=1, output_bytes=1
)
_PROBE_ANSWERS = (
    ("memory", "memory.limit_in_bytes", str(64 << 20)),
    ("pids", "pids.max", "16"),
    ("cpu", "cpu.cfs_quota_us", str(_CPU_PERIOD_US // 2)),
)


class HybridDomain:
    """The directories of one command, one in each hierarchy."""

    def __init__(self, directories: Mapping[str, Path], *, made: set[str]) -> None:
        """Stand for directories that exist, whose name `made` holds until they are removed."""
        self._directories = directories
        self._made = made
        self._memory_time = MemoryTime()
        # Controllers that are mounted together share a directory, which is entered once.
        self._groups = tuple(dict.fromkeys(directories.values()))
        self.entry = Entry(join=tuple(str(path / "cgroup.procs") for path in self._groups))

    @property
    def unified(self) -> Path:
        """Return the directory in the v2 hierarchy."""
        return self._directories[UNIFIED]

    def set_limits(self, limits: ExecutionLimits) -> None:
        """Put the limits that the kernel knows in force.

        Raises:
            DomainError: the kernel refused one.
        """
        memory = self._directories["memory"]
        if limits.memory_bytes is not None:
            write(memory / "memory.limit_in_bytes", str(limits.memory_bytes))
            with_swap = memory / "memory.memsw.limit_in_bytes"
            if with_swap.exists():
                write(with_swap, str(limits.memory_bytes + _SWAP_SLACK_BYTES))
            write(memory / "memory.swappiness", "0")
        if limits.pids is not None:
            write(self._directories["pids"] / "pids.max", str(limits.pids))
        if limits.cpu_millis is not None:
            cpu = self._directories["cpu"]
            quota_us = max(_CPU_QUOTA_US_MIN, limits.cpu_millis * _CPU_PERIOD_US // 1000)
            write(cpu / "cpu.cfs_period_us", str(_CPU_PERIOD_US))
            write(cpu / "cpu.cfs_quota_us", str(quota_us))

    def started(self, pid: int) -> None:
        """Note when; the kernel keeps the list of members."""
        self._memory_time.begin(anyio.current_time())

    def members(self) -> tuple[int, ...]:
        """Return who is in the domain, by the kernel's own list."""
        return tuple(map(int, read(self._directories[UNIFIED] / "cgroup.procs").split()))

    async def watch(self, limits: ExecutionLimits) -> EndCause:
        """Return MEMORY after the kernel's first kill, CPU when the total is used up."""
        usage = self._directories["memory"] / "memory.usage_in_bytes"
        while True:
            self._memory_time.note(anyio.current_time(), int(read(usage)))
            measured = self.measure()
            if measured.memory_kills:
                return EndCause.MEMORY
            assert measured.cpu_ms is not None
            if limits.cpu_ms is not None and measured.cpu_ms > limits.cpu_ms:
                return EndCause.CPU
            await anyio.sleep(POLL_SECONDS)

    def measure(self) -> Measured:
        """Return what the kernel has counted for the whole tree, dead processes included."""
        memory = self._directories["memory"]
        cpu_ns = int(read(self._directories["cpuacct"] / "cpuacct.usage"))
        peak_bytes = int(read(memory / "memory.max_usage_in_bytes"))
        return Measured(
            cpu_ms=-(-cpu_ns // 1_000_000),
            memory_peak_bytes=peak_bytes,
            memory_mib_s=self._memory_time.mib_s(now=anyio.current_time(), peak_bytes=peak_bytes),
            memory_kills=self._memory_kills(),
            pids_limit_hits=read_field(self._directories["pids"] / "pids.events", "max"),
        )

    def _memory_kills(self) -> int:
        """Return how often the kernel killed here because of this domain's own limit."""
        memory = self._directories["memory"]
        kills = read_field(memory / "memory.oom_control", "oom_kill")
        if not kills:
            return 0
        # A host that runs out of memory kills here too, and that is not the command's limit.
        return kills if int(read(memory / "memory.failcnt")) else 0

    async def freeze(self) -> None:
        """Let the kernel stop every process, and each that enters or is forked, at once."""
        await freeze_group(self._directories[UNIFIED])

    async def thaw(self) -> None:
        """Let the kernel run the processes again."""
        thaw_group(self._directories[UNIFIED])

    async def kill(self) -> None:
        """Kill every process at once and wait until the kernel says that none is left."""
        self._memory_time.end(anyio.current_time())
        await kill_group(self._directories[UNIFIED])

    async def remove(self) -> None:
        """Remove the directories, and their parents after the last domain of all."""
        await remove_groups(self._groups)
        self._made.discard(self._groups[0].name)
        if not self._made:
            for group in self._groups:
                remove_group(group.parent)  # stays where a dead sidecar's domains are inside


def check_hybrid(hierarchies: Mapping[str, Hierarchy], *, instance: str) -> None:
    """Make a domain, read its limits back, and remove it.

    Raises:
        DomainError: some part of that does not work on this host.
    """
    missing = [name for name in CONTROLLERS if name not in hierarchies]
    if missing:
        message = f"no hierarchy is mounted for {', '.join(missing)}"
        raise DomainError(message)
    domains = HybridDomains(hierarchies, instance=instance, pid=os.getpid())
    try:
        domains.make("probe", _PROBE_LIMITS)
        groups = {name: domains.bases[name] / "probe" for name in CONTROLLERS}
        for controller, control, expected in _PROBE_ANSWERS:
            found = read(groups[controller] / control).strip()
            if found != expected:
                message = f"{control} holds {found} after {expected} was written"
                raise DomainError(message)
        read_field(groups["memory"] / "memory.oom_control", "oom_kill")
        read_field(groups["pids"] / "pids.events", "max")
        write(groups[UNIFIED] / "cgroup.kill", "1")
    finally:
        for base in domains.bases.values():
            if not (remove_group(base / "probe") and remove_group(base)):
                message = f"{base}: the probe's control group cannot be removed"
                raise DomainError(message)


class HybridDomains:
    """Makes domains at `<own group>/flyball-<instance>-<pid>/<name>` in each hierarchy.

    Each process has a base of its own, so that who still ends what a dead sidecar left cannot
    reach what its successor has started already.
    """

    def __init__(self, hierarchies: Mapping[str, Hierarchy], *, instance: str, pid: int) -> None:
        """Take the place of this process, whose id `pid` is, in each hierarchy."""
        self._hierarchies = {name: hierarchies[name] for name in CONTROLLERS}
        self._prefix = f"flyball-{instance}"
        self._made: set[str] = set()
        self.bases: Mapping[str, Path] = {
            name: hierarchy.own / f"{self._prefix}-{pid}"
            for name, hierarchy in self._hierarchies.items()
        }

    @property
    def groups(self) -> tuple[Path, ...]:
        """Return what all domains of this process are beneath, the v2 hierarchy's last."""
        return tuple(dict.fromkeys(self.bases.values()))

    def make(self, name: str, limits: ExecutionLimits | None) -> HybridDomain:
        """Return a new domain with the limits that the kernel enforces."""
        directories: dict[str, Path] = {}
        try:
            for controller, base in self.bases.items():
                base.mkdir(exist_ok=True)
                if base / name not in directories.values():
                    (base / name).mkdir()
                directories[controller] = base / name
            domain = HybridDomain(directories, made=self._made)
            if limits is not None:
                domain.set_limits(limits)
        except (OSError, DomainError) as error:
            for path in directories.values():
                remove_group(path)  # nothing has entered yet
            for base in self.groups:
                remove_group(base)  # stays where a live domain is inside
            if isinstance(error, DomainError):
                raise
            message = f"{name}: its control groups cannot be made"
            raise DomainError(message) from error
        self._made.add(name)
        return domain

    async def sweep(self) -> int:
        """Kill and remove what a dead sidecar of this instance left; return how many."""
        # A sidecar that is started anew may stand elsewhere, so its predecessor's place is
        # searched for, not computed.
        bases = await anyio.to_thread.run_sync(self._find_bases)
        own = set(self.bases.values())
        groups = [
            group
            for base in bases
            for group in child_groups(base)
            if base not in own or group.name not in self._made
        ]
        for group in groups:
            if (group / "cgroup.kill").exists():
                await self._kill_stray(group)
        await remove_groups(groups)
        for base in bases:
            remove_group(base)  # stays where a live domain is inside
        return len({(group.parent.name, group.name) for group in groups})

    async def _kill_stray(self, group: Path) -> None:
        try:
            await kill_group(group)
        except DomainError:
            if not remove_group(group):
                raise  # else the dead sidecar's own warden was faster

    def _find_bases(self) -> list[Path]:
        """Return the bases of all processes of this instance, in every hierarchy."""
        return [
            base
            for hierarchy in self._hierarchies.values()
            for base in find_groups(hierarchy.mount, self._prefix)
        ]

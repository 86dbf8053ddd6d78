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
from ebpf.domains.hierarchies import UNIFIED, Hierarchy
from ebpf.errors import DomainError
from governor.limits import ExecutionLimits

# `unified` last: a process that is in it is in all, so killing what is there misses none.
CONTROLLERS = ("memory", "pids", "cpu", "cpuacct", UNIFIED)

POLL_SECONDS = 0.05
KILL_SECONDS_MAX = 10.0
REMOVE_SECONDS_MAX = 5.0
_WAIT_SECONDS_FIRST = 0.001
_WAIT_SECONDS_MAX = 0.05
_CPU_PERIOD_US = 100_000
_CPU_QUOTA_US_MIN = 1_000  # the kernel's own floor: one hundredth of a processor
_SEARCH_DEPTH_MAX = 12

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


def write(path: Path, value: str) -> None:
    """Write one control file.

    Raises:
        DomainError: the kernel refused.
    """
    try:
        control = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(control, value.encode())
        finally:
            os.close(control)
    except OSError as error:
        message = f"{path.parent.name}: {path.name} cannot be set to {value}"
        raise DomainError(message) from error


def read(path: Path) -> str:
    """Return the text of one control file.

    Raises:
        DomainError: it cannot be read.
    """
    try:
        return path.read_text()
    except OSError as error:
        message = f"{path.parent.name}: {path.name} cannot be read"
        raise DomainError(message) from error


def read_field(path: Path, name: str) -> int:
    """Return the number after `name` in a control file of `name value` lines."""
    for line in read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    message = f"{path.parent.name}: {path.name} has no {name}"
    raise DomainError(message)


class HybridDomain:
    """The directories of one command, one in each hierarchy."""

    def __init__(self, directories: Mapping[str, Path], *, made: set[str]) -> None:
        """Stand for directories that exist, whose name `made` holds until they are removed."""
        self._directories = directories
        self._made = made
        self.entry = Entry(join=tuple(str(path / "cgroup.procs") for path in directories.values()))

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
        """Do nothing: the kernel keeps the list of members."""

    async def watch(self, limits: ExecutionLimits) -> EndCause:
        """Return MEMORY after the kernel's first kill, CPU when the total is used up."""
        while True:
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
        return Measured(
            cpu_ms=-(-cpu_ns // 1_000_000),
            memory_peak_bytes=int(read(memory / "memory.max_usage_in_bytes")),
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

    async def kill(self) -> None:
        """Kill every process at once and wait until the kernel says that none is left."""
        await kill_group(self._directories[UNIFIED])

    async def remove(self) -> None:
        """Remove the directories."""
        await remove_groups(tuple(self._directories.values()))
        self._made.discard(self._directories[UNIFIED].name)


async def kill_group(directory: Path) -> None:
    """Kill all that is in a v2 group and beneath it.

    Raises:
        DomainError: it was still populated at the end of the wait.
    """
    wait = _WAIT_SECONDS_FIRST
    with anyio.move_on_after(KILL_SECONDS_MAX):
        while True:
            # Again each time: a launcher that was about to enter may have entered since.
            write(directory / "cgroup.kill", "1")
            if not read_field(directory / "cgroup.events", "populated"):
                return
            await anyio.sleep(wait)
            wait = min(wait * 2, _WAIT_SECONDS_MAX)
    message = f"{directory.name}: processes survived cgroup.kill for {KILL_SECONDS_MAX} s"
    raise DomainError(message)


async def remove_groups(directories: tuple[Path, ...]) -> None:
    """Remove control groups, waiting for the kernel to let go of their last members.

    Raises:
        DomainError: one could not be removed within the bound.
    """
    left = list(directories)
    wait = _WAIT_SECONDS_FIRST
    with anyio.move_on_after(REMOVE_SECONDS_MAX):
        while left:
            left = [path for path in left if not _removed(path)]
            if left:
                await anyio.sleep(wait)
                wait = min(wait * 2, _WAIT_SECONDS_MAX)
    if left:
        message = f"{left[0].name}: still busy in {', '.join(str(path.parent) for path in left)}"
        raise DomainError(message)


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # busy; whoever asked tries again, within its bound
    return True


def check_hybrid(hierarchies: Mapping[str, Hierarchy], *, instance: str) -> None:
    """Make a domain, read its limits back, and remove it.

    Raises:
        DomainError: some part of that does not work on this host.
    """
    missing = [name for name in CONTROLLERS if name not in hierarchies]
    if missing:
        message = f"no hierarchy is mounted for {', '.join(missing)}"
        raise DomainError(message)
    domains = HybridDomains(hierarchies, instance=instance)
    base = f"flyball-{instance}"
    try:
        domains.make("probe", _PROBE_LIMITS)
        groups = {name: hierarchies[name].own / base / "probe" for name in CONTROLLERS}
        for controller, control, expected in _PROBE_ANSWERS:
            found = read(groups[controller] / control).strip()
            if found != expected:
                message = f"{control} holds {found} after {expected} was written"
                raise DomainError(message)
        read_field(groups["memory"] / "memory.oom_control", "oom_kill")
        read_field(groups["pids"] / "pids.events", "max")
        write(groups[UNIFIED] / "cgroup.kill", "1")
    finally:
        for name in CONTROLLERS:
            own = hierarchies[name].own / base
            if not (_removed(own / "probe") and _removed(own)):
                message = f"{own}: the probe's control group cannot be removed"
                raise DomainError(message)


class HybridDomains:
    """Makes domains at `<own group>/flyball-<instance>/<name>` in each hierarchy."""

    def __init__(self, hierarchies: Mapping[str, Hierarchy], *, instance: str) -> None:
        """Take the place of this process in each hierarchy."""
        self._hierarchies = {name: hierarchies[name] for name in CONTROLLERS}
        self._base = f"flyball-{instance}"
        self._made: set[str] = set()

    def make(self, name: str, limits: ExecutionLimits | None) -> HybridDomain:
        """Return a new domain with the limits that the kernel enforces."""
        directories: dict[str, Path] = {}
        try:
            for controller, hierarchy in self._hierarchies.items():
                base = hierarchy.own / self._base
                base.mkdir(exist_ok=True)
                (base / name).mkdir()
                directories[controller] = base / name
            domain = HybridDomain(directories, made=self._made)
            if limits is not None:
                domain.set_limits(limits)
        except (OSError, DomainError) as error:
            for path in directories.values():
                _removed(path)  # nothing has entered yet
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
        names: set[str] = set()
        for base in bases:
            names.update(path.name for path in base.iterdir() if path.is_dir())
        strays = names - self._made
        for name in sorted(strays):
            groups = tuple(base / name for base in bases if (base / name).is_dir())
            for group in groups:
                if (group / "cgroup.kill").exists():
                    await kill_group(group)
            await remove_groups(groups)
        for base in bases:
            _removed(base)  # stays where a live domain is inside
        return len(strays)

    def _find_bases(self) -> tuple[Path, ...]:
        found: list[Path] = []
        for hierarchy in self._hierarchies.values():
            level = [hierarchy.mount]
            for _ in range(_SEARCH_DEPTH_MAX):
                level = [child for parent in level for child in _child_groups(parent)]
                found += [path for path in level if path.name == self._base]
        return tuple(found)


def _child_groups(directory: Path) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []  # removed while we looked, or not ours to read

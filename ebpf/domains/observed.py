"""Domains for hosts without control groups: resource limits as a backstop, samples as the rule.

A keeper process stays above the command as the parent of its orphans, so that a process
which detaches itself is still found in the tree. Memory, pids and the total of CPU time are
sampled and the tree is killed on excess; between two samples a command can exceed its limit,
and the resource limits bound by how much.
"""

import resource
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import psutil

from ebpf.command import EndCause
from ebpf.domains.curve_samples import CurveSamples
from ebpf.domains.domain import Entry, Measured
from ebpf.domains.groups import read_field
from ebpf.domains.memory_time import MemoryTime
from ebpf.domains.place import Place, ServerPlace
from ebpf.errors import DomainError
from ebpf.observer import (
    TreeSample,
    continue_process,
    descendants,
    is_alive,
    kill_descendants,
    kill_marked,
    kill_process,
    marked,
    sample_tree,
    stop_process,
    tasks_of,
)
from governor.limits import ExecutionLimits

MARKER = "FLYBALL_DOMAIN"
_VMSTAT = Path("/proc/vmstat")
SAMPLE_SECONDS = 0.1
KILL_SECONDS_MAX = 10.0
FREEZE_SECONDS_MAX = 5.0
_WAIT_SECONDS = 0.005
_PASSES_OF_A_TREE_THAT_FORKS = 4

# The backstops are wide: they are per process or per user, so at the limit itself they
# would refuse what a whole tree may well do.
_DATA_FACTOR = 4
_TASKS_SLACK = 512
_CPU_SECONDS_SLACK = 2


def backstops(limits: ExecutionLimits, *, uid: int) -> tuple[tuple[int, int, int], ...]:
    """Return the resource limits that bound what happens between two samples."""
    found: list[tuple[int, int, int]] = []
    if limits.memory_bytes is not None:
        size = limits.memory_bytes * _DATA_FACTOR
        found.append((resource.RLIMIT_DATA, size, size))
    if limits.pids is not None:
        tasks = tasks_of(uid) + limits.pids + _TASKS_SLACK
        found.append((resource.RLIMIT_NPROC, tasks, tasks))
    if limits.cpu_ms is not None:
        seconds = -(-limits.cpu_ms // 1000) + _CPU_SECONDS_SLACK
        found.append((resource.RLIMIT_CPU, seconds, seconds + 1))
    return tuple(found)


class ObservedDomain:
    """The tree beneath one keeper, with the mark that its members were born with."""

    def __init__(
        self,
        name: str,
        *,
        owner: str,
        rlimits: tuple[tuple[int, int, int], ...],
        made: set[str],
        roots: dict[str, int],
    ) -> None:
        """Stand for a domain of `owner` whose name `made` holds until it is removed.

        `roots` has the root of each tree that its owner runs, by the name of its domain.
        """
        self._name = name
        self._mark = f"{owner}:{name}"
        self._made = made
        self._roots = roots
        self._root_pid: int | None = None
        self._is_frozen = False
        # One at a time, so that nothing is stopped by whoever looked before it was continued.
        self._freezing = anyio.Lock()
        self._peak_bytes: int | None = None
        self._cpu_ms: int | None = None
        self._memory_time = MemoryTime()
        self._curve = CurveSamples()
        self._limits: ExecutionLimits | None = None
        self._kills_before: int | None = None
        self.entry = Entry(
            rlimits=rlimits, marker=(MARKER, self._mark), keeper=sys.platform == "linux"
        )

    @property
    def unified(self) -> Path | None:
        """Return None: there is no group."""
        return None

    @property
    def memory(self) -> Path | None:
        """Return None: there is no group."""
        return None

    def set_limits(self, limits: ExecutionLimits) -> None:
        """Have the next sample judged by other limits; the backstops stay."""
        self._limits = limits

    def started(self, pid: int) -> None:
        """Remember the root of the tree."""
        self._root_pid = self._roots[self._name] = pid
        self._kills_before = _kills_on_the_machine()
        now = anyio.current_time()
        self._memory_time.begin(now)
        self._curve.begin(now)

    def members(self) -> tuple[int, ...]:
        """Return who is in the tree or carries the mark."""
        return tuple(sorted(process.pid for process in self._members()))

    async def watch(self, limits: ExecutionLimits) -> EndCause:
        """Return the first limit that a sample exceeds."""
        self._limits = self._limits or limits
        while True:
            limits = self._limits
            async with self._freezing:
                if self._is_frozen:
                    # Whatever was about to start when the others were stopped.
                    await anyio.to_thread.run_sync(self._stop_once)
            sample = await anyio.to_thread.run_sync(self._sample)
            self._note(sample)
            limits = self._limits
            if limits.memory_bytes is not None and sample.memory_bytes > limits.memory_bytes:
                return EndCause.MEMORY
            if limits.pids is not None and sample.processes > limits.pids:
                return EndCause.PIDS
            if limits.cpu_ms is not None and sample.cpu_ms > limits.cpu_ms:
                return EndCause.CPU
            await anyio.sleep(SAMPLE_SECONDS)

    def _sample(self) -> TreeSample:
        assert self._root_pid is not None
        return sample_tree(self._root_pid, root_is_keeper=self.entry.keeper)

    def _note(self, sample: TreeSample) -> None:
        if sample.processes:
            self._peak_bytes = max(self._peak_bytes or 0, sample.memory_bytes)
            now = anyio.current_time()
            self._memory_time.note(now, sample.memory_bytes)
            self._curve.note(now, memory_bytes=sample.memory_bytes, cpu_ms=sample.cpu_ms)
        # The figure can fall when a process dies whose parent has not waited for it yet.
        self._cpu_ms = max(self._cpu_ms or 0, sample.cpu_ms)

    def measure(self) -> Measured:
        """Return the highest of what was sampled.

        Whom the kernel killed for want of memory is known only where it killed nobody at all.
        """
        kills = _kills_on_the_machine()
        is_spared = kills is not None and kills == self._kills_before
        now = anyio.current_time()
        return Measured(
            memory_kills=0 if is_spared else None,
            cpu_ms=self._cpu_ms,
            memory_peak_bytes=self._peak_bytes,
            memory_mib_s=self._memory_time.mib_s(now=now, peak_bytes=self._peak_bytes),
            curve=self._curve.curve(
                now=now, cpu_ms=self._cpu_ms, memory_peak_bytes=self._peak_bytes
            ),
        )

    async def freeze(self) -> None:
        """Stop the tree and whatever else carries the mark, until nothing runs."""
        async with self._freezing:
            self._is_frozen = True
            with anyio.move_on_after(FREEZE_SECONDS_MAX):
                while True:
                    if not await anyio.to_thread.run_sync(self._stop_once):
                        return
                    await anyio.sleep(_WAIT_SECONDS)
        await self.thaw()
        message = f"{self._name}: processes ran on for {FREEZE_SECONDS_MAX} s"
        raise DomainError(message)

    async def thaw(self) -> None:
        """Let the tree go on, what the command itself had stopped as well."""
        async with self._freezing:
            self._is_frozen = False
            await anyio.to_thread.run_sync(self._continue)

    def _stop_once(self) -> int:
        """Stop all that is found running; return how many there were."""
        return sum(map(stop_process, self._members()))

    def _continue(self) -> None:
        for process in self._members():
            continue_process(process)

    def _members(self) -> list[psutil.Process]:
        """Return every process of the command; the keeper is ours and goes on."""
        if self._root_pid is None:
            return []
        found = {process.pid: process for process in descendants(self._root_pid)}
        strayed = marked(MARKER, self._mark, not_below=self._others)
        found |= {process.pid: process for process, rest in strayed if not rest}
        if self.entry.keeper:
            found.pop(self._root_pid, None)
        return list(found.values())

    async def kill(self) -> None:
        """Kill the tree, then whatever else carries the mark, until nothing is left."""
        now = anyio.current_time()
        self._memory_time.end(now)
        self._curve.end(now)
        passes = 0
        with anyio.move_on_after(KILL_SECONDS_MAX):
            while await anyio.to_thread.run_sync(self._kill_once):
                passes += 1
                await anyio.sleep(_WAIT_SECONDS)
                if passes >= _PASSES_OF_A_TREE_THAT_FORKS:
                    await self._stop_all()
            return
        message = f"{self._name}: processes survived for {KILL_SECONDS_MAX} s"
        raise DomainError(message)

    async def _stop_all(self) -> None:
        """Return when nothing of the command runs, so that nothing of it can fork.

        A tree that forks as fast as it is killed has room for as many as were killed. What is
        only stopped keeps its place among the tasks that its user may have.
        """
        while await anyio.to_thread.run_sync(self._stop_descendants):
            pass

    def _stop_descendants(self) -> int:
        """Stop all beneath the root; return how many there were that ran."""
        found = () if self._root_pid is None else descendants(self._root_pid)
        return sum(map(stop_process, found))

    def _kill_once(self) -> bool:
        """Kill all that is found; tell whether there was anything."""
        left = 0
        if self._root_pid is not None:
            left += kill_descendants(self._root_pid)
            if not self.entry.keeper:
                left += kill_process(self._root_pid)
            # A keeper ends by itself, with its last figures, once nothing is beneath it; what was
            # beneath it may have stopped it.
            else:
                with suppress(psutil.NoSuchProcess):
                    continue_process(psutil.Process(self._root_pid))
            left += is_alive(self._root_pid)
        # To read the mark of a process that forks is to wait for it, which is for ever among
        # hundreds: it comes last, when the tree stands no more.
        return bool(left or kill_marked(MARKER, self._mark, not_below=self._others))

    @property
    def _others(self) -> list[int]:
        """Return the roots of the other commands' trees."""
        return [pid for name, pid in list(self._roots.items()) if name != self._name]

    async def remove(self) -> None:
        """Forget the name; there is nothing else to remove."""
        self._made.discard(self._name)
        self._roots.pop(self._name, None)


def _kills_on_the_machine() -> int | None:
    """Return how many processes the kernel has killed for want of memory; None if it is silent."""
    try:
        return read_field(_VMSTAT, "oom_kill")
    except DomainError:
        return None  # no Linux


class ObservedDomains:
    """Makes observed domains, told apart by a mark in their members' environment."""

    groups: tuple[Path, ...] = ()

    def __init__(self, *, instance: str, pid: int, uid: int) -> None:
        """Take the id of this process and the user that the commands run as."""
        self._instance = instance
        self._owner = f"{instance}-{pid}"
        self._uid = uid
        self._made: set[str] = set()
        self._roots: dict[str, int] = {}

    def make(self, place: Place | ServerPlace, limits: ExecutionLimits | None) -> ObservedDomain:
        """Return a new domain; its backstops are in force from the start."""
        name = "/".join(place.path)
        if name in self._made:
            message = f"{name}: a domain of this name exists"
            raise DomainError(message)
        rlimits = () if limits is None else backstops(limits, uid=self._uid)
        domain = ObservedDomain(
            name, owner=self._owner, rlimits=rlimits, made=self._made, roots=self._roots
        )
        self._made.add(name)
        return domain

    async def sweep(self) -> int:
        """Kill whatever carries this instance's mark and belongs to no domain made here."""
        names: set[str] = set()
        with anyio.move_on_after(KILL_SECONDS_MAX):
            while found := await anyio.to_thread.run_sync(self._kill_strays):
                names |= found
                await anyio.sleep(_WAIT_SECONDS)
            return len(names)
        message = f"{', '.join(sorted(names))}: processes survived for {KILL_SECONDS_MAX} s"
        raise DomainError(message)

    def _kill_strays(self) -> set[str]:
        own = {f"{self._owner}:{name}" for name in self._made}
        strays = {
            mark
            for _, rest in marked(MARKER, self._instance)
            if (mark := f"{self._instance}{rest}") not in own
        }
        for mark in strays:
            kill_marked(MARKER, mark)
        return strays

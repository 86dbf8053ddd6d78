"""One command's control groups, whichever version holds them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from ebpf.command import EndCause, Level, Victim
from ebpf.domains.causes import MemoryEvidence, counted_refusals, memory_cause, pids_level
from ebpf.domains.controls import Controls, Directories, Figures, Reins, ShortageCount
from ebpf.domains.curve_samples import CurveSamples
from ebpf.domains.domain import Entry, Measured
from ebpf.domains.groups import remove_group, remove_groups
from ebpf.domains.hierarchies import UNIFIED
from ebpf.domains.kernel_log import KernelLog
from ebpf.domains.memory_time import MemoryTime
from ebpf.errors import DomainError
from governor.limits import ExecutionLimits, SharedLimits, shared_part

POLL_SECONDS = 0.05
_STEADY_READS_MAX = 4


@dataclass(slots=True, kw_only=True, eq=False)
class Stage:
    """One group on the way from a call's up to the base, with what it may have and lacked."""

    level: Level
    directories: Directories
    limits: SharedLimits
    shortages: ShortageCount


class ControlledDomain:
    """The directories of one command, one in each hierarchy, beneath those that it shares."""

    def __init__(
        self,
        controls: Controls,
        reins: Reins,
        *,
        chain: Sequence[Stage],
        log: KernelLog,
        removed: Callable[[], None],
    ) -> None:
        """Stand for groups that exist, the call's own first; `removed` hears of their end."""
        self._controls = controls
        self._reins = reins
        self._chain = chain
        self._log = log
        self._removed = removed
        self._own = chain[0]
        self._memory_time = MemoryTime()
        self._curve = CurveSamples()
        self._swap_peak_bytes: int | None = None
        self._limits: ExecutionLimits | None = None
        self._before = self._counts()
        self._kills_before = log.count()
        self._refused_before = self._refused()
        self._rein = self._own.directories[reins.hierarchy]
        # Controllers that are mounted together share a directory, which is entered once.
        self._groups = tuple(dict.fromkeys(self._own.directories.values()))
        self.entry = Entry(join=tuple(str(path / "cgroup.procs") for path in self._groups))

    @property
    def directories(self) -> Directories:
        """Return the directory in each hierarchy."""
        return self._own.directories

    @property
    def unified(self) -> Path | None:
        """Return the directory in the v2 hierarchy, None where there is none."""
        return self._own.directories.get(UNIFIED)

    @property
    def memory(self) -> Path | None:
        """Return the directory with the files of the memory controller."""
        return self._own.directories.get("memory", self.unified)

    def set_limits(self, limits: ExecutionLimits) -> None:
        """Put the limits that the kernel knows in force, and have the others watched."""
        wanted = shared_part(limits)
        self._controls.put(self._own.directories, wanted, before=self._own.limits, leaf=True)
        self._own.limits = wanted
        self._limits = limits

    def started(self, pid: int) -> None:
        """Note when; the kernel keeps the list of members."""
        now = anyio.current_time()
        self._memory_time.begin(now)
        self._curve.begin(now)

    def members(self) -> tuple[int, ...]:
        """Return who is in the domain, by the kernel's own list."""
        return self._reins.members(self._rein)

    async def watch(self, limits: ExecutionLimits) -> EndCause:
        """Return whose memory ran short after the kernel's first kill, CPU at the total's end."""
        self._limits = self._limits or limits
        while True:
            now_bytes = self._controls.memory_now(self._own.directories)
            now = anyio.current_time()
            self._memory_time.note(now, now_bytes)
            figures = self._figures()
            self._curve.note(now, memory_bytes=now_bytes, cpu_ms=_whole_ms(figures.cpu_us))
            if figures.memory_kills:
                return self._memory_cause(figures.memory_kills)[0] or EndCause.UNKNOWN
            cpu_ms_max = self._limits.cpu_ms
            if cpu_ms_max is not None and (figures.cpu_us or 0) > cpu_ms_max * 1000:
                return EndCause.CPU
            await anyio.sleep(POLL_SECONDS)

    def measure(self) -> Measured:
        """Return what the kernel has counted for the whole tree, dead processes included."""
        figures = self._figures()
        killed_by, victim = self._memory_cause(figures.memory_kills)
        refusals, refused_by = self._refusals(figures)
        peak_bytes = figures.memory_peak_bytes
        now, cpu_ms = anyio.current_time(), _whole_ms(figures.cpu_us)
        return Measured(
            cpu_ms=cpu_ms,
            memory_peak_bytes=peak_bytes,
            memory_mib_s=self._memory_time.mib_s(now=now, peak_bytes=peak_bytes),
            swap_peak_bytes=self._swap_peak_bytes,
            io_bytes=figures.io_bytes,
            pids_peak=figures.pids_peak,
            memory_kills=figures.memory_kills,
            memory_high_hits=figures.memory_high_hits,
            pids_limit_hits=refusals,
            killed_by=killed_by,
            pids_refused_by=refused_by,
            victim=victim,
            unknown=figures.unknown,
            memory_bytes=self._memory_now(),
            curve=self._curve.curve(now=now, cpu_ms=cpu_ms, memory_peak_bytes=peak_bytes),
        )

    def _memory_now(self) -> int | None:
        try:
            return self._controls.memory_now(self._own.directories)
        except DomainError:
            return None  # the group was removed while it was looked at

    def _figures(self) -> Figures:
        found = self._controls.figures(self._own.directories)
        if found.swap_peak_bytes is not None:
            self._swap_peak_bytes = max(self._swap_peak_bytes or 0, found.swap_peak_bytes)
        return found

    def _refusals(self, figures: Figures) -> tuple[int | None, Level | None]:
        """Return how many forks were refused, and whose limit refused them."""
        now = self._refused()
        counted = counted_refusals(
            {
                level: None if count is None or before is None else max(0, count - before)
                for (level, count), before in zip(
                    now.items(), self._refused_before.values(), strict=True
                )
            }
        )
        if counted is not None:
            return counted
        refusals = figures.pids_refused
        return refusals, pids_level(refusals=refusals, full=self._full() if refusals else {})

    def _refused(self) -> dict[Level, int | None]:
        """Return what each level with a limit on processes refused so far."""
        return {
            stage.level: self._controls.refusals_by(stage.directories)
            for stage in self._chain
            if stage.limits.pids is not None or stage.level is Level.CALL
        }

    def _full(self) -> dict[Level, bool | None]:
        """Tell of each level whether it ever held as many processes as it may."""
        return {
            stage.level: False
            if stage.limits.pids is None
            else self._controls.is_full(stage.directories, stage.limits.pids)
            for stage in self._chain
        }

    def _memory_cause(self, kills: int | None) -> tuple[EndCause | None, Victim | None]:
        if not kills:
            return None, None
        now = self._counts()
        shortages = {
            level: None if count is None or before is None else max(0, count - before)
            for (level, count), before in zip(now.items(), self._before.values(), strict=True)
        }
        base = self._chain[-1].directories[self._reins.hierarchy]
        names = (base.name, *self._rein.relative_to(base).parts)
        victim = self._log.victim_in(names, after=self._kills_before)
        evidence = MemoryEvidence(kills=kills, shortages=shortages, victim=victim)
        return memory_cause(evidence), victim

    def _counts(self) -> dict[Level, int | None]:
        """Return each level's own shortages, read until nothing changed meanwhile."""
        counts = self._read_counts()
        for _ in range(_STEADY_READS_MAX):
            again = self._read_counts()
            if again == counts:
                break
            counts = again
        own = self._controls.own_shortages(counts)
        return {stage.level: count for stage, count in zip(self._chain, own, strict=True)}

    def _read_counts(self) -> list[int | None]:
        return [stage.shortages.read() for stage in self._chain]

    async def freeze(self) -> None:
        """Let the kernel stop every process, and each that enters or is forked, at once."""
        await self._reins.freeze(self._rein)

    async def thaw(self) -> None:
        """Let the kernel run the processes again."""
        self._reins.thaw(self._rein)

    async def kill(self) -> None:
        """Kill every process at once and wait until the kernel says that none is left."""
        now = anyio.current_time()
        self._memory_time.end(now)
        self._curve.end(now)
        await self._reins.kill(self._rein)

    async def remove(self) -> None:
        """Remove the directories, and those of its session and tenant after the last of all."""
        await remove_groups(self._groups)
        self._forget()

    def remove_now(self) -> None:
        """Remove a domain that nothing ever entered.

        Raises:
            DomainError: it cannot be removed.
        """
        stuck = [path for path in self._groups if not remove_group(path)]
        if stuck:
            message = f"{stuck[0]}: the control group cannot be removed"
            raise DomainError(message)
        self._forget()

    def _forget(self) -> None:
        self._own.shortages.close()
        self._removed()


def _whole_ms(cpu_us: int | None) -> int | None:
    return None if cpu_us is None else -(-cpu_us // 1000)

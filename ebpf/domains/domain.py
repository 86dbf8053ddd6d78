"""What every kind of domain offers to the supervisor of a command."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ebpf.command import EndCause, Level, Victim
from ebpf.domains.place import Place, ServerPlace
from governor.amounts import Unit
from governor.curve import Curve
from governor.limits import ExecutionLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How the launcher enters a domain."""

    join: tuple[str, ...] = ()
    rlimits: tuple[tuple[int, int, int], ...] = ()
    marker: tuple[str, str] | None = None
    keeper: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a domain knows of its processes, now or at their end; unknown is None.

    `attached` is what the attachments counted. `unknown` says why a figure is None, by its name
    here. `killed_by` is whose limit had a process killed for want of memory, `pids_refused_by`
    whose limit refused forks. `memory_bytes` is what the processes hold at this moment,
    `curve` how both went so far.
    """

    cpu_ms: int | None
    memory_peak_bytes: int | None
    memory_mib_s: int | None = None
    swap_peak_bytes: int | None = None
    io_bytes: int | None = None
    pids_peak: int | None = None
    memory_kills: int | None = 0
    memory_high_hits: int | None = None
    pids_limit_hits: int | None = 0
    frozen_ms: int = 0
    attached: Mapping[Unit, int] = field(default_factory=dict)
    killed_by: EndCause | None = None
    pids_refused_by: Level | None = None
    victim: Victim | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    curve: Curve | None = None


class Domain(Protocol):
    """The fence around one command and everything that it starts."""

    entry: Entry

    @property
    def unified(self) -> Path | None:
        """Return the directory in the v2 hierarchy, where programs attach; None without one."""

    def set_limits(self, limits: ExecutionLimits) -> None:
        """Put limits in force, also anew while the command runs.

        Raises:
            DomainError: the kernel refused one, or more is in use than it would allow.
        """

    @property
    def memory(self) -> Path | None:
        """Return the directory with the files of the memory controller; None without one."""

    def started(self, pid: int) -> None:
        """Take note of the process that was launched into the domain."""

    def members(self) -> tuple[int, ...]:
        """Return the ids of the processes inside, as they are now.

        Raises:
            DomainError: they cannot be read.
        """

    async def watch(self, limits: ExecutionLimits) -> EndCause:
        """Return the limit that was exceeded, once one is; else never return."""

    async def freeze(self) -> None:
        """Let none of the processes run, nor any that comes to be, until `thaw`.

        Raises:
            DomainError: the machine refused, or some process went on.
        """

    async def thaw(self) -> None:
        """Let the processes go on.

        Raises:
            DomainError: the machine refused.
        """

    async def kill(self) -> None:
        """Kill every process inside and return when none is left.

        Raises:
            DomainError: some process survived.
        """

    def measure(self) -> Measured:
        """Return what the processes have used so far."""

    async def remove(self) -> None:
        """Remove what the domain consists of; it must be empty.

        Raises:
            DomainError: it could not be removed.
        """


class Domains(Protocol):
    """Makes the domains of one sidecar and finds those that a dead one left behind."""

    @property
    def groups(self) -> tuple[Path, ...]:
        """Return what all domains of this process are beneath, the one to kill in last, if any."""

    def make(self, place: Place | ServerPlace, limits: ExecutionLimits | None) -> Domain:
        """Return a new, empty domain that holds the limits it can hold.

        Raises:
            DomainError: the place is taken, or a limit was refused by the kernel.
        """

    async def sweep(self) -> int:
        """Kill and remove every domain of this instance that nobody here made."""

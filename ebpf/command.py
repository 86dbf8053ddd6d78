"""A local command and the ways it can end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from governor.amounts import Unit
from governor.call import Isolated
from governor.curve import Curve
from governor.raising import Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run. Without `cwd` it runs in the root directory."""

    argv: tuple[str, ...]
    cwd: str | None
    env: Mapping[str, str]
    stdin: bytes = b""


class EndCause(StrEnum):
    """What ended a command: itself, a signal that was not ours, or the limit it ran into.

    Memory may be short of the command's own limit, of the one that it shares with its session
    or its tenant, or of the machine's. UNKNOWN is what nothing that was counted explains.
    """

    EXITED = "exited"
    SIGNALLED = "signalled"
    MEMORY = "memory"
    SESSION_MEMORY = "session_memory"
    TENANT_MEMORY = "tenant_memory"
    HOST_MEMORY = "host_memory"
    PIDS = "pids"  # observed hosts alone; elsewhere the kernel refuses the fork instead
    CPU = "cpu"
    WALL = "wall"
    OUTPUT = "output"
    EGRESS = "egress"  # it sent all it may send; the kernel dropped what went beyond
    STUCK = "stuck"  # it made no progress with its memory, or nobody gave it more
    PROBE = "probe"  # an operator's own probe counted further than the rule lets it
    UNKNOWN = "unknown"


class Level(StrEnum):
    """Whose limit it is, narrowest first; the machine's may be that of a container around it."""

    CALL = "call"
    SESSION = "session"
    TENANT = "tenant"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A process that the kernel killed for want of memory, and whose limit was short."""

    pid: int
    comm: str
    level: Level | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command did and used; a figure that nobody could measure is None.

    A command that was ended by a limit has the signal that ended it, SIGKILL as a rule.
    `pids_limit_hits` counts the forks that the kernel refused, because of the limit of
    `pids_refused_by` where that is known; `victim` is the process that it killed for want of
    memory, where it said so. `frozen_ms` is how long the command stood still, which is not part
    of `wall_ms`. `attached` and `notes` are what the attachments of its domain counted and
    noted, `refused` what it tried against its rule. `unknown` says why a figure is None, by its
    name. `story` tells how it went up the ladder, `curve` how its memory and
    its processor time went.
    """

    cause: EndCause
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_dropped_bytes: int
    stderr_dropped_bytes: int
    wall_ms: int
    cpu_ms: int | None
    memory_peak_bytes: int | None
    memory_mib_s: int | None = None
    memory_high_hits: int | None = None
    swap_peak_bytes: int | None = None
    io_bytes: int | None = None
    pids_peak: int | None = None
    pids_limit_hits: int | None
    pids_refused_by: Level | None = None
    victim: Victim | None = None
    frozen_ms: int
    isolated: Isolated
    attached: Mapping[Unit, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unmeasured: Mapping[Unit, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    story: Story | None = None
    curve: Curve | None = None

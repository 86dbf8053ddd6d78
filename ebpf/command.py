"""A local command and the ways it can end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from governor.amounts import Unit
from governor.call import Isolated


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run. Without `cwd` it runs in the root directory."""

    argv: tuple[str, ...]
    cwd: str | None
    env: Mapping[str, str]
    stdin: bytes = b""


class EndCause(StrEnum):
    """What ended a command: itself, a signal that was not ours, or the limit it ran into."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    MEMORY = "memory"
    PIDS = "pids"  # observed hosts alone; elsewhere the kernel refuses the fork instead
    CPU = "cpu"
    WALL = "wall"
    OUTPUT = "output"
    EGRESS = "egress"  # it sent all it may send; the kernel dropped what went beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command did and used; a figure that nobody could measure is None.

    A command that was ended by a limit has the signal that ended it, SIGKILL as a rule.
    `pids_limit_hits` counts the forks that the kernel refused. `frozen_ms` is how long it
    stood still, which is not part of `wall_ms`. `attached` and `notes` are what the attachments
    of its domain counted and noted. `attached` and `notes` are what the attachments
    counted and noted.
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
    io_bytes: int | None = None
    pids_limit_hits: int
    frozen_ms: int
    isolated: Isolated
    attached: Mapping[Unit, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unmeasured: Mapping[Unit, str] = field(default_factory=dict)

"""What is asked about a command that is out of memory, and what can be answered."""

from dataclasses import dataclass
from enum import StrEnum

from governor.ladder import Rung, Sight

_MIB = 1024 * 1024
# What is offered to a command that is full: this many times what it had.
_TIMES = 2


class WhoIsAsked(StrEnum):
    """Who may raise the memory of a command that runs."""

    ADMINISTRATOR = "admin"
    AGENT = "agent"
    NOBODY = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """The process of a command that held the most memory when somebody looked."""

    pid: int
    name: str
    rss_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuestion:
    """A command that is frozen because it needs more memory, or makes no progress without.

    `wall_left_ms` is how long it may still run once it goes on; `number` counts its questions.
    """

    call: str
    number: int
    limit_bytes: int
    used_bytes: int
    peak_bytes: int | None
    ceiling_bytes: int
    wall_left_ms: int
    is_stuck: bool
    culprit: Culprit | None

    @property
    def wanted_bytes(self) -> int:
        """Return the limit that is asked for."""
        return min(_TIMES * self.limit_bytes, self.ceiling_bytes)

    def extra_mib_s(self, wanted_bytes: int) -> int:
        """Return what a raise may cost more until the command's time is over, rounded up."""
        return -(-(wanted_bytes - self.limit_bytes) * self.wall_left_ms // (_MIB * 1_000))

    def granted_bytes(self, said_bytes: int | None) -> int | None:
        """Return the new limit where `said_bytes` was answered; None where that is no raise.

        Who names no figure grants what was asked for, and nobody grants more than the ceiling.
        """
        said = self.wanted_bytes if said_bytes is None else min(said_bytes, self.ceiling_bytes)
        return said if said > self.limit_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer:
    """What becomes of the command: RAISED to `memory_bytes`, else one of the other answers.

    `said` is for the model: who answered what, in words.
    """

    sight: Sight
    memory_bytes: int | None = None
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """How a command went up the ladder, as far as anybody saw."""

    path: tuple[Rung, ...] = (Rung.FREE,)
    limit_bytes: int | None = None
    raises: int = 0
    culprit: Culprit | None = None
    said: tuple[str, ...] = ()

    @property
    def was_turned_down(self) -> bool:
        """Tell whether more was asked for and some answer gave none."""
        return len(self.said) > self.raises


class Otherwise(StrEnum):
    """What becomes of a command that nobody answered for."""

    KILL = "kill"
    GO_ON = "go_on"

    @property
    def sight(self) -> Sight:
        """Return what that is to the ladder."""
        return Sight.DROPPED if self is Otherwise.KILL else Sight.LEFT


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTerms:
    """Who is asked, for how long, and what a silence means."""

    who: WhoIsAsked = WhoIsAsked.NOBODY
    wait_ms: int = 60_000
    otherwise: Otherwise = Otherwise.KILL

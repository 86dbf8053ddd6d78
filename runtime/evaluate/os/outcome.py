"""What one replay of a mix in one arm came to, in memory and as a line of the resume file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from runtime.evaluate.os.mixes import Role


class Arm(StrEnum):
    """How the sessions of a mix are kept from one another."""

    ALONE = "alone"
    NONE = "none"
    STATIC = "static"
    MEMORY_HIGH = "memory_high"
    FLYBALL = "flyball"
    DECLARED = "flyball_declared"

    @property
    def is_governed(self) -> bool:
        """Tell whether Flyball decides who runs: on what it learned, or on what calls declare."""
        return self in {Arm.FLYBALL, Arm.DECLARED}


COMPARED = (Arm.NONE, Arm.STATIC, Arm.MEMORY_HIGH, Arm.FLYBALL)
ARMS = (*COMPARED, Arm.DECLARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOutcome:
    """How one session fared: each call that ended by itself, and what did not.

    A wall is from the wish to start a call to its end. `steps_us` are the takings of memory.
    """

    role: Role
    walls_ms: Sequence[float]
    steps_us: Sequence[int]
    done_nominal_ms: int
    session_ms: float
    killed: int
    timed_out: int
    is_complete: bool

    @property
    def survived(self) -> bool:
        """Tell whether nothing of it was killed and it came to its end."""
        return self.is_complete and not self.killed and not self.timed_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one mix fared in one arm; of the arm `alone`, each session by itself."""

    mix: int
    arm: Arm
    memory_mib: int
    sessions: Sequence[SessionOutcome]
    makespan_ms: float
    wasted_mib_s: float
    overshoot_bytes: int | None
    leaked: int
    freezes: int = 0
    frozen_ms: int = 0
    delayed: int = 0

    def shape(self) -> dict[str, Any]:
        """Return the line that the resume file keeps."""
        return asdict(self)


def outcome_of(shape: Mapping[str, Any]) -> Outcome:
    """Return what a line of the resume file tells.

    Raises:
        KeyError, TypeError, ValueError: it is no such line.
    """
    sessions = [SessionOutcome(**{**one, "role": Role(one["role"])}) for one in shape["sessions"]]
    return Outcome(**{**shape, "arm": Arm(shape["arm"]), "sessions": sessions})

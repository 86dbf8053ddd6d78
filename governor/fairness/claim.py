"""What a call says when it asks for its turn at an upstream."""

from dataclasses import dataclass
from enum import StrEnum

# Times and weights are bounded, so that no tag of the queue can be driven out of proportion.
WEIGHT_MAX = 1_000
DEADLINE_MS_MAX = 24 * 60 * 60 * 1000


class Priority(StrEnum):
    """How much a call matters beside others. A class has a share, never the right of way."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def share(self) -> int:
        """Return how many calls of the lowest priority one of this is worth."""
        return _SHARES[self]

    def capped(self, highest: "Priority") -> "Priority":
        """Return this priority, or `highest` where this is above it."""
        return self if self.share <= highest.share else highest


_SHARES = {Priority.LOW: 1, Priority.NORMAL: 4, Priority.HIGH: 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Urgency:
    """What a caller wants: a priority, and how long it waits for its call to start."""

    priority: Priority | None = None
    deadline_ms: int | None = None


NO_URGENCY = Urgency()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One call in want of a slot: whose it is, with the weights that its tenant and agent have.

    `expires_ms` is the instant of the monotonic clock from which on it is not started.
    """

    tenant: str
    agent: str
    session: str
    tenant_weight: int = 1
    agent_weight: int = 1
    priority: Priority = Priority.NORMAL
    expires_ms: int

"""When an agent has to think before it is served."""

from dataclasses import dataclass
from enum import StrEnum

from governor.errors import InvalidPolicyError
from governor.puzzle import HOPS_MAX
from governor.rate import Rate


class When(StrEnum):
    """Whom a gate stops: who has not solved a puzzle lately, or who calls too often."""

    UNKNOWN = "unknown"
    OVER_RATE = "over_rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerms:
    """A gate before the calls of a rule.

    A puzzle has `hops` steps and must be answered within `ttl_ms`. Who solves one is known for
    `pass_ms`, or may make `calls` in `per_ms` anew.

    Raises:
        InvalidPolicyError: a figure is out of range.
    """

    when: When = When.UNKNOWN
    hops: int = 3
    ttl_ms: int = 120_000
    pass_ms: int = 3_600_000
    calls: int = 60
    per_ms: int = 60_000

    def __post_init__(self) -> None:
        """Refuse what nobody could pass."""
        if not 1 <= self.hops <= HOPS_MAX:
            raise InvalidPolicyError(f"gate.hops: {self.hops} is outside 1..{HOPS_MAX}")
        for name in ("ttl_ms", "pass_ms", "calls", "per_ms"):
            if getattr(self, name) <= 0:
                raise InvalidPolicyError(f"gate.{name}: {getattr(self, name)} is not above 0")

    @property
    def rate(self) -> Rate:
        """Return how often may be called without a puzzle."""
        return Rate(limit=self.calls, every_ms=self.per_ms, burst=self.calls)

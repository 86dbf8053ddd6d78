"""The even pace at which a commons is drawn on: one upstream's quota, many agents."""

from dataclasses import dataclass

from governor.errors import InvalidPolicyError

_MINUTE_US = 60_000_000
PER_MINUTE_MAX = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many calls an upstream takes per minute, and how many of them at one instant.

    In any minute no more than `per_minute + burst - 1` calls start.

    Raises:
        InvalidPolicyError: a number lets nothing through.
    """

    per_minute: int
    burst: int = 1

    def __post_init__(self) -> None:
        """Refuse a quota that nothing could pass."""
        if not 1 <= self.per_minute <= PER_MINUTE_MAX:
            raise InvalidPolicyError(f"per minute: {self.per_minute} is not 1 to {PER_MINUTE_MAX}")
        if not 1 <= self.burst <= self.per_minute:
            raise InvalidPolicyError(
                f"burst: {self.burst} is not between 1 and what a minute allows"
            )

    @property
    def interval_us(self) -> int:
        """Return how far apart calls are at an even pace, rounded against the caller."""
        return -(-_MINUTE_US // self.per_minute)


class Pace:
    """When the next call may start; integers in microseconds, so that nothing drifts."""

    __slots__ = ("_early_us", "_interval_us", "_next_us")

    def __init__(self, quota: Quota) -> None:
        """Begin with the whole burst at hand."""
        self._interval_us = quota.interval_us
        self._early_us = (quota.burst - 1) * self._interval_us
        self._next_us = 0

    def is_due(self, now_ms: int) -> bool:
        """Tell whether a call may start in the millisecond `now_ms`."""
        return self._next_us - self._early_us < (now_ms + 1) * 1000

    def take(self, now_ms: int) -> None:
        """Let one call start."""
        self._next_us = max(self._next_us, now_ms * 1000) + self._interval_us

    def due_ms(self) -> int:
        """Return the first millisecond in which a call may start."""
        return (self._next_us - self._early_us) // 1000

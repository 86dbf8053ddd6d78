"""How fast money is spent by what was routed, and what that makes it count."""

from math import exp

from governor.learning.burn import paced

_HOUR_MS = 3_600_000
# The time over which spending is averaged.
_MEMORY_MS = 600_000
_STEP = 0.05


class Spending:
    """Averages what calls have cost, and steers towards a rate; one for each process."""

    def __init__(self, *, processes: int = 1) -> None:
        """Take between how many processes a rate is divided."""
        self._processes = processes
        self._sum = 0.0
        self._as_of_ms = 0
        self._multiple = 1.0

    def note(self, cost_microusd: int, *, at_ms: int) -> None:
        """Take note of what a call has cost."""
        self._age(at_ms)
        self._sum += cost_microusd

    def per_hour(self, *, now_ms: int) -> float:
        """Return the present rate of spending."""
        self._age(now_ms)
        return self._sum * _HOUR_MS / _MEMORY_MS

    def multiple(self, rate_per_hour: float, *, now_ms: int) -> float:
        """Return how many times its usual worth money counts, to keep to a rate."""
        self._multiple = paced(
            self._multiple,
            spent_per_hour=self.per_hour(now_ms=now_ms),
            rate_per_hour=rate_per_hour / self._processes,
            step=_STEP,
        )
        return self._multiple

    def _age(self, now_ms: int) -> None:
        if now_ms > self._as_of_ms:
            self._sum *= exp((self._as_of_ms - now_ms) / _MEMORY_MS)
            self._as_of_ms = now_ms

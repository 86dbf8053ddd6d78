"""Token buckets: how much may pass in a stretch of time, in integers.

The bucket is kept as the generic cell rate algorithm (ITU-T I.371) keeps it: one number,
the theoretical arrival time, which needs no timer and no rounding. Time is scaled by the
rate's limit, so that one unit takes a whole number of ticks.
"""

from dataclasses import dataclass
from math import gcd

from governor.errors import InvalidBudgetError

# Epoch milliseconds times this still fit a signed 64-bit integer for some thousand years.
_TICKS_PER_MS_MAX = 1_000_000
# What both databases can hold. An arrival that is further away is never reached either.
ARRIVAL_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, init=False)
class Rate:
    """`limit` units in every `every_ms`, of which `burst` may come at once.

    A burst above the limit is a bucket that holds more than the time brings back.

    Raises:
        InvalidBudgetError: a part is not above zero, or limit and time have so little in
            common that the exact arithmetic would not fit 64 bits.
    """

    burst: int
    every_ms: int
    ticks_per_ms: int
    ticks_per_unit: int

    def __init__(self, *, limit: int, every_ms: int, burst: int) -> None:
        """Reduce the fraction limit / every_ms."""
        for name, value in (("limits", limit), ("window.every_s", every_ms), ("burst", burst)):
            if value <= 0:
                message = f"{name}: {value} is not above 0"
                raise InvalidBudgetError(message)
        shared = gcd(limit, every_ms)
        if limit // shared > _TICKS_PER_MS_MAX:
            message = f"limits: {limit} in {every_ms} ms is too fine a rate; round the limit"
            raise InvalidBudgetError(message)
        object.__setattr__(self, "burst", burst)
        object.__setattr__(self, "every_ms", every_ms)
        object.__setattr__(self, "ticks_per_ms", limit // shared)
        object.__setattr__(self, "ticks_per_unit", every_ms // shared)

    def level(self, arrival: int, now_ms: int) -> int:
        """Return how many units may pass now; negative when more passed than was held."""
        now = now_ms * self.ticks_per_ms
        return (self.burst * self.ticks_per_unit + now - max(arrival, now)) // self.ticks_per_unit

    def after(self, arrival: int, amount: int, now_ms: int) -> int:
        """Return the arrival time once `amount` more has passed; `amount` may be negative."""
        at = max(arrival, now_ms * self.ticks_per_ms) + amount * self.ticks_per_unit
        return min(max(0, at), ARRIVAL_MAX)

    def wait_ms(self, arrival: int, amount: int, now_ms: int) -> int | None:
        """Return how long until `amount` may pass; None if it never can."""
        if amount > self.burst:
            return None
        now = now_ms * self.ticks_per_ms
        short = max(arrival, now) + (amount - self.burst) * self.ticks_per_unit - now
        return max(0, -(-short // self.ticks_per_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class RateHold:
    """What a call took of a rate: amounts in units, time in the rate's ticks."""

    held: int
    ticks_per_unit: int
    ticks_per_ms: int

    def corrected(self, arrival: int, *, charged: int, elapsed_ms: int) -> int:
        """Return the arrival time once it is known that the call used `charged`.

        What was held and not used comes back only as far as time has not brought it back
        already: given twice, it would let more pass at once than the burst.
        """
        moved = (charged - self.held) * self.ticks_per_unit
        refilled = max(0, elapsed_ms) * self.ticks_per_ms
        left = max(0, self.held * self.ticks_per_unit - refilled)
        return min(max(0, arrival + max(moved, -left)), ARRIVAL_MAX)

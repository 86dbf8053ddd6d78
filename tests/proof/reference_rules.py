"""The kinds of budgets as the reference knows them, in exact fractions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil


class Kind(StrEnum):
    """What a budget's limits mean."""

    ALLOWANCE = "allowance"
    RATE = "rate"
    SLOTS = "slots"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One budget: a level of the chain (0 tenant, 1 agent, 2 session), its limits, its kind.

    An allowance is for ever, for each stretch of `window_ms`, or, where it has `parts`, for the
    last `window_ms`. A rate refills in `window_ms`. Slots are taken by the calls that are live.
    """

    level: int
    limits: Mapping[str, int]
    kind: Kind = Kind.ALLOWANCE
    window_ms: int | None = None
    parts: int | None = None
    burst: int | None = None

    @property
    def has_pace(self) -> bool:
        return self.kind is Kind.RATE or self.parts is not None

    def start_ms(self, unit: str, now_ms: int) -> int:
        """Return the number by which a ledger tells the budget's accounts of a unit apart."""
        if self.kind is Kind.SLOTS:
            return 1
        if self.kind is Kind.RATE:
            # Another scale is another account.
            return -(1 / self.ms_per_unit(unit)).numerator
        if self.window_ms is None:
            return 0
        length_ms = self.window_ms // (self.parts or 1)
        return now_ms // length_ms * length_ms

    def counts(self, start_ms: int, now_ms: int) -> bool:
        """Tell whether what a sliding window booked in its part at `start_ms` counts.

        All does that was booked within its length, before or by a clock that stood ahead.
        """
        assert self.window_ms is not None
        part_ms = self.window_ms // (self.parts or 1)
        return now_ms - self.window_ms - part_ms < start_ms <= now_ms + self.window_ms

    def most_in_a_span(self, unit: str, uses: Sequence[tuple[int, int]]) -> Fraction:
        """Return the most that `uses`, times and amounts, used up at any time.

        That is what the budget promises, whichever way its accounts are kept: in no stretch
        as long as a sliding window more than the limit, in none at all more than the burst
        and what came back meanwhile.
        """
        most, missing, before_ms = Fraction(0), Fraction(0), 0
        in_order = sorted(uses)
        for number, (at_ms, amount) in enumerate(in_order):
            if self.kind is Kind.RATE:
                refilled = (at_ms - before_ms) / self.ms_per_unit(unit)
                missing, before_ms = max(Fraction(0), missing - refilled) + amount, at_ms
            else:
                assert self.window_ms is not None
                since = in_order[: number + 1]
                missing = Fraction(sum(n for ms, n in since if ms > at_ms - self.window_ms))
            most = max(most, missing)
        return most

    def ms_per_unit(self, unit: str) -> Fraction:
        assert self.window_ms is not None
        return Fraction(self.window_ms, self.limits[unit])

    def most_at_once(self, unit: str) -> int:
        return self.burst or self.limits[unit]


@dataclass(frozen=True)
class Taken:
    """What one call took out of a bucket, and when."""

    units: int
    ms_per_unit: Fraction
    at_ms: int


@dataclass
class Bucket:
    """A bucket of tokens that fills at a steady pace, kept as when it is full again."""

    full_at_ms: Fraction = Fraction(0)

    def missing(self, ms_per_unit: Fraction, now_ms: int) -> Fraction:
        return max(Fraction(0), self.full_at_ms - now_ms) / ms_per_unit

    def used(self, ms_per_unit: Fraction, now_ms: int) -> int:
        """Return what is missing; a unit that has begun to come back is not there yet."""
        return ceil(self.missing(ms_per_unit, now_ms))

    def has(self, units: int, ms_per_unit: Fraction, size: int, now_ms: int) -> bool:
        return self.missing(ms_per_unit, now_ms) + units <= size

    def take(self, taken: Taken) -> None:
        self.full_at_ms = max(self.full_at_ms, Fraction(taken.at_ms))
        self.full_at_ms += taken.units * taken.ms_per_unit

    def correct(self, taken: Taken, used: int, now_ms: int) -> None:
        """Book what was used above what was taken; put back what was not, if it is not back."""
        refilled = max(0, now_ms - taken.at_ms) / taken.ms_per_unit
        change = max(used - taken.units, -max(Fraction(0), taken.units - refilled))
        self.full_at_ms = max(Fraction(0), self.full_at_ms + change * taken.ms_per_unit)

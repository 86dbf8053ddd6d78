"""How many retries a provider is sent at the most, all calls together.

While most calls go well, each brings a part of a retry with it and time brings some more. While
most fail, retries end where the calls' own share is spent: a provider that is in trouble gets a
fifth more requests, not three times as many.
"""

from dataclasses import dataclass

_MILLI = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudgetTerms:
    """A bucket of at most `retries_max`, that `percent` of the calls and time fill up."""

    retries_max: int = 10
    percent: int = 20
    per_s: int = 1


class RetryBudget:
    """The retries that are left for one provider; it begins full."""

    __slots__ = ("_at_ms", "_milli", "_terms")

    def __init__(self, terms: RetryBudgetTerms, *, now_ms: int) -> None:
        """Begin with a full bucket."""
        self._terms = terms
        self._milli = terms.retries_max * _MILLI
        self._at_ms = now_ms

    def note_call(self, now_ms: int) -> None:
        """Take note of a call that is made for the first time."""
        self._fill(now_ms, extra=self._terms.percent * _MILLI // 100)

    def take(self, now_ms: int) -> bool:
        """Take one retry if there is one left; tell whether there was."""
        self._fill(now_ms)
        if self._milli < _MILLI:
            return False
        self._milli -= _MILLI
        return True

    def left(self, now_ms: int) -> int:
        """Return how many retries are left now."""
        self._fill(now_ms)
        return self._milli // _MILLI

    def _fill(self, now_ms: int, *, extra: int = 0) -> None:
        # A thousandth of a retry for each millisecond and retry per second.
        passed = max(0, now_ms - self._at_ms) * self._terms.per_s
        self._at_ms = max(self._at_ms, now_ms)
        self._milli = min(self._terms.retries_max * _MILLI, self._milli + passed + extra)

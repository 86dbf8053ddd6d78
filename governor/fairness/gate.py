"""One upstream's gate: how many calls pass at once, at which pace, and who goes next.

It holds the state and takes the time as an argument; whoever drives it waits. A call passes
at once while a slot is free, the pace allows it and nobody waits; it is not charged for that,
because shares matter only where there is a choice.
"""

from dataclasses import dataclass, field

from governor.fairness.adaptive import AdaptiveLimit, Concurrency, Ending
from governor.fairness.claim import Claim
from governor.fairness.pace import Pace, Quota
from governor.fairness.queue import FairQueue, Full, QueueBounds, Queued
from governor.fairness.tree import Stage, Waiting

RETRY_MS_MIN = 250
RETRY_MS_MAX = 60_000
# The average of service times is kept in sixteenths, so that small steps are not lost.
_SIXTEENTHS = 4
_AVERAGE_OVER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GateBounds:
    """The bounds of one gate; a quota makes its upstream a commons."""

    queue: QueueBounds = field(default_factory=QueueBounds)
    concurrency: Concurrency = field(default_factory=Concurrency)
    quota: Quota | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLate:
    """A claim that would not start before its deadline: it would wait about `wait_ms`."""

    wait_ms: int


class Gate:
    """Who may call an upstream now, and who waits."""

    __slots__ = ("_adaptive", "_pace", "_queue", "_service", "in_flight", "terms")

    def __init__(self, terms: GateBounds) -> None:
        """Begin with nothing in flight."""
        self.terms = terms
        self.in_flight = 0
        self._adaptive = AdaptiveLimit(terms.concurrency)
        self._pace = None if terms.quota is None else Pace(terms.quota)
        self._queue = FairQueue(terms.queue)
        self._service = 1 << _SIXTEENTHS

    @property
    def limit(self) -> int:
        """Return how many may be in flight now."""
        return self._adaptive.limit

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return len(self._queue)

    def pass_at_once(self, now_ms: int) -> bool:
        """Take a slot if one is free for whoever comes; False means to wait for one."""
        if self._queue or not self._has_room(now_ms):
            return False
        self._take(now_ms)
        return True

    def wait(self, claim: Claim, now_ms: int) -> Queued | Full | TooLate:
        """Let a claim wait for a slot, or say why it may not."""
        expected_ms = self._expected_ms(self._queue.ahead_of(claim), now_ms)
        if now_ms + expected_ms >= claim.expires_ms:
            return TooLate(wait_ms=expected_ms)
        return self._queue.offer(claim)

    def start_due(self, now_ms: int) -> list[Waiting]:
        """Start those whose turn it is and return them."""
        started: list[Waiting] = []
        while self._queue and self._has_room(now_ms):
            waiting = self._queue.start_next(1 if self._pace else self._service_ms)
            assert waiting is not None, "the queue was not empty"
            self._take(now_ms)
            started.append(waiting)
        return started

    def due_ms(self) -> int | None:
        """Return when the pace lets the next one start; None where only a free slot will."""
        if self._pace is None or not self._queue or self.in_flight >= self.limit:
            return None
        return self._pace.due_ms()

    def observe(self, ending: Ending, *, kind: str, began_ms: int, ended_ms: int) -> bool:
        """Learn from a call's end; tell whether the limit moved."""
        before = self._adaptive.limit
        self._adaptive.observe(
            ending, kind=kind, began_ms=began_ms, ended_ms=ended_ms, in_flight=self.in_flight
        )
        return self._adaptive.limit != before

    def leave(self, waited: Waiting | None, *, held_ms: int) -> None:
        """Give a slot back that was held for `held_ms`; `waited` is None if it came at once."""
        self.in_flight -= 1
        assert self.in_flight >= 0, "a slot is given back once"
        self._service += ((held_ms << _SIXTEENTHS) - self._service) >> _AVERAGE_OVER
        if waited is not None:
            # What is scarce in a commons is calls, elsewhere the time that they take.
            self._queue.end(waited, 1 if self._pace else held_ms)

    def give_up(self, waiting: Waiting) -> None:
        """Take out a claim that no longer waits; one that has started must leave instead."""
        assert waiting.stage is not Stage.STARTED, "what has started holds a slot"
        self._queue.give_up(waiting)

    def retry_after_ms(self, now_ms: int) -> int:
        """Return when asking again makes sense: when about half of the queue is gone."""
        expected = self._expected_ms(len(self._queue) // 2, now_ms)
        return min(RETRY_MS_MAX, max(RETRY_MS_MIN, expected))

    def share_of(self, claim: Claim) -> int | None:
        """Return how many calls a minute of a commons are the claim's agent's; None: no commons."""
        quota = self.terms.quota
        if quota is None:
            return None
        return self._queue.share_of(claim, quota.per_minute)

    @property
    def _service_ms(self) -> int:
        """Return how long a slot is usually held."""
        return max(1, self._service >> _SIXTEENTHS)

    def _has_room(self, now_ms: int) -> bool:
        return self.in_flight < self._adaptive.limit and (
            self._pace is None or self._pace.is_due(now_ms)
        )

    def _take(self, now_ms: int) -> None:
        self.in_flight += 1
        if self._pace is not None:
            self._pace.take(now_ms)

    def _expected_ms(self, ahead: int, now_ms: int) -> int:
        """Return how long it takes until a slot is free behind `ahead` others."""
        by_slots = ahead * self._service_ms // self._adaptive.limit
        if self._pace is None or self.terms.quota is None:
            return by_slots
        by_pace = max(0, self._pace.due_ms() - now_ms)
        return max(by_slots, by_pace + ahead * self.terms.quota.interval_us // 1000)

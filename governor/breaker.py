"""A circuit breaker: whether an upstream that keeps failing is asked at all.

Closed, it counts how calls end. When too large a share of enough calls fails within a stretch
of time it opens: nobody asks until it has cooled down. Then it is half open: one call goes as a
probe and decides. Each failed probe doubles the time to cool down, up to a bound. What was sent
before the last change of phase has no say in it: its news is old.

The phases are a table; time is an argument, any monotonic reading in milliseconds.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

# The window moves in this many steps: what it holds stays small, whatever passes.
_STEPS = 10


class Phase(StrEnum):
    """Whether calls leave: all of them, none, or one to find out."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Sign(StrEnum):
    """What the end of a call says of its upstream: that it answers, that it fails, or nothing."""

    WELL = "well"
    ILL = "ill"
    NOTHING = "nothing"


class Event(StrEnum):
    """What happens to a breaker."""

    TRIPPED = "tripped"
    COOLED = "cooled"
    PROBE_WELL = "probe_well"
    PROBE_ILL = "probe_ill"


NEXT: Mapping[tuple[Phase, Event], Phase] = MappingProxyType(
    {
        (Phase.CLOSED, Event.TRIPPED): Phase.OPEN,
        (Phase.OPEN, Event.COOLED): Phase.HALF_OPEN,
        (Phase.HALF_OPEN, Event.PROBE_WELL): Phase.CLOSED,
        (Phase.HALF_OPEN, Event.PROBE_ILL): Phase.OPEN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerTerms:
    """When a breaker opens, and for how long.

    It opens when `failures_percent` of the calls that ended within `window_ms` failed, and
    these were at least `calls_min`. It stays open for `open_ms`, twice as long after each
    failed probe, at most `open_ms_max`.
    """

    failures_percent: int = 50
    calls_min: int = 10
    window_ms: int = 60_000
    open_ms: int = 5_000
    open_ms_max: int = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """That one call may leave, given in the breaker's `epoch`."""

    epoch: int
    is_probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """That no call may leave now; asking again helps after `retry_after_ms`."""

    retry_after_ms: int


@dataclass(slots=True)
class _Step:
    number: int
    well: int = 0
    ill: int = 0


class Breaker:
    """The breaker of one upstream."""

    __slots__ = ("_cooled_ms", "_epoch", "_probing", "_steps", "_trips", "phase", "terms")

    def __init__(self, terms: BreakerTerms) -> None:
        """Begin closed, with nothing counted."""
        self.terms = terms
        self.phase = Phase.CLOSED
        self._epoch = 0  # how often the phase has changed
        self._trips = 0  # how often it has opened since it was last closed
        self._cooled_ms = 0
        self._probing = False
        self._steps: deque[_Step] = deque()

    def refused(self, now_ms: int) -> Refused | None:
        """Return why a call would not be let through now; this lets none through."""
        match self.phase:
            case Phase.CLOSED:
                return None
            case Phase.OPEN:
                left_ms = self._cooled_ms - now_ms
                return Refused(retry_after_ms=left_ms) if left_ms > 0 else None
            case Phase.HALF_OPEN:
                return Refused(retry_after_ms=self.terms.open_ms) if self._probing else None

    def let_through(self, now_ms: int) -> Permit | Refused:
        """Return a permit, which must be given back with `ended`, or why there is none."""
        refused = self.refused(now_ms)
        if refused is not None:
            return refused
        if self.phase is Phase.CLOSED:
            return Permit(epoch=self._epoch)
        if self.phase is Phase.OPEN:
            self._enter(Event.COOLED)
        self._probing = True
        return Permit(epoch=self._epoch, is_probe=True)

    def ended(self, permit: Permit, sign: Sign, now_ms: int) -> None:
        """Take note of how the call of a permit ended."""
        if permit.epoch != self._epoch:
            return
        if permit.is_probe:
            self._probing = False
            if sign is Sign.WELL:
                self._close()
            elif sign is Sign.ILL:
                self._open(Event.PROBE_ILL, now_ms)
        elif sign is not Sign.NOTHING:
            self._count(sign, now_ms)

    def counted(self, now_ms: int) -> tuple[int, int]:
        """Return how many calls of the window failed, and how many there were."""
        self._forget(now_ms)
        ill = sum(step.ill for step in self._steps)
        return ill, ill + sum(step.well for step in self._steps)

    def _count(self, sign: Sign, now_ms: int) -> None:
        number = self._step_of(now_ms)
        if not self._steps or self._steps[-1].number != number:
            self._steps.append(_Step(number))
        step = self._steps[-1]
        if sign is Sign.WELL:
            step.well += 1
            if len(self._steps) > _STEPS:
                self._forget(now_ms)
            return
        step.ill += 1
        ill, total = self.counted(now_ms)
        if total >= self.terms.calls_min and ill * 100 >= self.terms.failures_percent * total:
            self._open(Event.TRIPPED, now_ms)

    def _open(self, event: Event, now_ms: int) -> None:
        self._enter(event)
        # Beyond some doublings the bound holds anyway; the exponent needs one of its own.
        doubled = self.terms.open_ms << min(self._trips, 32)
        self._cooled_ms = now_ms + min(doubled, self.terms.open_ms_max)
        self._trips += 1

    def _close(self) -> None:
        self._enter(Event.PROBE_WELL)
        self._trips = 0
        self._steps.clear()

    def _enter(self, event: Event) -> None:
        self.phase = NEXT[self.phase, event]
        self._epoch += 1
        self._probing = False

    def _step_of(self, now_ms: int) -> int:
        return now_ms * _STEPS // self.terms.window_ms

    def _forget(self, now_ms: int) -> None:
        oldest = self._step_of(now_ms) - _STEPS
        while self._steps and self._steps[0].number <= oldest:
            self._steps.popleft()

"""How many calls an upstream takes at once, learned from how it answers.

Two signals move the limit. A call that the upstream gave up on (a timeout, a refusal for
overload) cuts it by a factor: multiplicative decrease. Latency moves it before that: where
calls take much longer than calls of the same kind used to, a queue stands in the upstream and
the limit follows the gradient down; where they do not and the limit is in use, it grows.
"""

from dataclasses import dataclass
from enum import StrEnum

from governor.errors import InvalidPolicyError

# A cut is answered by the calls that begin after it: one round trip, one cut.
_CUT = 0.9
_GRADIENT_MIN = 0.5
_SMOOTHING = 0.2
_GROWTH = 4.0
# Latency may double before it means anything: calls of one kind differ among themselves.
_TOLERANCE = 2.0
_LONG_WEIGHT = 1 / 256
_WARM_UP = 16
# Below this a call's time is the machine's scheduling, not the upstream's queue.
_LATENCY_MS_MIN = 10.0
KINDS_MAX = 256


class Adapts(StrEnum):
    """What the limit follows."""

    LATENCY = "latency"
    FAILURES = "failures"
    NOTHING = "nothing"


class Ending(StrEnum):
    """How a call ended, as far as the upstream's load is concerned."""

    ANSWERED = "answered"
    OVERLOADED = "overloaded"
    SAYS_NOTHING = "says_nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """Between which numbers the limit moves, and where it starts.

    Raises:
        InvalidPolicyError: they are not in order, or the smallest lets nothing through.
    """

    start: int = 64
    lowest: int = 16
    highest: int = 512
    adapts: Adapts = Adapts.LATENCY

    def __post_init__(self) -> None:
        """Refuse a limit that nothing could pass."""
        if not 1 <= self.lowest <= self.start <= self.highest:
            raise InvalidPolicyError(
                "concurrency: 1 <= min <= start <= max must hold, not "
                f"min = {self.lowest}, start = {self.start}, max = {self.highest}"
            )


@dataclass(slots=True)
class _Usual:
    """What calls of one kind usually take."""

    ms: float
    seen: int = 1

    @property
    def is_new(self) -> bool:
        """Tell whether too few calls were seen to call anything usual."""
        return self.seen <= _WARM_UP

    def stretch(self, latency_ms: int) -> float:
        """Return how many times the usual a call took, and learn from it."""
        latency = max(_LATENCY_MS_MIN, float(latency_ms))
        self.seen += 1
        self.ms += (latency - self.ms) * (1 / self.seen if self.is_new else _LONG_WEIGHT)
        if latency * _TOLERANCE < self.ms:
            # The usual was learned while the upstream was slow: forget that sooner.
            self.ms *= 0.95
        return latency / self.ms


class AdaptiveLimit:
    """The limit of one upstream: a state machine that is fed with how calls ended."""

    __slots__ = ("_bounds", "_cut_at_ms", "_stretch", "_usual", "_value", "limit")

    def __init__(self, bounds: Concurrency) -> None:
        """Begin where the configuration says."""
        self._bounds = bounds
        self._value = float(bounds.start)
        self._stretch = 1.0
        self._cut_at_ms: int | None = None
        self._usual: dict[str, _Usual] = {}
        self.limit = bounds.start

    def observe(
        self, ending: Ending, *, kind: str, began_ms: int, ended_ms: int, in_flight: int
    ) -> None:
        """Learn from a call of `kind`; `in_flight` counts those that ran when it ended."""
        adapts = self._bounds.adapts
        if adapts is Adapts.NOTHING or ending is Ending.SAYS_NOTHING:
            return
        if ending is Ending.OVERLOADED:
            self._cut(_CUT, began_ms=began_ms, ended_ms=ended_ms)
            return
        gradient = 1.0
        if adapts is Adapts.LATENCY:
            stretch = self._stretch_of(kind, ended_ms - began_ms)
            self._stretch += (stretch - self._stretch) * _SMOOTHING
            gradient = max(_GRADIENT_MIN, min(1.0, _TOLERANCE / self._stretch))
        if gradient < 1.0:
            self._cut(1.0 - (1.0 - gradient) * _SMOOTHING, began_ms=began_ms, ended_ms=ended_ms)
        elif in_flight * 2 >= self.limit:
            # A limit that is not in use has proven nothing, so it does not grow.
            self._set(self._value + _GROWTH * _SMOOTHING)

    def _stretch_of(self, kind: str, latency_ms: int) -> float:
        usual = self._usual.get(kind)
        if usual is None:
            if len(self._usual) >= KINDS_MAX:
                del self._usual[next(iter(self._usual))]
            self._usual[kind] = _Usual(ms=max(_LATENCY_MS_MIN, float(latency_ms)))
            return 1.0
        stretch = usual.stretch(latency_ms)
        return min(stretch, 1.0) if usual.is_new else stretch

    def _cut(self, factor: float, *, began_ms: int, ended_ms: int) -> None:
        if self._cut_at_ms is not None and began_ms < self._cut_at_ms:
            return
        self._cut_at_ms = ended_ms
        self._set(self._value * factor)

    def _set(self, value: float) -> None:
        self._value = min(float(self._bounds.highest), max(float(self._bounds.lowest), value))
        self.limit = int(self._value)

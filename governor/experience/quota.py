"""How much one writer may write into a lane in a window of time, so that none floods the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from governor.experience.kinds import TrustLane

_DAY_MS: Final = 24 * 60 * 60 * 1_000
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLimit:
    """How many experiences and bytes; None is any number."""

    writes_max: int | None = None
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a writer has written into a lane in the present window."""

    writes: int = 0
    bytes: int = 0

    def plus(self, size_bytes: int) -> "Tally":
        """Return the tally after one more write."""
        return Tally(writes=self.writes + 1, bytes=self.bytes + size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """A write that does not fit: which limit, and when there is room again."""

    lane: TrustLane
    unit: str
    limit: int
    used: int
    requested: int
    resets_at_ms: int


LANE_LIMITS: Final[Mapping[TrustLane, LaneLimit]] = MappingProxyType(
    {
        TrustLane.USER: LaneLimit(writes_max=100_000, bytes_max=1024 * _MIB),
        TrustLane.AGENT: LaneLimit(writes_max=100_000, bytes_max=1024 * _MIB),
        TrustLane.TOOL: LaneLimit(writes_max=100_000, bytes_max=4096 * _MIB),
        TrustLane.WEB: LaneLimit(writes_max=20_000, bytes_max=1024 * _MIB),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneQuotas:
    """The limits of each lane, of each writer by itself; a lane without one has no limit."""

    limits: Mapping[TrustLane, LaneLimit] = field(default_factory=lambda: LANE_LIMITS)
    window_ms: int = _DAY_MS

    def window_of(self, now_ms: int) -> int:
        """Return when the window began that `now_ms` is in."""
        return now_ms - now_ms % self.window_ms

    def exceeded(
        self, lane: TrustLane, tally: Tally, size_bytes: int, *, now_ms: int
    ) -> Exceeded | None:
        """Return the limit that one more write would break, None where it fits."""
        limit = self.limits.get(lane, LaneLimit())
        asked = (
            ("writes", limit.writes_max, tally.writes, 1),
            ("bytes", limit.bytes_max, tally.bytes, size_bytes),
        )
        for unit, most, used, requested in asked:
            if most is not None and used + requested > most:
                return Exceeded(
                    lane=lane,
                    unit=unit,
                    limit=most,
                    used=used,
                    requested=requested,
                    resets_at_ms=self.window_of(now_ms) + self.window_ms,
                )
        return None

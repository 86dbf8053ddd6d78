"""The terms that a router works by."""

from dataclasses import dataclass
from enum import StrEnum

from governor.learning.choice import Objective
from governor.learning.online import OnlineTerms


class RouterMode(StrEnum):
    """Who chooses for `auto`: the tier rules unrecorded, the rules on record, what was learned."""

    OFF = "off"
    RULES = "rules"
    LEARNED = "learned"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterTerms:
    """What `[router]` says, in the units that are reckoned in."""

    mode: RouterMode
    objective: Objective
    answer_microusd: float
    target: float
    rate_microusd_per_hour: float | None
    explore_share: float
    has_shadow: bool
    no_exploration_for: tuple[str, ...]
    online: OnlineTerms
    trusted_reporters: frozenset[str]
    retention_ms: int

    @property
    def price(self) -> float:
        """Return what a micro-dollar counts, in quality, while nothing is short."""
        return 1.0 / self.answer_microusd

"""Which tier to take: the best for the money, and now and again another one to learn from.

Pure: what is believed of the tiers, what a micro-dollar counts, and the dice are arguments. The
answer is a probability for each tier, so that whoever reads the log knows what could have been.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from governor.learning.bandit import Vector, thompson_shares

Mask = npt.NDArray[np.bool_]
# Of what is explored, so much goes to each tier alike; the rest goes where the doubt is.
EVEN_SHARE = 0.5
# From so many rated calls on, a tier is known, and less is explored; never less than a quarter.
KNOWN_FROM = 200.0
_SHARE_LEFT = 0.25
# An exploration upwards must leave room for so many calls as dear.
_ROOM_CALLS = 20


class Objective(StrEnum):
    """What the best tier is."""

    VALUE = "value"
    """The most quality after what it costs, money counting more as budgets burn."""
    TARGET = "target"
    """The cheapest that is expected to reach a quality; if none is, the best."""
    RATE = "rate"
    """The most quality within a rate of spending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is believed of a tier that could serve the call; `cost_max` is what would be held."""

    tier: str
    quality: float
    spread: float
    cost_microusd: float
    cost_max_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceTerms:
    """What counts: `price` is what a micro-dollar counts, in quality."""

    objective: Objective
    price: float
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """How much may be explored: a share of the calls, and what the purse has left for it.

    `left_microusd` is None without a budget of money.
    """

    share: float
    left_microusd: int | None


NO_EXPLORATION = Exploration(share=0.0, left_microusd=None)


def preferred(options: Sequence[Option], terms: ChoiceTerms) -> int:
    """Return the place of the best option; of equals the one that costs less."""
    if terms.objective is Objective.TARGET:
        reaching = [at for at, one in enumerate(options) if one.quality >= terms.target]
        if reaching:
            return min(reaching, key=lambda at: options[at].cost_microusd)
        return max(range(len(options)), key=lambda at: options[at].quality)
    values = [one.quality - terms.price * one.cost_microusd for one in options]
    return max(range(len(options)), key=lambda at: (values[at], -options[at].cost_microusd))


def affordable(options: Sequence[Option], left_microusd: int | None) -> list[int]:
    """Return the places of what the purse can hold; all of them if it can hold none."""
    if left_microusd is None:
        return list(range(len(options)))
    held = [at for at, one in enumerate(options) if one.cost_max_microusd <= left_microusd]
    return held or list(range(len(options)))


def share_left(share: float, evidence: Sequence[float]) -> float:
    """Return how much of a share is still worth exploring, by the tier that is known least."""
    least = min(evidence, default=0.0)
    if least <= 0.0:
        return share
    return share * min(1.0, max(_SHARE_LEFT, KNOWN_FROM / (KNOWN_FROM + 3.0 * least)))


def propensities(
    options: Sequence[Option], best: int, exploration: Exploration, normals: Vector
) -> Vector:
    """Return how probable each option is to be taken; they add up to one.

    `normals` are standard normal draws, a column for each option; where there are none, what is
    explored goes to all alike.
    """
    chances = np.zeros(len(options))
    chances[best] = 1.0
    may = _explorable(options, best, exploration)
    if exploration.share <= 0.0 or not may.any():
        return chances
    even = may / may.sum()
    doubt = even
    if len(normals):
        quality = np.array([one.quality for one in options])
        spread = np.array([one.spread for one in options])
        wins = thompson_shares(quality, spread, normals) * may
        doubt = wins / wins.sum() if wins.sum() > 0 else even
    chances *= 1.0 - exploration.share
    chances += exploration.share * (EVEN_SHARE * even + (1.0 - EVEN_SHARE) * doubt)
    return chances


def drawn(chances: Vector, dice: float) -> int:
    """Return the option that `dice`, a number from 0 to below 1, falls on."""
    at = int(np.searchsorted(np.cumsum(chances), dice, side="right"))
    return min(at, int(np.flatnonzero(chances)[-1]))


def _explorable(options: Sequence[Option], best: int, exploration: Exploration) -> Mask:
    """Tell which options may be tried: any other one, but a dearer one only if there is room."""
    left = exploration.left_microusd
    usual = options[best].cost_max_microusd
    return np.array(
        [
            at != best
            and (
                left is None
                or one.cost_max_microusd <= usual
                or one.cost_max_microusd * _ROOM_CALLS <= left
            )
            for at, one in enumerate(options)
        ]
    )

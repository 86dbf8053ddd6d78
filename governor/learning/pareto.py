"""Which tiers are worth having: the Pareto set of quality and cost, with how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from governor.learning.offpolicy import LikelyValue


class Standing(StrEnum):
    """What is known of a tier among the others.

    A doubtful one is worse and no cheaper as far as is known, but the intervals overlap; of an
    unknown one too little was tried to say.
    """

    EFFICIENT = "efficient"
    DOMINATED = "dominated"
    DOUBTFUL = "doubtful"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the answers of a tier are worth and cost."""

    quality: LikelyValue
    cost_microusd: LikelyValue


@dataclass(frozen=True, slots=True, kw_only=True)
class TierEvidence:
    """What is known of a tier from `n` answers; None where that is too little to say."""

    tier: str
    n: int
    figures: Figures | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How a tier stands; `by` names the tier that is better, where there is one."""

    evidence: TierEvidence
    standing: Standing
    by: str | None = None


def judged(tiers: Sequence[TierEvidence]) -> tuple[Judged, ...]:
    """Return how each tier stands among the others, in their order."""
    known = {tier.tier: tier.figures for tier in tiers if tier.figures is not None}
    return tuple(_judged(tier, known) for tier in tiers)


def _judged(tier: TierEvidence, known: dict[str, Figures]) -> Judged:
    own = tier.figures
    if own is None:
        return Judged(evidence=tier, standing=Standing.UNKNOWN)
    better = {name: one for name, one in known.items() if _dominates(one, own)}
    if not better:
        return Judged(evidence=tier, standing=Standing.EFFICIENT)
    sure = {name: one for name, one in better.items() if _surely(one, own)}
    standing = Standing.DOMINATED if sure else Standing.DOUBTFUL
    among = sure or better
    best = max(among, key=lambda name: among[name].quality.value)
    return Judged(evidence=tier, standing=standing, by=best)


def _dominates(one: Figures, other: Figures) -> bool:
    """Tell whether a tier is at least as good and no dearer, and not the same in both."""
    better = one.quality.value - other.quality.value
    cheaper = other.cost_microusd.value - one.cost_microusd.value
    return better >= 0 and cheaper >= 0 and (better > 0 or cheaper > 0)


def _surely(one: Figures, other: Figures) -> bool:
    """Tell whether the intervals leave no doubt."""
    is_no_dearer = one.cost_microusd.high <= other.cost_microusd.low
    return is_no_dearer and one.quality.low >= other.quality.high

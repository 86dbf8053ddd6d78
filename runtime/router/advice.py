"""Which tiers are worth having, from the log or from recorded outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from governor.learning.offpolicy import LikelyValue, Logged, on_policy
from governor.learning.pareto import Figures, Judged, Standing, TierEvidence, judged
from runtime.router.off_policy import (
    RATED_MIN,
    RatedDecision,
    always,
    estimate_json,
    values_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """How the tiers stand, from so many decisions or prompts of a source."""

    source: str
    n: int
    tiers: tuple[Judged, ...]
    too_thin: str

    def shape(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "source": self.source,
            "n": self.n,
            "pareto": [
                one.evidence.tier for one in self.tiers if one.standing is Standing.EFFICIENT
            ],
            "tiers": [_tier_json(one) for one in self.tiers],
            "too_thin": self.too_thin,
        }


def advice_of(rated: Sequence[RatedDecision], configured: Sequence[str]) -> Advice:
    """Return how tiers stand by the log: what each would be worth if it took every call."""
    names = list(dict.fromkeys([*configured, *(tier for one in rated for tier in one.options)]))
    known: dict[str, Figures] = {}
    if len(rated) >= RATED_MIN:
        for value in values_of(rated, {tier: always(tier) for tier in names}):
            if value.is_known:
                known[value.name] = Figures(
                    quality=value.quality, cost_microusd=value.cost_microusd
                )
    taken = {name: sum(one.tier == name for one in rated) for name in names}
    tiers = judged(
        [TierEvidence(tier=name, n=taken[name], figures=known.get(name)) for name in names]
    )
    return Advice(source="log", n=len(rated), tiers=tiers, too_thin=_thin(len(rated), names, known))


def advice_of_outcomes(
    scores: Mapping[str, Sequence[float]], costs_microusd: Mapping[str, Sequence[float]]
) -> Advice:
    """Return how tiers stand by recorded outcomes: every tier's answers, row by row."""
    tiers = judged(
        [
            TierEvidence(
                tier=tier,
                n=len(of_tier),
                figures=Figures(quality=_mean(of_tier), cost_microusd=_mean(costs_microusd[tier]))
                if len(of_tier) >= RATED_MIN
                else None,
            )
            for tier, of_tier in scores.items()
        ]
    )
    n = max((one.evidence.n for one in tiers), default=0)
    known = {one.evidence.tier for one in tiers if one.evidence.figures is not None}
    return Advice(source="outcomes", n=n, tiers=tiers, too_thin=_thin(n, list(scores), known))


def _mean(values: Sequence[float]) -> LikelyValue:
    """Return the mean of independent values with its interval."""
    rewards = np.array(values, dtype=np.float64)
    ones = np.ones_like(rewards)
    return on_policy(
        Logged(
            rewards=rewards,
            propensities=ones,
            targets=ones,
            modelled=rewards,
            modelled_policy=rewards,
            groups=np.arange(len(rewards)),
        )
    )


def _thin(n: int, names: Sequence[str], known: Mapping[str, Figures] | set[str]) -> str:
    if n < RATED_MIN:
        return (
            f"{n} rated calls are too few to say anything, {RATED_MIN} are needed; report outcomes "
            "with POST /v1/outcomes"
        )
    unknown = [name for name in names if name not in known]
    if not unknown:
        return ""
    return (
        f"{', '.join(unknown)}: taken too seldom to say; raise router.explore_percent, or give "
        "--outcomes FILE"
    )


def _tier_json(one: Judged) -> dict[str, object]:
    figures = one.evidence.figures
    return {
        "tier": one.evidence.tier,
        "n": one.evidence.n,
        "standing": one.standing.value,
        "dominated_by": one.by,
        "quality": None if figures is None else estimate_json(figures.quality),
        "cost_microusd": None if figures is None else estimate_json(figures.cost_microusd),
    }

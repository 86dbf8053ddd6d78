"""What the log says that other ways to choose would have earned: models, fixed tiers, the dice."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite

import numpy as np
import numpy.typing as npt

from governor.learning.likeness import Rows
from governor.learning.offpolicy import (
    LikelyValue,
    Logged,
    Vector,
    doubly_robust,
    gain,
    ips,
    on_policy,
    snips,
)
from governor.learning.online import Word, capped_weights
from governor.learning.verdict import Verdict
from memory_store.router_log import LoggedDecision
from runtime.router.predictor import RouterModel
from runtime.router.written import WrittenError, WrittenOption, options_of, unpacked

# What tools tell is too weak to judge a policy by.
WEIGHT_MIN = 0.2
# Fewer rated decisions than this, or fewer that count, and nothing is said.
RATED_MIN = 40
EFFECTIVE_MIN = 20.0
COVERED_MIN = 0.5
_FOLDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedDecision:
    """A decision whose worth is known: between what, at which price, and what came of it.

    `model` is the one that chose, None where the rules did. `weight` is by how much of a decision
    it counts. `speaker` is the agent whose own word it is, None where somebody who is trusted has
    spoken.
    """

    call_id: str
    session: str
    decided_at_ms: int
    tier: str
    options: Mapping[str, WrittenOption]
    features: Rows
    price: float
    score: float
    cost_microusd: float
    shadow_model: str | None
    shadow_tier: str | None
    weight: float = 1.0
    speaker: str | None = None
    model: str | None = None

    @property
    def usual(self) -> str:
        """Return the tier that whoever chose thought best."""
        return max(self.options, key=lambda name: self.options[name].propensity)


Policy = Callable[[RatedDecision], Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyValue:
    """What a way to choose would have earned for each decision.

    `value` is the quality after what it cost, at the price of each decision. `covered` is the
    share of the decisions in which the log could have done what this way does.
    """

    name: str
    value: LikelyValue
    snips: LikelyValue
    ips: LikelyValue
    quality: LikelyValue
    cost_microusd: LikelyValue
    gain: LikelyValue | None

    @property
    def is_known(self) -> bool:
        """Tell whether the log is enough to say so."""
        return self.value.effective >= EFFECTIVE_MIN and self.value.covered >= COVERED_MIN


def rated_of(
    logged: Sequence[LoggedDecision], *, influence_per_day: float = inf
) -> list[RatedDecision]:
    """Return the decisions whose worth is known well enough; what cannot be read is left out.

    One agent's own words of a day count no more than `influence_per_day` all together.
    """
    known = [
        (one, one.verdict)
        for one in logged
        if one.verdict is not None and one.verdict.weight >= WEIGHT_MIN
    ]
    weights = capped_weights(
        [
            Word(
                agent=one.decision.agent,
                decided_at_ms=one.decision.decided_at_ms,
                weight=verdict.weight,
                is_trusted=verdict.is_trusted,
            )
            for one, verdict in known
        ],
        per_day=influence_per_day,
    )
    found = [
        _rated(one, verdict, weight) for (one, verdict), weight in zip(known, weights, strict=True)
    ]
    return [one for one in found if one is not None]


def _rated(logged: LoggedDecision, verdict: Verdict, weight: float) -> RatedDecision | None:
    decision = logged.decision
    try:
        options, features = options_of(decision.options), unpacked(decision.features)
    except WrittenError:
        return None
    chosen = options.get(decision.tier)
    if chosen is None or chosen.propensity <= 0:
        return None
    cost = None if logged.end is None else logged.end.cost_microusd
    return RatedDecision(
        call_id=decision.call_id,
        session=decision.session,
        decided_at_ms=decision.decided_at_ms,
        tier=decision.tier,
        options=options,
        features=features,
        price=decision.price,
        score=verdict.score,
        cost_microusd=chosen.cost_microusd if cost is None else float(cost),
        shadow_model=decision.shadow_model,
        shadow_tier=decision.shadow_tier,
        weight=weight,
        speaker=None if verdict.is_trusted else decision.agent,
        model=decision.model,
    )


def as_logged(one: RatedDecision) -> Mapping[str, float]:
    """Choose what whoever chose thought best, and explore nothing."""
    return {one.usual: 1.0}


def at_random(one: RatedDecision) -> Mapping[str, float]:
    """Choose any tier alike."""
    return {tier: 1.0 / len(one.options) for tier in one.options}


def always(tier: str) -> Policy:
    """Return the way that takes one tier wherever it can, and else what was thought best."""
    return lambda one: {tier if tier in one.options else one.usual: 1.0}


def by_model(model: RouterModel) -> Policy:
    """Return the way of a model by itself: the most quality after its cost."""

    def choose(one: RatedDecision) -> Mapping[str, float]:
        tiers = model.forecast(one.features).tiers
        known = [name for name in one.options if name in tiers]
        if not known:
            return {one.usual: 1.0}
        best = max(
            known, key=lambda name: tiers[name].quality - one.price * tiers[name].cost_microusd
        )
        return {best: 1.0}

    return choose


def values_of(rated: Sequence[RatedDecision], policies: Mapping[str, Policy]) -> list[PolicyValue]:
    """Return what each way would have earned; the first one is what the others are held against.

    At least one decision must be given.
    """
    worth = _Worth(rated)
    held_against: Logged | None = None
    values = []
    for name, policy in policies.items():
        chances = [policy(one) for one in rated]
        logged = worth.of(chances, worth.utilities)
        covered = worth.covered(chances)
        difference = None
        if held_against is None:
            held_against = logged
        else:
            difference = gain(logged, held_against)
        values.append(
            PolicyValue(
                name=name,
                value=replace(doubly_robust(logged), covered=covered),
                snips=snips(logged),
                ips=ips(logged),
                quality=doubly_robust(worth.of(chances, worth.scores)),
                cost_microusd=doubly_robust(worth.of(chances, worth.costs)),
                gain=difference,
            )
        )
    return values


def earned(rated: Sequence[RatedDecision]) -> LikelyValue:
    """Return what was earned in fact, what was explored included."""
    worth = _Worth(rated)
    return on_policy(worth.of([{one.tier: 1.0} for one in rated], worth.utilities))


class _Worth:
    """The decisions as columns, with what each tier is worth on average to lean upon."""

    def __init__(self, rated: Sequence[RatedDecision]) -> None:
        self._rated = rated
        self.scores = np.array([one.score for one in rated])
        self.costs = np.array([one.cost_microusd for one in rated])
        self.utilities = self.scores - np.array([one.price for one in rated]) * self.costs
        self._propensities = np.array([one.options[one.tier].propensity for one in rated])
        self._sessions = _numbered([one.session for one in rated])
        self._groups = _numbered(_groups(rated))
        self._counts = np.array([one.weight for one in rated])

    def of(self, chances: Sequence[Mapping[str, float]], rewards: Vector) -> Logged:
        """Return the log for a policy whose probabilities are given, and these rewards."""
        means = self._means(rewards)
        rows = range(len(self._rated))
        targets = [chances[row].get(self._rated[row].tier, 0.0) for row in rows]
        modelled = [means[row][self._rated[row].tier] for row in rows]
        expected = [
            sum(chance * means[row].get(tier, 0.0) for tier, chance in chances[row].items())
            for row in rows
        ]
        return Logged(
            rewards=rewards,
            propensities=self._propensities,
            targets=np.array(targets),
            modelled=np.array(modelled),
            modelled_policy=np.array(expected),
            groups=self._groups,
            counts=self._counts,
        )

    def covered(self, chances: Sequence[Mapping[str, float]]) -> float:
        """Return how much of what a policy does the log could have done as well."""
        shares = [
            sum(
                chance
                for tier, chance in wanted.items()
                if tier in one.options and one.options[tier].propensity > 0
            )
            for wanted, one in zip(chances, self._rated, strict=True)
        ]
        return float(np.average(shares, weights=self._counts))

    def _means(self, rewards: Vector) -> list[Mapping[str, float]]:
        """Return for each decision what each tier earned in the sessions of the other fold.

        From others, or a decision would bear witness for itself.
        """
        folds = self._sessions % _FOLDS
        of_fold = [self._tier_means(rewards, folds != fold) for fold in range(_FOLDS)]
        return [of_fold[fold] for fold in folds]

    def _tier_means(self, rewards: Vector, used: Vector) -> Mapping[str, float]:
        known = used if used.any() else np.ones_like(used)
        usual = float(np.average(rewards[known], weights=self._counts[known]))
        tiers = {tier for one in self._rated for tier in one.options}
        means = dict.fromkeys(tiers, usual)
        taken = np.array([one.tier for one in self._rated])
        weights = self._counts / self._propensities
        for tier in tiers:
            of_tier = used & (taken == tier)
            if of_tier.any():
                means[tier] = float(np.average(rewards[of_tier], weights=weights[of_tier]))
        return means


def _groups(rated: Sequence[RatedDecision]) -> list[tuple[str, str]]:
    """Return what hangs together: the calls of a session, and all that an agent says itself.

    Where one agent alone has spoken there is nobody whom it could mislead.
    """
    sessions = [("session", one.session) for one in rated]
    speakers = {one.speaker for one in rated}
    if len(speakers) == 1:
        return sessions
    return [
        session if one.speaker is None else ("agent", one.speaker)
        for session, one in zip(sessions, rated, strict=True)
    ]


def _numbered(names: Sequence[Hashable]) -> npt.NDArray[np.int64]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def estimate_json(estimate: LikelyValue, *, is_known: bool = True) -> dict[str, object]:
    """Return an estimate as it is shown; what is not known of it is null."""
    bounds = (estimate.low, estimate.high)
    return {
        "value": round(estimate.value, 6) if is_known else None,
        "ci95": [round(bound, 6) if is_known and isfinite(bound) else None for bound in bounds],
        "n": estimate.n,
        "effective": round(estimate.effective, 1),
        "covered": round(estimate.covered, 3),
    }

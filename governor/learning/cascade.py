"""When a cheap answer is worth checking first, and when a better tier is worth asking after it.

The question is always the same: is what is expected to be gained worth more than it costs? A
cascade pays twice for each query that it escalates, and those are the queries that cost most
at the better tier too, so in dollars it loses to a single call more often than its share of
calls suggests. So what happened is counted in the terms in which a cascade is paid: how often
its draft is kept, how often a kept draft and an escalated answer are good, and what each cost.
"""

from dataclasses import dataclass, replace

from governor.learning.averages import UNSEEN, Average
from governor.learning.strategy import Strategy

# What checks are taken for before any outcome was seen: they keep most of the good drafts,
# and half of the bad ones.
_KEPT_IF_GOOD = 0.85
_KEPT_IF_BAD = 0.5
# How many queries a prior counts as.
_PRIOR_WEIGHT = 8.0
_FORGETS = 0.999
# Until so many outcomes were seen a cascade is tried by what is expected of it; after that it
# has to be better by what the seen may be wrong by.
_OUTCOMES_TRIED = 30.0
# How far a better tier is above its own average where a worse one was right.
_EASY = 0.5
CHANCE_MAX = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A tier as it is expected to serve this query: how likely well, and at what cost."""

    chance: float
    cost_microusd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeSeen:
    """What cascades of one class came to so far; each average starts from nothing."""

    kept: Average = UNSEEN
    good_if_kept: Average = UNSEEN
    good_if_climbed: Average = UNSEEN
    draft_microusd: Average = UNSEEN
    climb_microusd: Average = UNSEEN

    def paid(
        self, *, was_kept: bool, draft_microusd: int, climb_microusd: int | None
    ) -> "CascadeSeen":
        """Return what is seen after one more cascade; a climb that was refused has no cost."""
        seen = replace(
            self,
            kept=self.kept.noted(float(was_kept), kept=_FORGETS),
            draft_microusd=self.draft_microusd.noted(draft_microusd, kept=_FORGETS),
        )
        if climb_microusd is None:
            return seen
        return replace(
            seen, climb_microusd=self.climb_microusd.noted(climb_microusd, kept=_FORGETS)
        )

    def scored(self, *, was_kept: bool, score: float) -> "CascadeSeen":
        """Return what is seen after the outcome of a cascade became known."""
        if was_kept:
            return replace(self, good_if_kept=self.good_if_kept.noted(score, kept=_FORGETS))
        return replace(self, good_if_climbed=self.good_if_climbed.noted(score, kept=_FORGETS))

    @property
    def may_be_off(self) -> float:
        """Return by how much of an answer the seen quality may be wrong: its standard error."""
        outcomes = self.good_if_kept.weight + self.good_if_climbed.weight
        return 0.5 / outcomes**0.5 if outcomes >= _OUTCOMES_TRIED else 0.0


NOTHING_SEEN = CascadeSeen()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to answer: by which strategy, from which rung, what is expected of it, and why."""

    strategy: Strategy
    start: int
    utility_microusd: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """Whether the next rung is asked, with what was expected of it."""

    is_worth_it: bool
    gain_microusd: float
    cost_microusd: int
    why: str


def good_after_bad(draft_chance: float, next_chance: float) -> float:
    """Return how likely the next rung is right where the draft was wrong.

    Queries are hard for both, so a better tier does worse there than its average says; how much
    follows from what it does where the draft was right.
    """
    after_good = min(next_chance + _EASY * (1.0 - next_chance), CHANCE_MAX)
    if draft_chance >= CHANCE_MAX:
        return next_chance
    rest = (next_chance - draft_chance * after_good) / (1.0 - draft_chance)
    return min(max(rest, 0.0), next_chance)


def plan_for(
    rungs: tuple[Rung, ...],
    *,
    check_microusd: int,
    value_microusd: int,
    seen: CascadeSeen = NOTHING_SEEN,
) -> Plan:
    """Return the best way to answer: one call of some rung, or a cascade from the first.

    `rungs` stand from cheap to dear; `value_microusd` is what a good answer is worth, and
    `check_microusd` what the checks of a draft cost. A cascade has to be better than every
    single call by more than chance, not as good.
    """
    assert rungs, "there is a tier to ask"
    worth = [value_microusd * rung.chance - rung.cost_microusd for rung in rungs]
    best = max(range(len(rungs)), key=lambda place: (worth[place], -place))
    single = Plan(
        strategy=Strategy.SINGLE,
        start=best,
        utility_microusd=worth[best],
        why=f"a single call is worth {worth[best]:.0f} micro-dollars",
    )
    if len(rungs) == 1:
        return single
    utility = cascade_utility(
        rungs[0], rungs[-1], check_microusd=check_microusd, value_microusd=value_microusd, seen=seen
    )
    if utility - value_microusd * seen.may_be_off <= worth[best]:
        return replace(single, why=f"{single.why}, a cascade {utility:.0f}")
    return Plan(
        strategy=Strategy.CASCADE,
        start=0,
        utility_microusd=utility,
        why=f"a cascade is worth {utility:.0f} micro-dollars, a single call {worth[best]:.0f}",
    )


def cascade_utility(
    low: Rung, high: Rung, *, check_microusd: int, value_microusd: int, seen: CascadeSeen
) -> float:
    """Return what a cascade of two rungs is expected to be worth, less what it costs."""
    good, bad = low.chance, 1.0 - low.chance
    kept = good * _KEPT_IF_GOOD + bad * _KEPT_IF_BAD
    kept_good = good * _KEPT_IF_GOOD / kept if kept > 0 else 0.0
    wrong_if_climbed = bad * (1.0 - _KEPT_IF_BAD) / (1.0 - kept) if kept < 1 else 1.0
    climbed_good = wrong_if_climbed * good_after_bad(low.chance, high.chance) + (
        1.0 - wrong_if_climbed
    ) * min(high.chance + _EASY * (1.0 - high.chance), CHANCE_MAX)
    kept = _blended(kept, seen.kept)
    quality = kept * _blended(kept_good, seen.good_if_kept) + (1.0 - kept) * _blended(
        climbed_good, seen.good_if_climbed
    )
    draft = _blended(low.cost_microusd + check_microusd, seen.draft_microusd)
    climb = _blended(high.cost_microusd, seen.climb_microusd)
    return value_microusd * quality - draft - (1.0 - kept) * climb


def check_is_worth(
    belief: float,
    *,
    best: float,
    worst: float,
    next_rung: Rung,
    draft_chance: float,
    value_microusd: int,
    check_microusd: int,
) -> bool:
    """Tell whether a check that leaves `best` or `worst` of a belief pays for itself.

    It pays by turning the decision that would be taken without it: that happens with the
    chance that leaves the belief where it is on average, and saves what the decision was
    wrong by.
    """

    def net(chance: float) -> float:
        climb = climb_from(
            chance,
            next_rung,
            draft_chance=draft_chance,
            value_microusd=value_microusd,
            left_microusd=None,
        )
        return climb.gain_microusd - climb.cost_microusd

    if best <= worst:
        return False
    up = min(max((belief - worst) / (best - worst), 0.0), 1.0)
    climbs = net(belief) > 0
    turned, chance = (best, up) if climbs else (worst, 1.0 - up)
    at_turn = net(turned)
    if (at_turn > 0) == climbs:
        return False
    return chance * abs(at_turn) > check_microusd


def climb_from(
    belief: float,
    next_rung: Rung,
    *,
    draft_chance: float,
    value_microusd: int,
    left_microusd: int | None,
) -> Climb:
    """Return whether the next rung is worth asking after an answer that is good by `belief`.

    `draft_chance` was expected of the answer before it was seen, `left_microusd` is what the
    tightest budget still affords; None is without a bound.
    """
    after_good = min(next_rung.chance + _EASY * (1.0 - next_rung.chance), CHANCE_MAX)
    after_bad = good_after_bad(draft_chance, next_rung.chance)
    expected = belief * after_good + (1.0 - belief) * after_bad
    gain = value_microusd * (expected - belief)
    cost = next_rung.cost_microusd
    if left_microusd is not None and cost > left_microusd:
        why = f"the next tier may cost {cost} micro-dollars and {left_microusd} are left"
        return Climb(is_worth_it=False, gain_microusd=gain, cost_microusd=cost, why=why)
    is_worth_it = gain > cost
    word = "is" if is_worth_it else "is not"
    why = f"a gain of {gain:.0f} micro-dollars {word} worth {cost}"
    return Climb(is_worth_it=is_worth_it, gain_microusd=gain, cost_microusd=cost, why=why)


def _blended(prior: float, seen: Average) -> float:
    """Return an average that starts from what was expected."""
    return (prior * _PRIOR_WEIGHT + seen.mean * seen.weight) / (_PRIOR_WEIGHT + seen.weight)

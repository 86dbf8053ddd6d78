"""Quality at matched spend: a stream of prompts routed under a budget that must last."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from governor.learning.linear import Matrix
from governor.learning.pacing import Purse
from runtime.evaluate.router.certainty import Claimed
from runtime.evaluate.router.plans import (
    CASCADES,
    DIRECT,
    MIXTURE,
    Averages,
    Trial,
    View,
    best_trial,
    terms_of,
)

_SHARES = (0.1, 0.2, 0.3, 0.5, 0.7)
_RUNGS = 6
# A call's cost is known only once it is made: what the last ones cost above their forecast must
# still be within the budget.
_RESERVE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a stream that one model foretells, with the training rows it was learned from."""

    train: View
    train_scores: Matrix
    train_costs: Matrix
    test: View
    test_scores: Matrix
    test_costs: Matrix
    claimed: Claimed

    def averages(self) -> Averages:
        """Return what the tiers are on average in the training rows."""
        return Averages(scores=self.train_scores.mean(axis=0), costs=self.train_costs.mean(axis=0))

    def step(self) -> float:
        """Return what the next dearer tier costs more than the cheapest one; 0 if none does."""
        costs = self.averages().costs
        above = costs - costs.min()
        return float(min(above[above > 0], default=0.0))

    def trials(self) -> list[Trial]:
        """Return the ways of choosing, tried on the training rows; the mixture first."""
        plans = [MIXTURE, *DIRECT, *(CASCADES if self.train.later_quality is not None else ())]
        return [
            Trial(plan, self.train, self.averages(), self.train_scores, self.train_costs)
            for plan in plans
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What a stream scored and cost row by row, and which ways of choosing were used."""

    scores: Matrix
    costs: Matrix
    plans: tuple[str, ...]


def budgets_of(costs: Matrix, scores: Matrix) -> list[float]:
    """Return mean costs to compare at: between the cheapest tier and the best one.

    Two tiers are compared at shares of the dollars between them. More tiers lie apart by orders
    of magnitude, so their budgets rise in equal ratios.
    """
    means = costs.mean(axis=0)
    low, best = float(means.min()), float(means[int(scores.mean(axis=0).argmax())])
    high = best if best > low else float(means.max())
    if high <= low:
        return [high]
    if len(means) == 2 or low <= 0:  # noqa: PLR2004 - a pair
        return [low + share * (high - low) for share in _SHARES]
    return [float(budget) for budget in np.geomspace(low, high, _RUNGS + 1)[1:]]


def streamed(
    stretches: Sequence[tuple[Stretch, list[Trial]]], budget: float, *, seed: int, lot: float
) -> Streamed:
    """Return what becomes of a stream when a prompt may cost `budget` on average.

    What is left in the end is mostly a part of a dearer call. `lot`, a number from 0 to below 1,
    is the part that is given beyond the budget to make it a whole one: over all lots, as much is
    spent as the budget allows.
    """
    total = sum(len(stretch.test_scores) for stretch, _ in stretches)
    beyond = lot * stretches[0][0].step()
    purse = Purse(left=budget * total * (1.0 - _RESERVE) + beyond, calls_left=total)
    dice = np.random.default_rng(seed).random(total)
    scores: list[float] = []
    costs: list[float] = []
    plans: list[str] = []
    for stretch, trials in stretches:
        trial = best_trial(trials, budget)
        plans.append(trial.plan.name)
        averages = stretch.averages()
        terms = terms_of(trial.plan, stretch.test, averages)
        expected = terms.cost + (averages.costs[0] if trial.plan.cascades else 0.0)
        for at in range(len(stretch.test_scores)):
            price = trial.curve.price_for(purse.rate(), dice[len(scores)])
            tier = int((terms.quality[at] - price * terms.cost[at]).argmax())
            if not _affords(purse, expected[at, tier], averages.costs[0]):
                tier = 0
            cost = stretch.test_costs[at, tier]
            if trial.plan.cascades and tier:
                cost += stretch.test_costs[at, 0]
            purse = purse.after(cost)
            scores.append(stretch.test_scores[at, tier])
            costs.append(cost)
    return Streamed(scores=np.array(scores), costs=np.array(costs), plans=tuple(plans))


def _affords(purse: Purse, expected: float, cheapest: float) -> bool:
    """Tell whether the calls to come could still go to the cheapest tier after such a one."""
    return expected + cheapest * (purse.calls_left - 1) <= purse.left

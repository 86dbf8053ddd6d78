"""How a tier is chosen once prompts are foretold, and which way of choosing held up in training.

A way of choosing is judged on the training rows, each foretold by a model that had not seen it.
Only one that beats the best mixture of fixed tiers there, by more than chance would, is used at
all: else it is the mixture. That is the gate by which routing does no harm.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.learning.linear import Matrix
from governor.learning.pacing import PriceCurve, candidate_prices, price_curve

Taken = npt.NDArray[np.int64]
# A way must win by so many standard errors: enough to pass over noise, little enough to let
# a small gain through that more rows would have shown.
CAUTION = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A way of choosing.

    `trust` is how far what is foretold of a prompt counts against what tiers are on average.
    With `knows_costs` a prompt's own cost counts, else the tier's average. With `cascades` the
    cheapest tier runs first and what is seen of its run is used.
    """

    name: str
    trust: float
    knows_costs: bool
    cascades: bool


MIXTURE = Plan(name="mixture", trust=0.0, knows_costs=False, cascades=False)
DIRECT = (
    Plan(name="routed", trust=1.0, knows_costs=True, cascades=False),
    Plan(name="routed, half", trust=0.5, knows_costs=True, cascades=False),
    Plan(name="routed, tier prices", trust=1.0, knows_costs=False, cascades=False),
    Plan(name="cheap prompts first", trust=0.0, knows_costs=True, cascades=False),
)
CASCADES = (
    Plan(name="cascade", trust=1.0, knows_costs=True, cascades=True),
    Plan(name="cascade, half", trust=0.5, knows_costs=True, cascades=True),
    Plan(name="cascade, cheap first", trust=0.0, knows_costs=True, cascades=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is foretold of rows, the tiers in the order of their mean cost.

    `later_quality` and `later_cost` are what is foretold once the first tier has run; they are
    None where nothing is seen of a run.
    """

    quality: Matrix
    cost: Matrix
    later_quality: Matrix | None
    later_cost: Matrix | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Averages:
    """What the tiers score and cost on average in the training rows."""

    scores: Matrix
    costs: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a plan weighs for each row: quality against what is still to pay."""

    quality: Matrix
    cost: Matrix

    def taken(self, price: float) -> Taken:
        """Return the tier that each row goes to; of equals the first, which is the cheaper."""
        taken: Taken = (self.quality - price * self.cost).argmax(axis=1)
        return taken


def terms_of(plan: Plan, view: View, averages: Averages) -> Terms:
    """Return what a plan weighs."""
    if plan.cascades:
        assert view.later_quality is not None, "a cascade needs what is seen of a run"
        assert view.later_cost is not None, "a cascade needs what is seen of a run"
        quality, cost = view.later_quality, view.later_cost.copy()
        cost[:, 0] = 0.0  # that run is paid
    else:
        quality, cost = view.quality, view.cost
    shape = np.ones((len(quality), 1))
    return Terms(
        quality=averages.scores + plan.trust * (quality - averages.scores),
        cost=cost if plan.knows_costs else shape * averages.costs,
    )


def paid(plan: Plan, taken: Taken, costs: Matrix) -> Matrix:
    """Return what rows cost in the tiers they went to, a first run included."""
    found: Matrix = costs[np.arange(len(taken)), taken]
    return found + (costs[:, 0] * (taken != 0) if plan.cascades else 0.0)


class Trial:
    """How a plan does on the training rows at each price of money."""

    def __init__(
        self, plan: Plan, view: View, averages: Averages, scores: Matrix, costs: Matrix
    ) -> None:
        """Take what was foretold of the rows unseen, and what became of them."""
        self.plan = plan
        terms = terms_of(plan, view, averages)
        prices = candidate_prices(terms.quality, terms.cost)
        taken = [terms.taken(price) for price in prices]
        spends = iter([float(paid(plan, each, costs).mean()) for each in taken])
        self.curve: PriceCurve = price_curve(prices, lambda _: next(spends))
        self._values = [scores[np.arange(len(scores)), each] for each in taken]

    def values(self, budget: float) -> Matrix:
        """Return what each row scores on average when a row may cost `budget` on average."""
        low, high, share = self.curve.between(budget)
        return share * self._values[low] + (1 - share) * self._values[high]


def best_trial(trials: list[Trial], budget: float) -> Trial:
    """Return the trial to use at a budget: the first, unless another is surely better."""
    first = trials[0]
    plain, best, most = first.values(budget), first, 0.0
    for trial in trials[1:]:
        gain = trial.values(budget) - plain
        sure = float(gain.mean() - CAUTION * gain.std() / len(gain) ** 0.5)
        if sure > most:
            best, most = trial, sure
    return best

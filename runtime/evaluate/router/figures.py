"""The figures by which routers are compared: APGR, CPT, mixtures, the oracle, their intervals.

APGR and CPT are RouteLLM's: the share of the gap between two tiers that is recovered, averaged
over all shares of calls to the better tier, and the share of such calls that recovers so much.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.learning.linear import Matrix
from governor.learning.mixtures import best_mixture
from governor.learning.pacing import candidate_prices

Interval = tuple[float, float]
_RESAMPLES = 400
_PERCENT = 100.0
_GAP_MIN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How much of the gap a ranking recovers; None where the tiers have no gap."""

    apgr: float | None
    cpt50: float | None
    cpt80: float | None


NO_RECOVERY = Recovery(apgr=None, cpt50=None, cpt80=None)


def recovery(ranking: Matrix, weak: Matrix, strong: Matrix) -> Recovery:
    """Return what is recovered when the rows that rank highest go to the better tier first."""
    gap = float(strong.mean() - weak.mean())
    if gap < _GAP_MIN:
        return NO_RECOVERY
    order = np.argsort(-ranking, kind="stable")
    recovered = np.concatenate([[0.0], np.cumsum((strong - weak)[order])]) / (len(weak) * gap)
    apgr = float((recovered[1:] + recovered[:-1]).mean() / 2)
    return Recovery(apgr=apgr, cpt50=_first(recovered, 0.5), cpt80=_first(recovered, 0.8))


def _first(recovered: Matrix, share: float) -> float:
    """Return the percent of calls to the better tier at which a share is first recovered."""
    at = int(np.argmax(recovered >= share - _GAP_MIN))
    return _PERCENT * at / (len(recovered) - 1)


def ranks(values: Matrix, *, seed: int) -> Matrix:
    """Return the ranks of values from 0 to 1, equal ones in an order drawn by lot.

    Files are often sorted by subject: an order by line would rank what no value tells apart.
    """
    lot = np.random.default_rng(seed).random(len(values))
    found = np.empty(len(values))
    found[np.lexsort((lot, values))] = np.arange(len(values)) / max(1, len(values) - 1)
    return found


def bootstrap(
    statistic: Callable[[npt.NDArray[np.int64]], float | None], rows: int, *, seed: int
) -> Interval | None:
    """Return the 95 % interval of a statistic of rows, resampled with replacement."""
    chance = np.random.default_rng(seed)
    drawn = [statistic(chance.integers(0, rows, rows)) for _ in range(_RESAMPLES)]
    known = [value for value in drawn if value is not None]
    if len(known) < _RESAMPLES // 2:
        return None
    low, high = np.quantile(known, (0.025, 0.975))
    return float(low), float(high)


def mixture_scores(costs: Matrix, scores: Matrix, budget: float) -> Matrix:
    """Return what each row scores on average in the best mixture of fixed tiers within a cost."""
    shares = best_mixture(costs.mean(axis=0), scores.mean(axis=0), budget)
    found: Matrix = scores @ shares
    return found


def oracle_score(costs: Matrix, scores: Matrix, budget: float) -> float:
    """Return what one who knows every outcome scores within a mean cost."""
    rows, best, spent_before, score_before = np.arange(len(scores)), 0.0, None, 0.0
    for price in candidate_prices(scores, costs)[::-1]:
        taken = (scores - price * costs).argmax(axis=1)
        spent, score = costs[rows, taken].mean(), scores[rows, taken].mean()
        if spent <= budget:
            best = max(best, float(score))
            spent_before, score_before = spent, score
        elif spent_before is not None:
            part = (budget - spent_before) / (spent - spent_before)
            return max(best, float(score_before + part * (score - score_before)))
    return best

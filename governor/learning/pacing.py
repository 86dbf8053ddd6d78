"""The price of money: what a unit of money must bring in quality, so that a budget lasts.

At a price of zero the best is always taken; the dearer money is, the less is spent. How much is
spent at each price is known from prompts that were seen, so the price for a rate of spending can
be looked up. A budget is paced by asking anew before each call with what is left for each of the
calls to come: a stretch of dear calls raises the price of those behind it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from governor.learning.linear import Matrix

_PRICES_MAX = 160
_TINY = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceCurve:
    """Prices that rise, and what a call costs on average at each, which never rises."""

    prices: Matrix
    spends: Matrix

    def between(self, spend: float) -> tuple[int, int, float]:
        """Return the places of two prices, and how often to take the first, to spend so much."""
        spends = self.spends
        at = int(np.searchsorted(-spends, -spend, side="left"))
        if at == 0:
            return 0, 0, 1.0
        if at == len(spends):
            return at - 1, at - 1, 1.0
        return at - 1, at, float((spend - spends[at]) / (spends[at - 1] - spends[at]))

    def price_for(self, spend: float, dice: float) -> float:
        """Return a price at which calls cost `spend` on average.

        Where two prices enclose that, `dice`, a number from 0 to below 1, falls on one of them:
        so a budget between two tiers is used up even if nothing tells prompts apart.
        """
        low, high, share = self.between(spend)
        return float(self.prices[low if dice < share else high])


def candidate_prices(quality: Matrix, cost: Matrix) -> Matrix:
    """Return prices between which the choice changes for some rows: zero first, then rising."""
    found = []
    for one in range(quality.shape[1]):
        for other in range(quality.shape[1]):
            gain, dearer = quality[:, other] - quality[:, one], cost[:, other] - cost[:, one]
            turns = (gain > 0) & (dearer > _TINY)
            found.append(gain[turns] / dearer[turns])
    turning = np.unique(np.concatenate(found)) if found else np.zeros(0)
    if not len(turning):
        return np.zeros(1)
    if len(turning) > _PRICES_MAX:
        turning = np.unique(np.quantile(turning, np.linspace(0, 1, _PRICES_MAX)))
    middles = np.sqrt(turning[1:] * turning[:-1])
    return np.concatenate([[0.0, turning[0] / 2], middles, [turning[-1] * 2]])


def price_curve(prices: Matrix, spend_at: Callable[[float], float]) -> PriceCurve:
    """Return the curve of what is spent at these prices, which rise."""
    spends = np.array([spend_at(float(price)) for price in prices])
    return PriceCurve(prices=prices, spends=np.minimum.accumulate(spends))


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """A budget for a number of calls, of which some were made."""

    left: float
    calls_left: int

    def rate(self) -> float:
        """Return what each call to come may cost on average."""
        return max(0.0, self.left) / max(1, self.calls_left)

    def after(self, paid: float) -> "Purse":
        """Return the purse after one call more."""
        return Purse(left=self.left - paid, calls_left=self.calls_left - 1)

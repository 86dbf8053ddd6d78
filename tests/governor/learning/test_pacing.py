"""Money has a price that makes a budget last, and tiers can always be mixed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.learning.mixtures import best_mixture
from governor.learning.pacing import Purse, candidate_prices, price_curve

QUALITY = np.array([[0.5, 0.9], [0.5, 0.6], [0.5, 0.4]])
COST = np.array([[1.0, 3.0], [1.0, 3.0], [1.0, 3.0]])


def spend_at(price: float) -> float:
    taken = (QUALITY - price * COST).argmax(axis=1)
    return float(COST[np.arange(3), taken].mean())


@given(spend=st.floats(1.0, 7 / 3))
def test_a_price_is_found_for_every_rate_of_spending(spend: float) -> None:
    curve = price_curve(candidate_prices(QUALITY, COST), spend_at)

    low, high, share = curve.between(spend)

    assert share * curve.spends[low] + (1 - share) * curve.spends[high] == pytest.approx(spend)
    dice = (np.arange(100) + 0.5) / 100
    mean = np.mean([spend_at(curve.price_for(spend, float(one))) for one in dice])
    assert mean == pytest.approx(spend, abs=0.02)


def test_without_a_budget_the_best_is_taken_and_without_money_the_cheapest() -> None:
    curve = price_curve(candidate_prices(QUALITY, COST), spend_at)

    assert spend_at(curve.price_for(100.0, 0.5)) == pytest.approx(7 / 3)
    assert spend_at(curve.price_for(0.0, 0.5)) == pytest.approx(1.0)


def test_a_purse_says_what_each_call_to_come_may_cost() -> None:
    purse = Purse(left=10.0, calls_left=4).after(7.0)

    assert purse.rate() == pytest.approx(1.0)
    assert purse.after(5.0).rate() == 0.0


def test_a_mixture_passes_over_a_tier_that_is_dominated() -> None:
    costs, scores = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.4, 0.9])

    assert best_mixture(costs, scores, 2.0).tolist() == [0.5, 0.0, 0.5]
    assert best_mixture(costs, scores, 0.1).tolist() == [1.0, 0.0, 0.0]
    assert best_mixture(costs, scores, 9.0).tolist() == [0.0, 0.0, 1.0]

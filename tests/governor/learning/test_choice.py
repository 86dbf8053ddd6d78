"""Which tier is taken: the best for the money, and how much is explored, where."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.learning.burn import multiple_of_burn, paced
from governor.learning.choice import (
    NO_EXPLORATION,
    ChoiceTerms,
    Exploration,
    Objective,
    Option,
    affordable,
    drawn,
    preferred,
    propensities,
    share_left,
)

FEW = np.zeros((0, 3))


def option(name: str, quality: float, cost: float, *, held: int | None = None) -> Option:
    return Option(
        tier=name,
        quality=quality,
        spread=0.1,
        cost_microusd=cost,
        cost_max_microusd=round(2 * cost) if held is None else held,
    )


TIERS = (option("low", 0.6, 10), option("mid", 0.7, 100), option("high", 0.9, 1_000))


def terms(objective: Objective, *, price: float = 0.0, target: float = 0.0) -> ChoiceTerms:
    return ChoiceTerms(objective=objective, price=price, target=target)


@pytest.mark.parametrize(("price", "best"), [(0.0, "high"), (0.0005, "mid"), (0.01, "low")])
def test_the_dearer_money_is_the_cheaper_the_tier(price: float, best: str) -> None:
    assert TIERS[preferred(TIERS, terms(Objective.VALUE, price=price))].tier == best


@pytest.mark.parametrize(
    ("target", "best"), [(0.5, "low"), (0.65, "mid"), (0.8, "high"), (1, "high")]
)
def test_the_cheapest_that_reaches_the_target_is_taken_else_the_best(
    target: float, best: str
) -> None:
    assert TIERS[preferred(TIERS, terms(Objective.TARGET, target=target))].tier == best


def test_what_a_purse_cannot_hold_is_not_taken_unless_it_can_hold_nothing() -> None:
    assert affordable(TIERS, 250) == [0, 1]
    assert affordable(TIERS, None) == affordable(TIERS, 1) == [0, 1, 2]


@pytest.mark.requirement("router.explores-within-bounds")
@given(
    best=st.integers(0, 2),
    share=st.floats(0, 0.5),
    left=st.one_of(st.none(), st.integers(0, 100_000)),
    seed=st.integers(0, 1_000),
)
def test_no_more_than_the_share_is_explored_and_probabilities_add_up(
    best: int, share: float, left: int | None, seed: int
) -> None:
    normals = np.random.default_rng(seed).standard_normal((16, 3))

    chances = propensities(TIERS, best, Exploration(share=share, left_microusd=left), normals)

    assert chances.sum() == pytest.approx(1.0)
    assert (chances >= 0).all()
    assert chances[best] >= 1.0 - share - 1e-9


@pytest.mark.requirement("router.explores-within-bounds")
def test_nothing_dearer_is_tried_when_the_purse_is_short() -> None:
    short = propensities(TIERS, 1, Exploration(share=0.2, left_microusd=3_000), FEW)
    full = propensities(TIERS, 1, Exploration(share=0.2, left_microusd=100_000), FEW)

    assert short.tolist() == pytest.approx([0.2, 0.8, 0.0])
    assert full.tolist() == pytest.approx([0.1, 0.8, 0.1])


def test_without_exploration_the_best_is_certain() -> None:
    assert propensities(TIERS, 2, NO_EXPLORATION, FEW).tolist() == [0.0, 0.0, 1.0]


def test_what_is_drawn_has_its_probability() -> None:
    chances = np.array([0.1, 0.0, 0.9])
    dice = np.random.default_rng(0).random(4_000)

    counts = np.bincount([drawn(chances, float(one)) for one in dice], minlength=3) / 4_000

    assert counts == pytest.approx([0.1, 0.0, 0.9], abs=0.03)
    assert drawn(chances, 0.9999999999999999) == 2


def test_less_is_explored_of_what_is_known() -> None:
    shares = [share_left(0.1, [evidence, 500.0]) for evidence in (0.0, 50.0, 200.0, 10_000.0)]

    assert shares[0] == 0.1
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(0.025)


def test_money_counts_more_as_a_budget_burns_too_fast() -> None:
    def multiple(used: int, left_ms: int | None) -> float:
        window = None if left_ms is None else 1_000
        return multiple_of_burn(used=used, limit=100, window_ms=window, left_ms=left_ms)

    assert multiple(20, 500) == multiple(50, 500) == multiple(40, None) == 1.0
    assert multiple(80, 500) == pytest.approx(2.56)
    assert multiple(75, None) == pytest.approx(2.0)
    assert multiple(100, 500) == multiple(200, None) == 64.0


def test_a_quiet_time_makes_money_count_no_less_than_usual() -> None:
    multiple = 1.0
    for _ in range(500):
        multiple = paced(multiple, spent_per_hour=0.0, rate_per_hour=100.0, step=0.05)

    assert multiple == 1.0


def test_spending_is_steered_to_its_rate() -> None:
    multiple = 1.0
    for _ in range(500):
        # Whoever is charged twice as much buys half of it.
        spent = 300.0 / multiple
        multiple = paced(multiple, spent_per_hour=spent, rate_per_hour=100.0, step=0.05)

    assert 300.0 / multiple == pytest.approx(100.0, rel=0.05)

"""Off-policy estimates: right on average, intervals that hold, and what the log cannot say."""

import numpy as np
import pytest

from governor.learning.offpolicy import (
    LikelyValue,
    Logged,
    doubly_robust,
    effective,
    gain,
    ips,
    on_policy,
    snips,
    t_95,
)

REPLAYS = 300
ROWS = 400


def log_of(seed: int, *, modelled: float, wrong_propensities: bool = False) -> tuple[Logged, float]:
    """Return a log of two tiers, and what always taking the second one is worth in truth."""
    dice = np.random.default_rng(seed)
    hard = dice.random(ROWS) < 0.5
    # Whoever chose took the strong tier mostly where it is needed.
    strong_chance = np.where(hard, 0.7, 0.1)
    strong = dice.random(ROWS) < strong_chance
    worth = np.where(strong, np.where(hard, 0.8, 0.9), np.where(hard, 0.2, 0.9))
    rewards = (dice.random(ROWS) < worth).astype(float)
    propensities = np.where(strong, strong_chance, 1 - strong_chance)
    if wrong_propensities:
        propensities = np.full(ROWS, 0.5)
    truth = np.where(hard, 0.8, 0.9)
    return (
        Logged(
            rewards=rewards,
            propensities=propensities,
            targets=strong.astype(float),
            modelled=modelled * np.where(strong, truth, worth),
            modelled_policy=modelled * truth,
            groups=np.arange(ROWS),
        ),
        0.85,
    )


@pytest.mark.requirement("router.off-policy")
@pytest.mark.parametrize("estimator", [ips, snips, doubly_robust])
def test_estimates_are_right_on_average_and_their_intervals_hold(estimator: object) -> None:
    assert callable(estimator)
    found: list[LikelyValue] = [estimator(log_of(seed, modelled=0.5)[0]) for seed in range(REPLAYS)]

    mean = float(np.mean([one.value for one in found]))
    spread = float(np.std([one.value for one in found])) / REPLAYS**0.5
    held = float(np.mean([one.low <= 0.85 <= one.high for one in found]))
    # Four standard errors of the mean; nineteen in twenty, give or take what 300 replays scatter.
    assert mean == pytest.approx(0.85, abs=4 * spread + 0.004)
    assert held > 0.88


@pytest.mark.requirement("router.off-policy")
def test_a_right_model_saves_what_wrong_propensities_spoil() -> None:
    spoilt = [log_of(seed, modelled=1.0, wrong_propensities=True)[0] for seed in range(REPLAYS)]

    robust = float(np.mean([doubly_robust(one).value for one in spoilt]))
    plain = float(np.mean([ips(one).value for one in spoilt]))

    assert robust == pytest.approx(0.85, abs=0.01)
    assert abs(plain - 0.85) > 0.1


def test_what_was_earned_in_fact_needs_no_weights() -> None:
    logged, _ = log_of(1, modelled=0.0)

    assert on_policy(logged).value == pytest.approx(float(logged.rewards.mean()))
    assert on_policy(logged).effective == pytest.approx(ROWS)


def test_the_gain_of_a_policy_over_itself_is_nothing_without_doubt() -> None:
    logged, _ = log_of(2, modelled=0.5)

    found = gain(logged, logged)

    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_a_policy_that_the_log_never_followed_counts_for_nothing() -> None:
    logged, _ = log_of(3, modelled=0.5)
    never = Logged(
        rewards=logged.rewards,
        propensities=logged.propensities,
        targets=np.zeros(ROWS),
        modelled=logged.modelled,
        modelled_policy=logged.modelled_policy,
        groups=logged.groups,
    )

    assert snips(never).effective == 0.0
    assert doubly_robust(never).effective == 0.0


def test_calls_of_one_session_count_less_than_as_many_sessions() -> None:
    dice = np.random.default_rng(4)
    sessions = dice.random(20) < 0.5
    rewards = np.repeat(sessions.astype(float), 20)
    ones = np.ones(400)
    alone = Logged(
        rewards=rewards, propensities=ones, targets=ones, modelled=ones, modelled_policy=ones,
        groups=np.arange(400),
    )  # fmt: skip
    together = Logged(
        rewards=rewards, propensities=ones, targets=ones, modelled=ones, modelled_policy=ones,
        groups=np.repeat(np.arange(20), 20),
    )  # fmt: skip

    def width(found: LikelyValue) -> float:
        return found.high - found.low

    assert width(on_policy(together)) > 3 * width(on_policy(alone))


@pytest.mark.parametrize(
    ("freedom", "known"),
    [(0.2, 12.706), (1, 12.706), (4, 2.776), (6, 2.447), (10, 2.228), (39, 2.023), (1e6, 1.96)],
)
def test_what_few_have_shown_is_less_sure(freedom: float, known: float) -> None:
    assert t_95(freedom) == pytest.approx(known, rel=0.002)


def test_a_group_that_makes_up_most_of_the_spread_makes_nothing_sure() -> None:
    ones = np.ones(100)
    rewards = np.concatenate([np.full(60, 1.0), np.tile([0.0, 0.1], 20)])
    one_speaks = np.concatenate([np.zeros(60), np.arange(1, 41)]).astype(np.int64)
    logged = Logged(
        rewards=rewards, propensities=ones, targets=ones, modelled=ones, modelled_policy=ones,
        groups=one_speaks,
    )  # fmt: skip

    found = on_policy(logged)

    assert found.value == pytest.approx(0.62)
    assert found.low < 0


@pytest.mark.requirement("router.off-policy")
def test_intervals_hold_where_little_was_explored() -> None:
    held = []
    for seed in range(REPLAYS):
        dice = np.random.default_rng(seed)
        taken = dice.random(1_000) < 0.025
        rewards = (dice.random(1_000) < 0.9).astype(float)
        found = doubly_robust(
            Logged(
                rewards=rewards,
                propensities=np.where(taken, 0.025, 0.975),
                targets=taken.astype(float),
                modelled=np.full(1_000, 0.9),
                modelled_policy=np.full(1_000, 0.9),
                groups=np.arange(1_000),
            )
        )
        held.append(found.low <= 0.9 <= found.high)

    # The normal quantile holds it in less than nine of ten.
    assert float(np.mean(held)) > 0.9


def test_one_heavy_weight_says_as_much_as_one_decision() -> None:
    assert effective(np.array([100.0, 1.0, 1.0])) < 1.1
    assert effective(np.ones(7)) == pytest.approx(7)

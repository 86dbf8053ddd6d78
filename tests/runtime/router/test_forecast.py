from dataclasses import dataclass

from governor.learning.averages import UsualTokens
from runtime.router.forecast import ClassForecaster, FittedForecaster, query_class
from tests.runtime.router.rounds_bench import request, tier

TIERS = (tier("low"), tier("high", usd_per_mtok=20))


@dataclass(frozen=True)
class Told:
    quality: float
    quality_sd: float
    cost_microusd: float


def test_where_nothing_was_seen_a_later_tier_is_taken_for_better_and_costs_its_price() -> None:
    low, high = ClassForecaster(UsualTokens()).forecast(request(), TIERS, task_class=None)

    assert low.chance < high.chance
    assert high.cost_microusd == 20 * low.cost_microusd


def test_outcomes_move_what_is_expected_and_make_it_surer() -> None:
    forecaster = ClassForecaster(UsualTokens())
    key = query_class(request(), TIERS[0].name, task_class=None)
    before = forecaster.forecast(request(), TIERS, task_class=None)[0]
    for _ in range(100):
        forecaster.scored(key, 1.0)

    after = forecaster.forecast(request(), TIERS, task_class=None)[0]

    assert after.chance > before.chance + 0.2
    assert after.spread < before.spread


def test_only_so_many_classes_are_remembered() -> None:
    forecaster = ClassForecaster(UsualTokens(), classes_max=1)
    key = query_class(request(), TIERS[0].name, task_class=None)
    for _ in range(100):
        forecaster.scored(key, 0.0)

    forecaster.scored("another", 1.0)

    assert forecaster.forecast(request(), TIERS, task_class=None)[0].chance == 0.6


def test_what_a_model_was_fitted_to_goes_before_averages_and_they_stand_in_for_the_rest() -> None:
    averages = ClassForecaster(UsualTokens())
    plain = averages.forecast(request(), TIERS, task_class=None)

    told = FittedForecaster(lambda _: {"high": Told(1.2, 0.1, 77.4)}, averages)
    none = FittedForecaster(lambda _: None, averages)

    low, high = told.forecast(request(), TIERS, task_class=None)
    assert low == plain[0]
    assert (high.chance, high.spread, high.cost_microusd) == (1.0, 0.1, 77)
    assert none.forecast(request(), TIERS, task_class=None) == plain

"""What plans are made of, and what they are expected to take."""

import pytest

from governor.experience.search import MemoryTier
from governor.experience.stages import PLANS, STAGES, UNMEASURED, Plan, Price, Stage, plan_of


@pytest.mark.requirement("memory.tiers")
def test_every_stage_has_a_way_for_each_tier_and_dearer_tiers_take_longer() -> None:
    """Each of the five stages can be done cheaply, as usual, or as well as can be."""
    for stage in Stage:
        ways = STAGES[stage]
        assert set(ways) == set(MemoryTier)
        assert ways[MemoryTier.LOW].price.latency_us <= ways[MemoryTier.MID].price.latency_us
        assert ways[MemoryTier.MID].price.latency_us < ways[MemoryTier.HIGH].price.latency_us


@pytest.mark.parametrize("tier", list(MemoryTier))
def test_a_named_tier_does_all_stages_alike_where_its_words_are_not_touched(
    tier: MemoryTier,
) -> None:
    """A caller who says `high` gets the best of everything, who says `low` the cheapest."""
    plan = plan_of(tier)

    assert plan.retrieve is tier
    assert plan.rerank is tier
    assert plan.filter is tier


def test_only_the_plan_that_asks_a_model_needs_one() -> None:
    """Without a model tier the sentences of the text itself are taken."""
    assert [name for name, plan in PLANS.items() if plan.needs_model] == ["high"]
    assert not PLANS["high"].without_model().needs_model
    assert PLANS["mid"].without_model() == PLANS["mid"]


def test_what_was_measured_takes_over_from_what_was_believed() -> None:
    """One odd measurement moves a price a little, many move it to where they are."""
    plan = PLANS["low"]
    believed = UNMEASURED.of(plan).latency_us
    measured = Price(latency_us=50_000.0)

    once = UNMEASURED.noted(Stage.RETRIEVE, MemoryTier.LOW, measured)
    often = UNMEASURED
    for _ in range(300):
        often = often.noted(Stage.RETRIEVE, MemoryTier.LOW, measured)

    assert believed < once.of(plan).latency_us < 15_000
    assert often.of(plan).latency_us > 40_000


def test_a_way_is_measured_for_every_plan_that_takes_it() -> None:
    """What `retrieve` was seen to take at one tier is not asked for again plan by plan."""
    prices = UNMEASURED
    for _ in range(100):
        prices = prices.noted(Stage.EXPAND, MemoryTier.MID, Price(token_share=3.0))

    def shown(plan: Plan) -> float:
        return prices.of(plan).token_share

    assert shown(PLANS["mid_neighbours"]) > 1.5 * UNMEASURED.of(PLANS["mid_neighbours"]).token_share
    assert shown(PLANS["mid"]) == UNMEASURED.of(PLANS["mid"]).token_share

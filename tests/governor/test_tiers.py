import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.ids import TierName
from governor.pricing import ModelPrice
from governor.tiers import ModelTier, PromptFacts, TierRule, choose_tier


def tier(name: str) -> ModelTier:
    return ModelTier(
        name=TierName(name),
        provider="house",
        model=f"model-{name}",
        price=None,
        output_tokens_max=100,
    )


LOW, HIGH = tier("low"), tier("high")
TIERS = (LOW, HIGH)
PLAIN = PromptFacts(text="hello", chars=5, has_tools=False)


@pytest.mark.requirement("price.never-favours-caller")
@given(
    inputs=st.integers(0, 10**9),
    outputs=st.integers(0, 10**9),
    price=st.builds(
        ModelPrice,
        input_microusd_per_mtok=st.integers(0, 10**9),
        output_microusd_per_mtok=st.integers(0, 10**9),
    ),
)
def test_a_price_is_exact_or_rounded_up_by_less_than_one(
    inputs: int, outputs: int, price: ModelPrice
) -> None:
    cost = price.cost_microusd(input_tokens=inputs, output_tokens=outputs)

    exact_in_millionths = (
        inputs * price.input_microusd_per_mtok + outputs * price.output_microusd_per_mtok
    )
    assert 0 <= cost * 1_000_000 - exact_in_millionths < 1_000_000


@pytest.mark.requirement("price.never-favours-caller")
def test_the_smallest_paid_call_costs_something() -> None:
    price = ModelPrice(input_microusd_per_mtok=1, output_microusd_per_mtok=0)

    assert price.cost_microusd(input_tokens=1, output_tokens=0) == 1
    assert price.cost_microusd(input_tokens=0, output_tokens=5) == 0


def test_a_tier_is_chosen_by_its_name_then_by_its_model() -> None:
    by_name = choose_tier("high", TIERS, (), PLAIN)
    by_model = choose_tier("model-high", TIERS, (), PLAIN)

    assert by_name is not None
    assert by_model is not None
    assert by_name.tier == by_model.tier == HIGH
    assert by_name.why != by_model.why


def test_nothing_serves_a_name_that_nobody_has() -> None:
    assert choose_tier("huge", TIERS, (), PLAIN) is None
    assert choose_tier("auto", (), (), PLAIN) is None


def test_auto_takes_the_first_rule_that_covers_else_the_first_tier() -> None:
    rules = (
        TierRule(tier=TierName("gone"), keywords=("prove",)),
        TierRule(tier=TierName("high"), keywords=("prove",)),
    )

    proving = choose_tier("auto", TIERS, rules, PromptFacts(text="Prove", chars=5, has_tools=False))
    plain = choose_tier("auto", TIERS, rules, PLAIN)

    assert proving is not None
    assert (proving.tier, proving.why) == (HIGH, "rule 2")
    assert plain is not None
    assert (plain.tier, plain.why) == (LOW, "default tier")


@pytest.mark.parametrize(
    ("rule", "covers"),
    [
        (TierRule(tier=TierName("high")), True),
        (TierRule(tier=TierName("high"), prompt_chars_min=5), True),
        (TierRule(tier=TierName("high"), prompt_chars_min=6), False),
        (TierRule(tier=TierName("high"), has_tools=False), True),
        (TierRule(tier=TierName("high"), has_tools=True), False),
        (TierRule(tier=TierName("high"), keywords=("x", "ell")), True),
        (TierRule(tier=TierName("high"), keywords=("x",)), False),
        (TierRule(tier=TierName("high"), prompt_chars_min=6, keywords=("ell",)), False),
    ],
)
def test_every_condition_that_a_rule_gives_must_hold(rule: TierRule, *, covers: bool) -> None:
    assert rule.covers(PLAIN) is covers

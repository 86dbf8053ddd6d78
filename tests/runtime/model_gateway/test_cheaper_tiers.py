"""What `auto` does where the tier of the rules is too dear: the next cheaper one answers."""

import pytest

from governor.amounts import Unit
from governor.call import CallStatus
from governor.ids import TierName
from governor.tiers import TierRule
from tests.runtime.model_gateway.bench import House, open_house, price, tier

pytestmark = pytest.mark.anyio

COST = Unit.COST_MICROUSD
TIERS = (
    tier("low"),
    tier("middle", model="medium-1", priced=price(input_usd=10, output_usd=20)),
    tier("high", model="large-1", priced=price(input_usd=100, output_usd=200)),
)
RULES = (TierRule(tier=TierName("high"), keywords=("prove",)),)
PASSED = "rule 1 passed over: too dear for what is left"


async def held_by(house: House, model: str) -> int:
    """Return what a chat at a tier is held for."""
    await house.chat("prove it", model=model)
    held = house.record.estimate.of(COST)
    house.requests.clear()
    house.ledger.records.clear()
    return held


@pytest.mark.requirement("model.auto-goes-cheaper")
@pytest.mark.parametrize("taken", ["middle", "low"])
async def test_auto_goes_on_to_the_next_cheaper_tier_that_can_be_paid(taken: str) -> None:
    async with open_house(tiers=TIERS, rules=RULES) as house:
        held = await held_by(house, taken)
        house.budget(cost_microusd=held + 20)
        response = await house.chat("prove it", model="auto")

        flyball = response.json()["flyball"]
        assert (response.status_code, flyball["tier"], flyball["why"]) == (200, taken, PASSED)
        records = house.ledger.records
        assert [record.status for record in records[:-1]] == [CallStatus.DENIED] * (
            len(records) - 1
        )
        assert len({record.call_id for record in records}) == len(records)
        assert (await house.ledger.spent())[1] == 0


async def test_rather_than_a_few_tokens_of_a_dear_tier_auto_gives_all_of_a_cheaper_one() -> None:
    async with open_house(tiers=TIERS, rules=RULES) as house:
        held = await held_by(house, "high")
        house.budget(cost_microusd=held - 60 * 200)
        cut = await house.chat("prove it", model="high")
        auto = await house.chat("prove it", model="auto")

    assert cut.json()["flyball"]["clamped"]["output_tokens_max"] < 64
    assert auto.json()["flyball"]["tier"] == "middle"
    assert "clamped" not in auto.json()["flyball"]


async def test_whoever_names_a_tier_is_not_given_another() -> None:
    async with open_house(tiers=TIERS, rules=RULES) as house:
        house.budget(cost_microusd=await held_by(house, "low"))
        response = await house.chat("prove it", model="high")

    assert response.status_code == 429
    assert "Its size is the cause" in response.json()["error"]["message"]
    assert len(house.ledger.records) == 1


async def test_where_no_tier_can_be_paid_the_cheapest_says_what_is_wanting() -> None:
    async with open_house(tiers=TIERS, rules=RULES) as house:
        house.budget(cost_microusd=3)
        response = await house.chat("prove it", model="auto")

    flyball = response.json()["flyball"]
    assert (response.status_code, flyball["tier"]) == (429, "low")
    assert [leg["tier"] for leg in flyball["fallback_after"]] == ["high", "middle"]
    assert "fallback_denial" not in flyball


async def test_a_denial_names_the_output_with_which_the_call_would_run() -> None:
    async with open_house(tiers=TIERS) as house:
        held = await held_by(house, "low")
        house.budget(cost_microusd=held - 2 * 90)
        denied = await house.chat("prove it", model="low")
        lowered = await house.chat("prove it", model="low", max_completion_tokens=10)

    assert denied.status_code == 429
    assert "max_completion_tokens 10 or lower" in denied.json()["error"]["message"]
    assert lowered.status_code == 200


async def test_what_is_short_besides_money_keeps_auto_from_other_tiers() -> None:
    async with open_house(tiers=TIERS, rules=RULES) as house:
        house.budget(turns=0)
        response = await house.chat("prove it", model="auto")

    assert response.status_code == 429
    assert len(house.ledger.records) == 1


async def test_a_tier_without_a_price_is_passed_over_by_auto_which_says_so() -> None:
    tiers = (tier("low"), tier("high", model="large-1", priced=None))
    async with open_house(tiers=tiers, rules=RULES) as house:
        flyball = (await house.chat("prove it", model="auto")).json()["flyball"]

    assert flyball["tier"] == "low"
    assert flyball["why"] == "default tier; rule 1 passed over: the tier high has no price"

"""A model that the house asks: over the governed path, charged to the house, denied like others."""

from collections.abc import AsyncIterator

import pytest

from governor.call import CallStatus
from governor.ids import SessionId
from governor.scope import ScopeChain
from runtime.memory.house.allowance import HOUSE
from runtime.memory.house.model import HouseModel
from tests.runtime.model_gateway.bench import TENANT, House, completion, open_house

pytestmark = pytest.mark.anyio
CHAIN = ScopeChain(tenant=TENANT, agent=HOUSE, session=SessionId("ses_sleep"))


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


async def asked(house: House, tier: str = "low") -> str | None:
    assert house.models is not None, "a house has models"
    model = HouseModel(house.models, tier=tier, output_tokens=50, clock=house.clock)
    return await model.ask("Reflect.", "What happened.", chain=CHAIN, session_name="sleep")


def saying(content: str | None, reason: str = "stop") -> dict[str, object]:
    message = {"role": "assistant", "content": content}
    return completion(choices=[{"index": 0, "message": message, "finish_reason": reason}])


@pytest.mark.requirement("quiet.own-budget")
async def test_a_question_of_the_house_is_a_call_that_its_budget_pays_for(house: House) -> None:
    house.budget(cost_microusd=1_000)
    house.provider_answers(json=saying('{"deltas": []}'))

    said = await asked(house)

    assert said == '{"deltas": []}'
    assert [one["content"] for one in house.sent["messages"]] == ["Reflect.", "What happened."]
    assert house.sent["max_tokens"] == 50
    assert (house.record.chain, house.record.status) == (CHAIN, CallStatus.OK)
    # Ten tokens in at one micro-dollar, five out at two.
    assert await house.ledger.spent() == (20, 0)


@pytest.mark.requirement("quiet.own-budget")
async def test_what_the_budget_of_the_house_does_not_pay_for_is_not_asked(house: House) -> None:
    house.budget(cost_microusd=3)

    assert await asked(house) is None
    assert house.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 500, "json": {"error": {"message": "no"}}},
        {"json": saying("cut", "length")},
        {"json": saying(None)},
        {"json": saying("  ")},
    ],
)
async def test_no_whole_answer_is_no_answer(house: House, answer: dict[str, object]) -> None:
    house.budget(cost_microusd=1_000)
    house.provider_answers(**answer)  # type: ignore[arg-type]

    assert await asked(house) is None


async def test_a_tier_that_is_not_there_is_no_answer(house: House) -> None:
    house.budget(cost_microusd=1_000)

    assert await asked(house, "nowhere") is None

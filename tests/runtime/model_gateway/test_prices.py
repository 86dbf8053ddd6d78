"""Which price a chat is held and charged by, and what cached input costs."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Unit
from governor.pricing import ListedPrice, ModelPrice, PriceList
from runtime.model_gateway.counting.belief import believed
from runtime.model_gateway.counting.reports import openai_usage
from runtime.model_gateway.measured import Measured
from runtime.model_gateway.wires.openai_chat import OpenAIChat
from runtime.model_gateway.wires.openai_chat_request import parse_chat
from tests.runtime.model_gateway.bench import (
    House,
    answer_well,
    completion,
    open_house,
    price,
    tier,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house_of_list() -> AsyncIterator[House]:
    """A house whose tier states no price of its own."""
    async with open_house(tiers=(tier(priced=None),)) as opened:
        opened.budget(cost_microusd=1_000_000)
        yield opened


def listing(priced: ModelPrice) -> PriceList:
    return PriceList(prices=(ListedPrice(provider="lab", model="small-*", price=priced),))


CHEAP = listing(price(input_usd=1, output_usd=1))
DEAR = listing(price(input_usd=10, output_usd=10))


@pytest.mark.requirement("price.list-replaced-live")
async def test_each_call_is_charged_by_the_list_that_is_in_force(house_of_list: House) -> None:
    house = house_of_list
    costs, versions = [], []
    for prices in (CHEAP, DEAR):
        house.prices = prices
        response = await house.chat()
        costs.append(response.json()["flyball"]["usage"]["cost_microusd"])
        versions.append(house.record.price_version)

    assert costs == [15, 150]
    assert versions == [CHEAP.version, DEAR.version]


async def test_a_call_that_runs_keeps_the_price_that_it_was_held_by(house_of_list: House) -> None:
    house = house_of_list
    house.prices = CHEAP

    async def answer(request: httpx.Request) -> httpx.Response:
        house.prices = DEAR
        return await answer_well(request)

    house.handler = answer
    await house.chat()

    assert house.record.price_version == CHEAP.version
    assert await house.ledger.spent() == (15, 0)


async def test_a_model_that_leaves_the_list_is_refused_and_one_that_joins_is_served(
    house_of_list: House,
) -> None:
    house = house_of_list
    refused = await house.chat()
    assert house.record.price_version == PriceList().version
    house.prices = CHEAP
    served = await house.chat()

    assert refused.status_code != 200
    assert refused.json()["flyball"]["denial"]["reason"] == "unpriced"
    assert "PUT /admin/v1/prices" in refused.text
    assert served.status_code == 200
    assert len(house.requests) == 1


async def test_a_tiers_own_price_goes_before_the_list(house: House) -> None:
    house.prices = DEAR

    await house.chat()

    assert house.record.price_version == "list-1"
    assert await house.ledger.spent() == (20, 0)


async def test_the_models_are_shown_at_the_price_in_force(house_of_list: House) -> None:
    house = house_of_list
    house.prices = DEAR

    listed = (await house.client.get("/v1/models")).json()["data"]

    shown = next(model for model in listed if model["id"] == "low")["flyball"]["price"]
    assert shown["input_microusd_per_mtok"] == 10_000_000


CACHED = ModelPrice(
    input_microusd_per_mtok=10_000_000,
    output_microusd_per_mtok=0,
    cached_input_microusd_per_mtok=1_000_000,
)


@pytest.mark.requirement("price.cached-input")
@pytest.mark.parametrize(
    ("details", "cost"),
    [
        ({"cached_tokens": 4}, 64),
        ({"cached_tokens": 0}, 100),
        ({"cached_tokens": 10}, 10),
        # No rebate for what cannot be true.
        ({"cached_tokens": 11}, 100),
        ({"cached_tokens": -1}, 100),
        ({"cached_tokens": 4.0}, 100),
        ({"cached_tokens": "4"}, 100),
        ({"cached_tokens": True}, 100),
        ({"cached_tokens": None}, 100),
        ({}, 100),
        ([4], 100),
        (None, 100),
    ],
)
async def test_cached_input_costs_its_own_price_as_far_as_that_can_be_true(
    details: Any, cost: int
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": details}
    async with open_house(tiers=(tier(priced=CACHED),)) as house:
        house.budget(cost_microusd=1_000_000)
        house.provider_answers(json=completion(usage))

        await house.chat()

        assert await house.ledger.spent() == (cost, 0)
        assert house.record.usage is not None
        assert house.record.usage.measured.of(Unit.INPUT_TOKENS) == 10


async def test_cached_input_without_a_price_of_its_own_costs_what_other_input_does(
    house: House,
) -> None:
    details = {"cached_tokens": 10}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": details}
    house.provider_answers(json=completion(usage))

    await house.chat()

    assert await house.ledger.spent() == (20, 0)


@given(
    prompt=st.integers(-5, 200),
    cached=st.integers(-300, 300) | st.floats() | st.none() | st.text(max_size=3),
)
def test_never_more_is_cached_than_came_in(prompt: int, cached: object) -> None:
    request = parse_chat(b'{"model": "low", "messages": [{"role": "user", "content": "hi"}]}')
    payload = replace(OpenAIChat().payload(request, tier()), input_tokens_max=100)
    details = {"cached_tokens": cached}

    usage = {"prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": details}
    found = believed(openai_usage(usage), None, payload, tier())

    if isinstance(found, Measured):
        assert 0 <= found.cached_tokens <= found.input_tokens

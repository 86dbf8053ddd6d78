"""Sessions that `auto` keeps where their prompt is cached, while that pays."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

from governor.ids import CallId, TierName
from governor.pricing import ModelPrice
from governor.tiers import TierRule
from runtime.model_gateway.ports import CallEnd, RouteAsk, Routed, TierRouter
from tests.model_upstream.upstream import answering
from tests.runtime.model_gateway.bench import House, completion
from tests.runtime.model_gateway.troubled import high, low, two_labs

pytestmark = pytest.mark.anyio

RULES = (TierRule(tier=TierName("high"), keywords=("hard",)),)
PROMPT = "x" * 12_000
STAYS = "stays where its prompt is warm (default tier says low)"


def priced(input_usd: int, output_usd: int, *, cached_usd: int) -> ModelPrice:
    million = 1_000_000
    return ModelPrice(
        input_microusd_per_mtok=input_usd * million,
        output_microusd_per_mtok=output_usd * million,
        cached_input_microusd_per_mtok=cached_usd * million,
    )


@asynccontextmanager
async def a_house(
    *, cached: int = 9_000, cheap: int = 5, router: TierRouter | None = None
) -> AsyncIterator[House]:
    """Yield a house whose dearer tier reads what it has cached for a tenth."""
    usage = {
        "prompt_tokens": 10_000,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    well = answering(completion(usage))
    tiers = (
        low(price=priced(cheap, 15, cached_usd=cheap)),
        high(price=priced(10, 30, cached_usd=1)),
    )
    opened = two_labs(*[well] * 9, second=(well,) * 9, tiers=tiers, rules=RULES, router=router)
    async with opened as (house, _, _other):
        house.budget(cost_microusd=10**9)
        yield house


async def auto(house: House, text: str, session: str = "one") -> httpx.Response:
    response = await house.chat(text + PROMPT, model="auto", headers={"Flyball-Session": session})
    assert response.status_code == 200
    return response


def place(response: httpx.Response) -> tuple[str, str]:
    flyball = response.json()["flyball"]
    return flyball["tier"], flyball["why"]


@pytest.mark.requirement("model.session-stays-where-it-is-cached")
async def test_a_session_is_not_sent_to_a_cheaper_tier_that_would_cost_it_more() -> None:
    with anyio.fail_after(60):
        async with a_house() as house:
            first = await auto(house, "this is hard")
            second = await auto(house, "and now?")
            other = await auto(house, "and now?", session="two")

    assert place(first) == ("high", "rule 1")
    assert place(second) == ("high", STAYS)
    assert place(other) == ("low", "default tier")


@pytest.mark.requirement("model.session-stays-where-it-is-cached")
async def test_a_session_moves_once_its_prompt_has_gone_cold() -> None:
    with anyio.fail_after(60):
        async with a_house() as house:
            await auto(house, "this is hard")
            house.clock.skip(300_000)
            second = await auto(house, "and now?")

    assert place(second) == ("low", "default tier")


async def test_a_session_moves_to_a_tier_that_saves_more_than_the_cache() -> None:
    with anyio.fail_after(60):
        async with a_house(cheap=0) as house:
            await auto(house, "this is hard")
            second = await auto(house, "and now?")

    assert place(second) == ("low", "default tier")


async def test_a_provider_that_was_seen_to_keep_nothing_keeps_no_session() -> None:
    with anyio.fail_after(60):
        async with a_house(cached=0) as house:
            await auto(house, "this is hard")
            await auto(house, "this is hard too")
            third = await auto(house, "and now?")

    assert place(third) == ("low", "default tier")


async def test_a_session_goes_up_to_the_tier_that_a_rule_asks_for() -> None:
    with anyio.fail_after(60):
        async with a_house() as house:
            await auto(house, "hello")
            second = await auto(house, "this is hard")

    assert place(second) == ("high", "rule 1")


async def test_a_router_is_told_what_of_a_prompt_is_cached_where() -> None:
    class Listening:
        def __init__(self) -> None:
            self.warm: list[dict[str, int]] = []

        async def route(self, ask: RouteAsk) -> Routed | None:
            self.warm.append({one.tier.name: one.warm_tokens for one in ask.candidates})
            return Routed(tier=TierName("high"), why="it said so")

        async def ended(self, call_id: CallId, end: CallEnd) -> None:
            """Nothing is learned here."""

    router = Listening()
    with anyio.fail_after(60):
        async with a_house(router=router) as house:
            await auto(house, "hello")
            second = await auto(house, "hello")

    assert router.warm == [{"low": 0, "high": 0}, {"low": 0, "high": 10_000}]
    assert place(second) == ("high", "it said so")

"""Output that a budget does not pay for: less of it where that helps, a denial where not."""

from dataclasses import replace

import anyio
import httpx
import pytest

from governor.amounts import Unit
from governor.call import CallStatus
from tests.runtime.model_gateway.bench import House, completion, open_house, tier

pytestmark = pytest.mark.anyio

COST = Unit.COST_MICROUSD


async def held_for_input(house: House) -> int:
    """Return what the input of a chat is held for; its output is two micro-dollars a token."""
    await house.chat()
    house.requests.clear()
    return house.record.estimate.of(COST) - 2 * 100


@pytest.mark.requirement("model.output-is-clamped")
async def test_a_chat_that_is_too_dear_is_run_with_the_output_that_can_be_paid() -> None:
    async with open_house() as house:
        held = await held_for_input(house)
        house.budget(cost_microusd=held + 61)
        response = await house.chat()

        assert response.status_code == 200
        assert house.sent["max_completion_tokens"] == 30
        flyball = response.json()["flyball"]
        assert flyball["clamped"] == {"output_tokens_max": 30, "wanted": 100}
        assert response.headers["flyball-output-tokens-max"] == "30"
        # A cap of fewer digits is a byte less of input.
        assert house.record.estimate.of(COST) == held - 1 + 60
        assert house.record.estimate.of(Unit.OUTPUT_TOKENS) == 30
        assert (await house.ledger.spent())[1] == 0


async def test_the_clients_own_word_for_the_cap_is_clamped_and_each_choice_has_its_part() -> None:
    async with open_house() as house:
        held = await held_for_input(house)
        house.budget(cost_microusd=held + 100)
        await house.chat(max_tokens=90, n=2)

        estimate = house.record.estimate
        assert 16 <= house.sent["max_tokens"] < 30
        assert house.sent["max_tokens"] * 2 == estimate.of(Unit.OUTPUT_TOKENS)
        assert estimate.of(COST) <= held + 100


async def test_a_tier_says_itself_below_which_output_a_chat_is_denied() -> None:
    wordy = replace(tier(), output_tokens_min=31)
    terse = replace(tier("terse"), output_tokens_min=2)
    async with open_house(tiers=(wordy, terse)) as house:
        held = await held_for_input(house)
        house.budget(cost_microusd=held + 61)
        denied = await house.chat()
        house.budget(cost_microusd=held + 11)
        short = await house.chat(model="terse")

    assert (denied.status_code, short.status_code) == (429, 200)
    assert short.json()["flyball"]["clamped"]["output_tokens_max"] < 16


async def test_a_budget_of_output_tokens_clamps_as_well() -> None:
    async with open_house() as house:
        house.budget(output_tokens=40)
        response = await house.chat()

        assert response.json()["flyball"]["clamped"]["output_tokens_max"] == 40


@pytest.mark.parametrize(("left", "asked", "status"), [(32, 100, 200), (30, 100, 429), (6, 3, 200)])
async def test_too_little_to_be_an_answer_is_denied(left: int, asked: int, status: int) -> None:
    async with open_house() as house:
        held = await held_for_input(house)
        house.budget(cost_microusd=held + left)
        response = await house.chat(max_completion_tokens=asked)

        # A shorter request may hold a byte less: the number of the cap is in it.
        assert response.status_code == status
        if status == 429:
            denial = response.json()["flyball"]["denial"]
            assert denial["requested"] > held + left
            assert "clamped" not in response.json()["flyball"]
            assert house.record.status is CallStatus.DENIED


async def test_what_is_short_besides_money_is_a_denial() -> None:
    async with open_house() as house:
        house.budget(output_tokens=50, turns=0)
        response = await house.chat()

        assert response.status_code == 429
        assert house.requests == []


@pytest.mark.requirement("model.output-is-clamped")
async def test_chats_that_are_clamped_at_once_never_overspend_a_budget() -> None:
    async with open_house() as house:
        held = await held_for_input(house)
        house.budget(cost_microusd=3 * held + 400)
        everybody, statuses = anyio.Event(), []

        async def answer_late(_request: httpx.Request) -> httpx.Response:
            await everybody.wait()
            usage = {"prompt_tokens": held, "completion_tokens": 16}
            return httpx.Response(200, json=completion(usage))

        async def ask() -> None:
            statuses.append((await house.chat()).status_code)

        house.handler = answer_late
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(ask)
                while len(statuses) + len(house.requests) < 8:
                    await anyio.lowlevel.checkpoint()
                used, reserved = await house.ledger.spent()
                everybody.set()

        assert used + reserved <= 3 * held + 400
        assert statuses.count(200) >= 2
        assert (await house.ledger.spent())[1] == 0

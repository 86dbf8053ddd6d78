import pytest

from governor.turn_policy import TurnMode, TurnPolicy, TurnTerms
from tests.runtime.model_gateway.bench import open_house

pytestmark = pytest.mark.anyio

TWO_TURNS = TurnPolicy(fallback=TurnTerms(mode=TurnMode.FIXED, turns=2, remind_at=(1,)))


async def test_each_request_is_a_turn_and_the_one_beyond_the_limit_is_refused() -> None:
    async with open_house(turns=TWO_TURNS) as house:
        house.budget(cost_microusd=1_000_000)
        answers = [await house.chat() for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[1].json()["flyball"]["turns"]["remaining"] == 0
    assert answers[2].json()["error"]["code"] == "turn_limit"
    assert len(house.requests) == 2


async def test_requests_of_one_turn_count_once() -> None:
    async with open_house(turns=TWO_TURNS) as house:
        house.budget(cost_microusd=1_000_000)
        answers = [await house.chat(headers={"Flyball-Turn": "t1"}) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200] * 4
    assert answers[-1].json()["flyball"]["turns"]["used"] == 1


@pytest.mark.requirement("turns.reminder-is-shown")
async def test_the_model_is_told_before_the_turn_begins_and_the_note_is_held_for() -> None:
    async with open_house(turns=TWO_TURNS) as house:
        house.budget(cost_microusd=1_000_000)
        await house.chat("work")
        first, plain = house.sent["messages"], house.record.estimate
        await house.chat("work")
        second = house.sent["messages"]

    assert first[0]["content"].startswith("1 turn remains after this one, of 2")
    assert first[0]["role"] == "system"
    assert second == [{"role": "user", "content": "work"}]
    assert dict(plain) != dict(house.record.estimate)


async def test_notes_to_the_model_can_be_switched_off() -> None:
    terms = TurnTerms(mode=TurnMode.FIXED, turns=2, remind_at=(1,), note_chats=False)
    async with open_house(turns=TurnPolicy(fallback=terms)) as house:
        house.budget(cost_microusd=1_000_000)
        await house.chat("work")

    assert house.sent["messages"] == [{"role": "user", "content": "work"}]


async def test_a_session_without_a_limit_is_told_nothing_of_turns() -> None:
    async with open_house() as house:
        house.budget(cost_microusd=1_000_000)
        answer = await house.chat("work")

    assert "turns" not in answer.json()["flyball"]

"""What a model is told of its budgets: where it stands, what it costs, who sees it."""

import pytest

from governor.amounts import Unit
from governor.tracker import Tracker
from runtime.model_gateway.notes import with_note
from runtime.model_gateway.wires.openai_chat import OpenAIChat
from runtime.model_gateway.wires.openai_chat_request import parse_chat
from tests.runtime.model_gateway.bench import open_house, tier

USER = {"role": "user", "content": "hi"}
SYSTEM = {"role": "system", "content": "Be brief."}
PARTS = {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}
NOTE = {"type": "text", "text": "note"}


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([USER], [{"role": "system", "content": "note"}, USER]),
        ([SYSTEM, USER], [{"role": "system", "content": "Be brief.\n\nnote"}, USER]),
        (
            [SYSTEM, {"role": "system", "content": None}, USER],
            [SYSTEM, {"role": "system", "content": "note"}, USER],
        ),
        ([PARTS, USER], [{**PARTS, "content": [*PARTS["content"], NOTE]}, USER]),
        (
            [USER, SYSTEM],
            [{"role": "system", "content": "note"}, USER, SYSTEM],
        ),
    ],
)
def test_a_note_ends_the_opening_instructions(
    messages: list[dict[str, object]], told: list[dict[str, object]]
) -> None:
    before = [dict(message) for message in messages]

    assert with_note(messages, "note") == told
    assert messages == before


@pytest.mark.requirement("budget.note-is-counted")
@pytest.mark.parametrize("opening", ["", '{"role":"system","content":"Be brief."},'])
def test_a_note_is_part_of_what_is_held(opening: str) -> None:
    request = parse_chat(
        f'{{"model":"low","messages":[{opening}{{"role":"user","content":"hi"}}]}}'.encode()
    )

    plain, noted = (OpenAIChat().payload(request, tier(), note=note) for note in (None, "x" * 100))

    around = [each.input_tokens_max - len(each.content) for each in (plain, noted)]
    assert len(noted.content) > len(plain.content) + 100
    # A message that was not there before is counted like any other.
    assert around[1] - around[0] == (0 if opening else 16)
    assert request.fields == parse_chat(request_bytes(opening)).fields


def request_bytes(opening: str) -> bytes:
    return f'{{"model":"low","messages":[{opening}{{"role":"user","content":"hi"}}]}}'.encode()


@pytest.mark.anyio
@pytest.mark.requirement("budget.note-is-counted")
async def test_the_model_is_told_and_the_client_is_not() -> None:
    async with open_house(tracker=Tracker.LINE) as house:
        house.budget(cost_microusd=1_000_000)
        response = await house.chat()

        (note, said) = house.sent["messages"]
        assert note["content"].startswith("Budget HIGH: $1.00 of $1.00 left (100%)")
        assert said == {"role": "user", "content": "hi"}
        body = response.json()
        assert "Budget HIGH" not in str(body["choices"])
        assert body["flyball"]["budget"][0]["share_left"] == 1.0
        assert (await house.ledger.spent(Unit.COST_MICROUSD))[1] == 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mode", "limit", "is_told"),
    [
        (Tracker.OFF, 2_000, False),
        (Tracker.WHEN_LOW, 1_000_000, False),
        (Tracker.LINE, 2_000, True),
    ],
)
async def test_the_policy_says_when_the_model_is_told(
    mode: Tracker, limit: int, *, is_told: bool
) -> None:
    async with open_house(tracker=mode) as house:
        house.budget(cost_microusd=limit)
        await house.chat()

        assert (len(house.sent["messages"]) == 2) is is_told


@pytest.mark.anyio
async def test_a_denied_chat_names_a_cheaper_tier_and_whom_to_ask() -> None:
    tiers = (tier("low"), tier("high", model="large-1"))
    async with open_house(tiers=tiers, admin_contact="ops@acme.test") as house:
        house.budget(cost_microusd=1)
        dear = (await house.chat(model="high")).json()["flyball"]["denial"]["remedy"]
        cheap = (await house.chat(model="low")).json()["flyball"]["denial"]["remedy"]

    assert (dear["cheaper"], dear["contact"]) == ("model low", "ops@acme.test")
    assert "cheaper" not in cheap

"""Successes that are said oddly: each is served, and charged by what it holds."""

from dataclasses import replace

import anyio
import pytest

from governor.amounts import Unit
from governor.call import CallStatus
from tests.model_upstream.chat_goldens import chunk, usage
from tests.model_upstream.golden import Truth, data
from tests.model_upstream.upstream import Break, Play, streaming
from tests.runtime.model_gateway.bench import completion, open_house, tier
from tests.runtime.model_gateway.test_streams import TEXT, ask, cost_of, house_and_upstream

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("model.strange-success-is-served")
async def test_a_reason_to_end_that_is_empty_ends_nothing() -> None:
    words = [data(chunk({"content": "hello"}, finish="")) for _ in range(2)]
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(words, Break()))
            response = await ask(house, TEXT)

    assert b"provider_failed" in response.content
    assert house.record.status is CallStatus.UPSTREAM_FAILED


@pytest.mark.requirement("model.strange-success-is-served")
@pytest.mark.parametrize("index", [None, "one"])
async def test_an_event_of_an_odd_shape_keeps_its_end_and_its_usage(index: object) -> None:
    odd = {"tool_calls": [{"index": index, "function": {"arguments": "{}"}}]}
    told = usage(Truth(input_tokens=9, output_tokens=4))
    events = [
        data(chunk({"content": "hello"})),
        data(chunk(odd, finish="tool_calls", usage=told)),
    ]
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(events, Break()))
            response = await ask(house, TEXT)
            spent = await house.ledger.spent()

    assert response.content == b"".join(events)
    assert house.record.status is CallStatus.OK
    assert spent == (9 + 2 * 4, 0)


@pytest.mark.requirement("model.strange-success-is-served")
@pytest.mark.parametrize("content_type", ["text/plain; charset=utf-8", "text/event-stream"])
@pytest.mark.parametrize("status", [200, 201])
async def test_a_stream_is_one_whatever_its_server_calls_it(content_type: str, status: int) -> None:
    play = Play(steps=TEXT.events, content_type=content_type, status=status)
    with anyio.fail_after(60):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(play)
            response = await ask(house, TEXT, stream_options={"include_usage": True})
            spent = await house.ledger.spent()

    assert (response.status_code, response.content) == (200, TEXT.content)
    assert spent == (cost_of(TEXT.truth), 0)


@pytest.mark.requirement("model.strange-success-is-served")
@pytest.mark.parametrize("status", [200, 201])
@pytest.mark.parametrize("nothing", ["", {}, None, [], False])
async def test_an_answer_beside_an_error_that_says_nothing_is_served(
    status: int, nothing: object
) -> None:
    async with open_house() as house:
        house.budget(cost_microusd=1_000_000)
        house.provider_answers(status, json=completion(error=nothing))
        response = await house.chat()
        spent = await house.ledger.spent()

    assert response.status_code == 200
    assert spent == (10 + 2 * 5, 0)


SPEAKS_ALL = replace(
    tier(), wires=("openai_chat", "openai_responses", "anthropic_messages", "openai_embeddings")
)
A_TURN = [{"role": "user", "content": "hi"}]


@pytest.mark.requirement("model.foreign-answer-is-said")
@pytest.mark.parametrize(
    ("path", "asked", "answer", "named"),
    [
        ("responses", {"input": "hi"}, completion(), "chat.completion"),
        ("messages", {"messages": A_TURN, "max_tokens": 9}, completion(), "chat.completion"),
        ("embeddings", {"input": "hi"}, completion(), "chat.completion"),
        (
            "chat/completions",
            {"messages": A_TURN},
            {"object": "response", "output": []},
            "response",
        ),
    ],
)
async def test_an_answer_of_another_api_is_named_charged_as_held_and_not_asked_for_again(
    path: str, asked: dict[str, object], answer: dict[str, object], named: str
) -> None:
    async with open_house(tiers=(SPEAKS_ALL,)) as house:
        house.budget(cost_microusd=1_000_000)
        house.provider_answers(json=answer)
        response = await house.client.post(f"/v1/{path}", json={"model": "low", **asked})
        spent = await house.ledger.spent()

    said = response.json()["error"]["message"]
    assert response.status_code == 502
    assert f"is a {named} in place of" in said
    assert "The provider lab may not serve" in said
    assert "`wires`" in said
    assert "charged as it was held" in said
    assert response.headers["x-should-retry"] == "false"
    assert spent == (house.record.estimate.of(Unit.COST_MICROUSD), 0)
    assert len(house.requests) == 1


@pytest.mark.requirement("model.foreign-answer-is-said")
@pytest.mark.parametrize(
    ("answer", "said"),
    [({"error": {"message": "busy"}}, "an error in place of"), ({"object": "?"}, "nothing like")],
)
async def test_an_answer_that_is_an_error_or_nothing_known_may_be_asked_for_again(
    answer: dict[str, object], said: str
) -> None:
    async with open_house(tiers=(SPEAKS_ALL,)) as house:
        house.provider_answers(json=answer)
        response = await house.client.post("/v1/responses", json={"model": "low", "input": "hi"})

    assert response.status_code == 502
    assert said in response.json()["error"]["message"]
    assert "x-should-retry" not in response.headers

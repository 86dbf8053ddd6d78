"""Streams of messages and responses through the whole gateway, whatever becomes of them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest

from governor.amounts import Unit
from governor.call import CallStatus
from runtime.model_gateway.counting.tokenizer import TOKEN_BYTES_MAX
from tests.model_upstream.embeddings_goldens import embeddings
from tests.model_upstream.golden import Golden, Truth
from tests.model_upstream.messages_goldens import MESSAGES, message
from tests.model_upstream.responses_goldens import RESPONSES, whole
from tests.model_upstream.upstream import (
    Stall,
    Upstream,
    an_upstream,
    answering,
    broken_at,
    failing,
    streaming,
)
from tests.runtime.model_gateway.bench import House, open_house, tier

pytestmark = pytest.mark.anyio

SECONDS_MAX = 100
COST = Unit.COST_MICROUSD
PATHS = {"anthropic_messages": "/v1/messages", "openai_responses": "/v1/responses"}
TIER = replace(
    tier(output_tokens_max=4_096),
    wires=("anthropic_messages", "openai_responses", "openai_embeddings"),
)
BOTH = [MESSAGES[0], RESPONSES[0]]


def shown(golden: Golden) -> str:
    return f"{golden.wire}-{golden.name}".replace(" ", "-")


@asynccontextmanager
async def house_and_upstream() -> AsyncIterator[tuple[House, Upstream]]:
    async with (
        an_upstream() as upstream,
        open_house(base_url=upstream.base_url, tiers=(TIER,)) as house,
    ):
        house.budget(cost_microusd=1_000_000_000)
        yield house, upstream


async def ask(house: House, golden: Golden, **more: object) -> httpx.Response:
    return await house.client.post(PATHS[golden.wire], json={**golden.request, **more})


def cost_of(truth: Truth, written: int) -> int:
    return truth.input_tokens + 2 * written


def events_in(content: bytes) -> list[dict[str, Any]]:
    return [
        json.loads(event.partition(b"data: ")[2])
        for event in content.split(b"\n\n")
        if b"data: " in event
    ]


@pytest.mark.requirement("wire.golden-streams")
@pytest.mark.parametrize("golden", [*MESSAGES, *RESPONSES], ids=shown)
async def test_a_stream_that_breaks_off_in_any_event_is_told_and_never_charged_below_the_truth(
    golden: Golden,
) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with house_and_upstream() as (house, upstream):
            for number in range(len(golden.events)):
                before, _ = await house.ledger.spent()
                relayed = b"".join(golden.events[:number])
                upstream.plays(broken_at(golden.content, len(relayed) + 9))
                response = await ask(house, golden)
                after, held = await house.ledger.spent()

                written = golden.written[number - 1] if number else 0
                assert held == 0
                assert after - before >= cost_of(golden.truth, written)
                assert response.content.startswith(relayed)
                if number == 0:
                    assert response.status_code == 502
                elif response.content != relayed:
                    last = events_in(response.content)[-1]
                    assert last["type"] == "error"
                    assert "provider" in last["error"]["message"]


@pytest.mark.parametrize("golden", BOTH, ids=shown)
async def test_a_stream_is_cut_where_what_is_held_for_it_ends(golden: Golden) -> None:
    words = [lengthened(event) for event in golden.events]
    never = anyio.Event()
    cap = {"max_tokens": 2} if golden.wire == "anthropic_messages" else {"max_output_tokens": 2}
    with anyio.fail_after(SECONDS_MAX):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming(words, Stall(until=never)))
            response = await ask(house, golden, **cap)
            await upstream.left.wait()
            used, held = await house.ledger.spent()

    events = events_in(response.content)
    assert house.record.status is CallStatus.LIMIT_HIT
    assert held == 0
    # With the word that was one too many: it was written, and is paid for.
    if golden.wire == "anthropic_messages":
        assert used == golden.truth.input_tokens + 2 * 3
        assert events[-2]["delta"]["stop_reason"] == "max_tokens"
        assert events[-1]["type"] == "message_stop"
    else:
        assert used == house.record.estimate.of(COST) + 2
        assert events[-1]["type"] == "response.incomplete"
        text = events[-1]["response"]["output"][0]["content"][0]["text"]
        assert (len(text), text.split()) == (3 * TOKEN_BYTES_MAX, ["Hi", "the", "re"])


def lengthened(event: bytes) -> bytes:
    """Return an event whose word is as long as a token can be, so that it is one at the least."""
    for word in (b"Hello", b"Hi", b" the", b"re"):
        event = event.replace(b'"%b"' % word, b'"%b"' % word.rjust(TOKEN_BYTES_MAX))
    return event


@pytest.mark.parametrize("golden", BOTH, ids=shown)
async def test_an_error_that_the_provider_streams_reaches_the_client_as_it_came(
    golden: Golden,
) -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
    never = anyio.Event()
    with anyio.fail_after(SECONDS_MAX):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(streaming((*golden.events[:3], error), Stall(until=never)))
            response = await ask(house, golden)
            await upstream.left.wait()
            used, held = await house.ledger.spent()

    assert response.content == b"".join((*golden.events[:3], error))
    assert house.record.status is CallStatus.UPSTREAM_FAILED
    assert golden.truth.input_tokens + 2 * golden.written[2] <= used
    assert used <= house.record.estimate.of(COST)
    assert held == 0


@pytest.mark.parametrize(
    ("path", "body", "answer", "cost"),
    [
        ("messages", {"messages": [{"role": "user", "content": "x"}]}, message(), 25 + 2 * 15),
        ("responses", {"input": "x"}, whole(), 37 + 2 * 11),
        ("embeddings", {"input": "x"}, embeddings([0.5], input_tokens=2), 2),
    ],
)
async def test_a_whole_answer_is_relayed_with_what_it_cost(
    path: str, body: dict[str, object], answer: dict[str, object], cost: int
) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(answering(answer))
            response = await house.client.post(f"/v1/{path}", json={"model": "low", **body})
            spent = await house.ledger.spent()

    shown = response.json()
    told = shown.pop("flyball")
    assert shown == answer
    assert told["usage"]["cost_microusd"] == cost
    assert spent == (cost, 0)


@pytest.mark.parametrize("answer", [b"<html>", b"{}", b'{"type":"error","error":{"message":"x"}}'])
@pytest.mark.parametrize("path", ["messages", "responses", "embeddings"])
async def test_a_200_that_is_no_answer_is_a_failure_in_the_clients_own_words(
    path: str, answer: bytes
) -> None:
    ask = {"model": "low", "input": "x", "messages": [{"role": "user", "content": "x"}]}
    with anyio.fail_after(SECONDS_MAX):
        async with house_and_upstream() as (house, upstream):
            upstream.plays(failing(200, answer))
            response = await house.client.post(f"/v1/{path}", json=ask)
            spent = await house.ledger.spent()

    error = response.json()["error"]
    assert response.status_code == 502
    assert (error["type"] == "api_error") is (path == "messages")
    assert spent == (house.record.estimate.of(COST), 0)


@pytest.mark.parametrize("path", ["responses", "embeddings"])  # messages are translated
async def test_a_tier_whose_provider_does_not_speak_the_wire_does_not_serve_it(path: str) -> None:
    ask = {"model": "low", "input": "x", "messages": [{"role": "user", "content": "x"}]}
    with anyio.fail_after(SECONDS_MAX):
        async with open_house(tiers=(replace(TIER, wires=("openai_chat",)),)) as house:
            house.budget(cost_microusd=1_000_000)
            response = await house.client.post(f"/v1/{path}", json=ask)

    assert response.status_code == 404
    assert "does not speak" in response.json()["error"]["message"]
    assert house.requests == []

"""Streams that Flyball ends itself, as the providers' own clients read them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import anyio
import openai
import pytest

from runtime.model_gateway.measured import Measured
from runtime.model_gateway.wires.sse import data_of, object_of
from runtime.model_gateway.wires.wire import StreamMeter
from tests.model_upstream.chat_goldens import CHAT
from tests.model_upstream.golden import Golden
from tests.model_upstream.messages_goldens import MESSAGES
from tests.model_upstream.responses_goldens import RESPONSES
from tests.model_upstream.upstream import Upstream, an_upstream, streaming
from tests.runtime.model_gateway.wires.makers import WIRES, named, payload_of

pytestmark = pytest.mark.anyio

USAGE = Measured(input_tokens=7, output_tokens=5)
SECONDS_MAX = 60
OPENED, CLOSED = "content_block_start", "content_block_stop"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def heard(golden: Golden, events: int) -> StreamMeter:
    meter = WIRES[golden.wire].meter(payload_of(golden))
    for event in golden.events[:events]:
        meter.hear(event)
    return meter


def unfinished(golden: Golden) -> list[int]:
    """Return after how many events a stream can be cut: at any, before its end is heard."""
    return [number for number in range(len(golden.events)) if not heard(golden, number).is_finished]


@asynccontextmanager
async def an_openai(upstream: Upstream) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=upstream.base_url, api_key="none", max_retries=0
    ) as client:
        yield client


@asynccontextmanager
async def an_anthropic(upstream: Upstream) -> AsyncIterator[anthropic.AsyncAnthropic]:
    base_url = upstream.base_url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client


def written(golden: Golden, number: int) -> list[dict[str, Any]]:
    """Return the data of every event of a stream that is cut after some of them."""
    events = [*golden.events[:number], *heard(golden, number).cut(USAGE).split(b"\n\n")]
    found = [object_of(data_of(event)) for event in events]
    return [value for value in found if value is not None]


def asked(golden: Golden) -> dict[str, Any]:
    return {name: value for name, value in golden.request.items() if name != "stream"}


def cuts(golden: Golden) -> list[Any]:
    """Return the stream cut after each of its events, ended by the wire."""
    return [
        streaming(golden.events[:number], heard(golden, number).cut(USAGE))
        for number in unfinished(golden)
    ]


@pytest.mark.requirement("wire.ended-properly")
@pytest.mark.parametrize("golden", CHAT, ids=named)
async def test_a_chat_that_is_cut_anywhere_ends_for_its_length(golden: Golden) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with an_upstream(*cuts(golden)) as upstream, an_openai(upstream) as client:
            for number in unfinished(golden):
                stream = await client.chat.completions.create(**asked(golden), stream=True)
                chunks = [chunk async for chunk in stream]
                reasons = {
                    choice.index: choice.finish_reason
                    for chunk in chunks
                    for choice in chunk.choices
                    if choice.finish_reason is not None
                }

                assert set(reasons) == set(range(int(str(golden.request.get("n", 1)))))
                assert number > 3 or set(reasons.values()) == {"length"}
                if golden.reports:
                    assert chunks[-1].usage is not None
                    assert chunks[-1].usage.total_tokens == 12


@pytest.mark.requirement("wire.ended-properly")
@pytest.mark.parametrize("golden", MESSAGES, ids=named)
async def test_a_message_that_is_cut_anywhere_ends_for_its_length(golden: Golden) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with an_upstream(*cuts(golden)) as upstream, an_anthropic(upstream) as client:
            for number in unfinished(golden):
                async with client.messages.stream(**asked(golden)) as stream:
                    message = await stream.get_final_message()

                has_reason = heard(golden, number).is_whole
                assert has_reason or message.stop_reason == "max_tokens"
                assert has_reason or message.usage.output_tokens == USAGE.output_tokens
                held = written(golden, number)
                opened = [event["index"] for event in held if event["type"] == OPENED]
                closed = [event["index"] for event in held if event["type"] == CLOSED]
                assert sorted(opened) == sorted(closed)
                texts = "".join(block.text for block in message.content if block.type == "text")
                assert golden.text.startswith(texts)


@pytest.mark.requirement("wire.ended-properly")
@pytest.mark.parametrize("golden", RESPONSES, ids=named)
async def test_a_response_that_is_cut_anywhere_is_incomplete(golden: Golden) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with an_upstream(*cuts(golden)) as upstream, an_openai(upstream) as client:
            for number in unfinished(golden):
                async with client.responses.stream(**asked(golden)) as stream:
                    events = [event async for event in stream]
                last = events[-1]

                assert last.type == "response.incomplete"
                response = last.response
                assert response.status == "incomplete"
                assert response.incomplete_details is not None
                assert response.incomplete_details.reason == "max_output_tokens"
                assert response.usage is not None
                assert response.usage.total_tokens == 12
                assert golden.text.startswith(response.output_text)
                opened = [e.output_index for e in events if e.type == "response.output_item.added"]
                closed = [e.output_index for e in events if e.type == "response.output_item.done"]
                assert opened == closed
                assert len(response.output) == len(opened)
                sequence = [event.sequence_number for event in events]
                assert sequence == sorted(set(sequence)), f"after {number} events"


async def test_a_failure_in_the_middle_of_a_chat_is_raised() -> None:
    golden = CHAT[0]
    play = streaming(golden.events[:3], heard(golden, 3).failure("It broke.", code="broke"))
    with anyio.fail_after(SECONDS_MAX):
        async with an_upstream(play) as upstream, an_openai(upstream) as client:
            stream = await client.chat.completions.create(**asked(golden), stream=True)
            with pytest.raises(openai.APIError, match=r"It broke\.") as caught:
                [chunk async for chunk in stream]

    assert caught.value.code == "broke"


async def test_a_failure_in_the_middle_of_a_message_is_raised() -> None:
    golden = MESSAGES[0]
    play = streaming(golden.events[:4], heard(golden, 4).failure("It broke.", code="broke"))
    with anyio.fail_after(SECONDS_MAX):
        async with an_upstream(play) as upstream, an_anthropic(upstream) as client:
            with pytest.raises(anthropic.APIStatusError, match=r"It broke\.") as caught:
                async with client.messages.stream(**asked(golden)) as stream:
                    await stream.get_final_message()

    assert (caught.value.type, caught.value.error_code) == ("api_error", "broke")


async def test_a_failure_in_the_middle_of_a_response_is_raised() -> None:
    golden = RESPONSES[0]
    play = streaming(golden.events[:5], heard(golden, 5).failure("It broke.", code="broke"))
    with anyio.fail_after(SECONDS_MAX):
        async with an_upstream(play) as upstream, an_openai(upstream) as client:
            stream = await client.responses.create(**asked(golden), stream=True)
            with pytest.raises(openai.APIError, match=r"It broke\.") as caught:
                [event async for event in stream]

    assert caught.value.code == "broke"

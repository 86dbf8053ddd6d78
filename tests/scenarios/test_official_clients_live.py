"""The providers' own clients against a running sidecar, whose providers are scripted."""

import base64
import struct
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import anyio
import openai
import pytest
from pydantic import BaseModel
from scenarios.clients import KEY, SECONDS_MAX, House, a_house, truth_of

from tests.model_upstream.chat_goldens import CHAT, completion
from tests.model_upstream.embeddings_goldens import embeddings
from tests.model_upstream.golden import WAVE, Golden, Truth
from tests.model_upstream.messages_goldens import MESSAGES, message
from tests.model_upstream.responses_goldens import RESPONSES, whole
from tests.model_upstream.upstream import (
    answering,
    broken_at,
    failing,
    in_pieces,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CONFIG = """
[[provider]]
name = "openai"
base_url = "{url}"
api_key_from = "SCRIPTED_KEY"

[[provider]]
name = "anthropic"
kind = "anthropic"
base_url = "{url}"
api_key_from = "SCRIPTED_KEY"

[[tier]]
name = "low"
provider = "openai"
model = "gpt-4.1"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[tier]]
name = "claude"
provider = "anthropic"
model = "claude-sonnet-4-5"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[tier]]
name = "dear"
provider = "openai"
model = "gpt-dear"
input_usd_per_mtok = "1000"
output_usd_per_mtok = "1000"

[[tier]]
name = "dear-claude"
provider = "anthropic"
model = "claude-dear"
input_usd_per_mtok = "1000"
output_usd_per_mtok = "1000"

# Its key rests after it was told to wait, which is to hinder no other test.
[[provider]]
name = "scripted-limited"
kind = "anthropic"
base_url = "{url}"
api_key_from = "SCRIPTED_KEY"

[[tier]]
name = "limited-claude"
provider = "scripted-limited"
model = "claude-limited"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[budget]]
id = "purse"
scope = "session"
limits = {{ cost_microusd = 1000000 }}
"""
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 8, 8) + b"\x08\x02" + bytes(64)
).decode()


class City(BaseModel):
    """What a model is to answer in JSON mode."""

    name: str


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def shared_house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with a_house(tmp_path_factory.mktemp("clients"), CONFIG) as house:
        yield house


@pytest.fixture
def house(shared_house: House) -> House:
    shared_house.upstream.script.clear()
    shared_house.upstream.received.clear()
    return shared_house


def asked(golden: Golden, model: str = "low") -> dict[str, Any]:
    fields = {name: value for name, value in golden.request.items() if name != "stream"}
    return {**fields, "model": model}


@pytest.mark.requirement("wire.official-clients")
async def test_a_chat_is_answered_and_charged(house: House) -> None:
    house.upstream.plays(answering(completion(Truth(input_tokens=9, output_tokens=4))))
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            answer = await client.chat.completions.create(
                model="low", messages=[{"role": "user", "content": "Say hello."}]
            )

        assert answer.choices[0].message.content == "Hello there."
        assert await house.charged() == (9, 4)
    assert (house.last.path, house.last.body["model"]) == ("/v1/chat/completions", "gpt-4.1")


@pytest.mark.requirement("wire.official-clients")
async def test_a_response_is_answered_and_charged(house: House) -> None:
    house.upstream.plays(answering(whole(Truth(input_tokens=30, output_tokens=5))))
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            answer = await client.responses.create(model="low", input="Say hello.")

        assert answer.output_text == "Hi there!"
        assert await house.charged() == (30, 5)
    assert house.last.path == "/v1/responses"


@pytest.mark.requirement("wire.official-clients")
async def test_embeddings_are_answered_and_charged(house: House) -> None:
    house.upstream.plays(answering(embeddings([0.5, -0.25], input_tokens=3, in_base64=True)))
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            answer = await client.embeddings.create(model="low", input="Say hello.")

        assert answer.data[0].embedding == [0.5, -0.25]
        assert await house.charged() == (3, 0)
    assert house.last.path == "/v1/embeddings"


@pytest.mark.requirement("wire.official-clients")
@pytest.mark.requirement("wire.keys-stay-apart")
async def test_a_message_is_answered_and_charged_and_the_keys_stay_apart(house: House) -> None:
    truth = Truth(input_tokens=25, output_tokens=6, cached_tokens=12, cache_write_tokens=8)
    house.upstream.plays(answering(message(truth)))
    with anyio.fail_after(SECONDS_MAX):
        async with house.anthropic() as client:
            other_version = client.default_headers["anthropic-version"]
            answer = await client.messages.create(
                model="claude",
                max_tokens=64,
                messages=[{"role": "user", "content": "Say hello."}],
                extra_headers={"anthropic-beta": "interleaved-thinking-2025-05-14"},
            )

        assert answer.content[0].type == "text"
        assert answer.content[0].text == "Hello there."
        assert await house.charged() == (25, 6)
    sent = house.last
    assert (sent.path, sent.body["model"]) == ("/v1/messages", "claude-sonnet-4-5")
    assert sent.headers["x-api-key"] == KEY
    assert sent.headers["anthropic-version"] == other_version
    assert sent.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"
    assert house.sidecar.token("agent") not in str(sent)


@pytest.mark.requirement("wire.official-clients")
async def test_a_beta_of_messages_is_served_with_its_header(house: House) -> None:
    house.upstream.plays(answering(message(Truth(input_tokens=25, output_tokens=6))))
    with anyio.fail_after(SECONDS_MAX):
        async with house.anthropic() as client:
            answer = await client.beta.messages.create(
                model="claude",
                max_tokens=64,
                messages=[{"role": "user", "content": "Say hello."}],
                betas=["context-management-2025-06-27"],
                context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
            )

    assert answer.usage.output_tokens == 6
    assert house.last.headers["anthropic-beta"] == "context-management-2025-06-27"
    assert house.last.body["context_management"]["edits"][0]["type"] == "clear_tool_uses_20250919"


@pytest.mark.requirement("wire.official-clients")
async def test_the_models_that_are_served_are_listed_for_both_clients(house: House) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as one, house.anthropic() as other:
            openais = {model.id async for model in one.models.list()}
            anthropics = {model.id async for model in other.models.list()}

    assert {"auto", "low", "claude", "gpt-4.1"} <= openais
    assert openais == anthropics


@pytest.mark.requirement("wire.official-clients")
@pytest.mark.requirement("wire.relayed-as-it-came")
@pytest.mark.parametrize("golden", CHAT, ids=lambda golden: golden.name.replace(" ", "-"))
async def test_a_chat_is_streamed_as_it_came(house: House, golden: Golden) -> None:
    house.upstream.plays(in_pieces(golden.content, 7), in_pieces(golden.content, 1_000))
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            stream = await client.chat.completions.create(**asked(golden), stream=True)
            chunks = [chunk async for chunk in stream]
            charged = await house.charged()
            async with client.chat.completions.with_streaming_response.create(
                **asked(golden), stream=True
            ) as raw:
                content = await raw.read()

    said = "".join(
        choice.delta.content or ""
        for chunk in chunks
        for choice in chunk.choices
        if choice.index == 0
    )
    assert said == golden.text
    assert content == golden.content
    assert charged == truth_of(golden) or not golden.reports
    assert charged >= truth_of(golden)


@pytest.mark.requirement("wire.official-clients")
@pytest.mark.requirement("wire.relayed-as-it-came")
@pytest.mark.parametrize("golden", MESSAGES, ids=lambda golden: golden.name.replace(" ", "-"))
async def test_a_message_is_streamed_as_it_came(house: House, golden: Golden) -> None:
    house.upstream.plays(in_pieces(golden.content, 5), in_pieces(golden.content, 1_000))
    fields = asked(golden, "claude")
    with anyio.fail_after(SECONDS_MAX):
        async with house.anthropic() as client:
            async with client.messages.stream(**fields) as stream:
                answer = await stream.get_final_message()
            charged = await house.charged()
            async with client.messages.with_streaming_response.create(**fields, stream=True) as raw:
                content = await raw.read()

    assert "".join(part.text for part in answer.content if part.type == "text") == golden.text
    assert content == golden.content
    assert charged == truth_of(golden)


@pytest.mark.requirement("wire.official-clients")
@pytest.mark.requirement("wire.relayed-as-it-came")
@pytest.mark.parametrize("golden", RESPONSES, ids=lambda golden: golden.name.replace(" ", "-"))
async def test_a_response_is_streamed_as_it_came(house: House, golden: Golden) -> None:
    house.upstream.plays(in_pieces(golden.content, 11), in_pieces(golden.content, 1_000))
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            async with client.responses.stream(**asked(golden)) as stream:
                events = [event async for event in stream]
            charged = await house.charged()
            async with client.responses.with_streaming_response.create(
                **asked(golden), stream=True
            ) as raw:
                content = await raw.read()

    last: Any = events[-1]
    assert last.response.output_text == golden.text
    assert content == golden.content
    assert charged == truth_of(golden)


@pytest.mark.requirement("wire.official-clients")
async def test_tools_images_and_json_mode_pass_through_both_clients(house: House) -> None:
    house.upstream.plays(
        answering(completion(content='{"name":"Köln"}')),
        answering(message(content=[{"type": "text", "text": WAVE}])),
    )
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    source: Any = {"type": "base64", "media_type": "image/png", "data": PNG}
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            parts: Any = [{"type": "text", "text": "Which city?"}, image]
            parsed = await client.chat.completions.parse(
                model="low",
                messages=[{"role": "user", "content": parts}],
                response_format=City,
            )
        sent_first = house.last.body
        async with house.anthropic() as other:
            answer = await other.messages.create(
                model="claude",
                max_tokens=64,
                messages=[{"role": "user", "content": [{"type": "image", "source": source}]}],
                tools=[{"name": "look", "input_schema": {"type": "object"}}],
            )

    assert parsed.choices[0].message.parsed == City(name="Köln")
    assert sent_first["messages"][0]["content"][1] == image
    assert sent_first["response_format"]["type"] == "json_schema"
    assert house.last.body["messages"][0]["content"][0]["source"] == source
    assert house.last.body["tools"][0]["name"] == "look"
    assert answer.content[0].type == "text"
    assert answer.content[0].text == WAVE


@pytest.mark.requirement("wire.counting-is-governed")
async def test_tokens_are_counted_by_the_provider_for_nothing(house: House) -> None:
    house.upstream.plays(answering({"input_tokens": 2095}))
    with anyio.fail_after(SECONDS_MAX):
        async with house.anthropic() as client:
            counted = await client.messages.count_tokens(
                model="claude", messages=[{"role": "user", "content": "Say hello."}]
            )

        assert counted.input_tokens == 2095
        assert await house.charged() == (0, 0)
    assert (house.last.path, house.last.body["model"]) == (
        "/v1/messages/count_tokens",
        "claude-sonnet-4-5",
    )


@pytest.mark.requirement("wire.denials-are-raised")
async def test_a_denial_is_a_rate_limit_that_neither_client_tries_again(house: House) -> None:
    ask: Any = {"messages": [{"role": "user", "content": "word " * 2_000}]}
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai(max_retries=3) as client, house.anthropic(max_retries=3) as other:
            with pytest.raises(openai.RateLimitError) as chat:
                await client.chat.completions.create(model="dear", **ask)
            with pytest.raises(openai.RateLimitError) as response:
                await client.responses.create(model="dear", input="word " * 2_000, stream=True)
            with pytest.raises(openai.RateLimitError) as embedding:
                await client.embeddings.create(model="dear", input="word " * 2_000)
            with pytest.raises(anthropic.RateLimitError) as said:
                await other.messages.create(model="dear-claude", max_tokens=9, **ask)

    for caught in (chat, response, embedding, said):
        assert caught.value.request.headers["x-stainless-retry-count"] == "0"
        denial = caught.value.response.json()["flyball"]["denial"]
        assert (denial["reason"], denial["budget_id"]) == ("budget_exhausted", "purse")
    assert chat.value.code == "budget_exhausted"
    assert (said.value.type, said.value.error_code) == ("rate_limit_error", "budget_exhausted")
    assert house.upstream.received == []


@pytest.mark.requirement("wire.official-clients")
async def test_what_providers_refuse_raises_the_clients_own_errors(house: House) -> None:
    refusal = {"error": {"message": "no", "type": "invalid_request_error", "code": "bad"}}
    overloaded = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    ask: Any = {"messages": [{"role": "user", "content": "Say hello."}]}
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai(max_retries=0) as client, house.anthropic(max_retries=0) as other:
            house.upstream.plays(failing(400, refusal))
            with pytest.raises(openai.BadRequestError, match="no"):
                await client.chat.completions.create(model="low", **ask)
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(model="gpt-9", **ask)
            with pytest.raises(openai.NotFoundError, match="not served"):
                await client.responses.retrieve("resp_1")
            with pytest.raises(anthropic.NotFoundError, match="not served"):
                await other.messages.batches.list()
            with pytest.raises(openai.BadRequestError, match="server_tools"):
                await client.responses.create(
                    model="low", input="x", tools=[{"type": "web_search"}]
                )
            with pytest.raises(anthropic.NotFoundError):
                await other.messages.create(model="claude-9", max_tokens=5, **ask)
            with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
                await other.messages.create(model="claude", max_tokens=-5, **ask)
            house.upstream.plays(failing(429, overloaded, retry_after="7"))
            with pytest.raises(anthropic.RateLimitError) as limited:
                await other.messages.create(model="limited-claude", max_tokens=5, **ask)

    assert limited.value.response.headers["retry-after"] == "7"
    assert limited.value.type == "rate_limit_error"


@pytest.mark.requirement("wire.ended-properly")
async def test_a_stream_that_breaks_off_is_raised_by_both_clients(house: House) -> None:
    chat, said = CHAT[0], MESSAGES[0]
    house.upstream.plays(broken_at(chat.content, 900), broken_at(said.content, 900))
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai(max_retries=0) as client, house.anthropic(max_retries=0) as other:
            stream = await client.chat.completions.create(**asked(chat), stream=True)
            with pytest.raises(openai.APIError, match="failed"):
                [chunk async for chunk in stream]
            with pytest.raises(anthropic.APIStatusError, match="failed"):
                async with other.messages.stream(**asked(said, "claude")) as events:
                    await events.get_final_message()


@pytest.mark.requirement("wire.keys-stay-apart")
async def test_a_stranger_is_refused_as_both_clients_expect(house: House) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client, house.anthropic() as other:
            with pytest.raises(openai.AuthenticationError):
                await client.with_options(api_key="fbt_nobody").models.list()
            with pytest.raises(anthropic.AuthenticationError):
                await other.with_options(api_key="fbt_nobody").models.list()
    assert house.upstream.received == []

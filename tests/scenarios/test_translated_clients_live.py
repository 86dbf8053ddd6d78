"""The providers' own clients against tiers whose provider speaks only the other's wire."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import anyio
import openai
import pytest
from scenarios.clients import KEY, SECONDS_MAX, House, a_house, truth_of

from runtime.model_gateway.counting.tokenizer import TOKEN_BYTES_MAX
from tests.model_upstream.chat_goldens import CHAT, completion
from tests.model_upstream.golden import Golden, Truth
from tests.model_upstream.messages_goldens import MESSAGES, message
from tests.model_upstream.upstream import (
    answering,
    broken_at,
    failing,
    in_pieces,
    streaming,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HI: Any = [{"role": "user", "content": "Say hello."}]
# As long as the longest of the scripted answers says that its request was.
LONG: Any = [{"role": "user", "content": "Say hello, please." * 50}]
LOOK = {"type": "object", "properties": {"at": {"type": "integer"}}}
CONFIG = """
[[provider]]
name = "open"
base_url = "{url}"
api_key_from = "SCRIPTED_KEY"

[[provider]]
name = "claudes"
kind = "anthropic"
base_url = "{url}"
api_key_from = "SCRIPTED_KEY"

[[provider]]
name = "plain"
kind = "local"
base_url = "{url}"

[[tier]]
name = "claude"
provider = "claudes"
model = "claude-sonnet-4-5"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[tier]]
name = "gpt"
provider = "open"
model = "gpt-4.1"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[tier]]
name = "short-claude"
provider = "claudes"
model = "claude-short"
output_tokens_max = 3
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[tier]]
name = "short-gpt"
provider = "open"
model = "gpt-short"
output_tokens_max = 3
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[tier]]
name = "either"
provider = "claudes"
model = "claude-first"
fallback = ["gpt"]
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[tier]]
name = "plain"
provider = "plain"
model = "llama"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[budget]]
id = "purse"
scope = "tenant"
limits = {{ cost_microusd = 100000000 }}
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def shared_house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with a_house(tmp_path_factory.mktemp("translated"), CONFIG, max_retries=0) as house:
        yield house


@pytest.fixture
def house(shared_house: House) -> House:
    shared_house.upstream.script.clear()
    shared_house.upstream.received.clear()
    return shared_house


@pytest.mark.requirement("model.translation-serves-official-clients")
async def test_openais_client_is_served_by_a_provider_of_messages(house: House) -> None:
    truth = Truth(input_tokens=25, output_tokens=6, cached_tokens=12, cache_write_tokens=8)
    said = {"type": "text", "text": "Let me look."}
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 3}}
    played = message(truth, content=[said, use], stop_reason="tool_use")
    house.upstream.plays(answering(played))
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": LOOK}}]
    asked: Any = [{"role": "system", "content": "Be brief."}, *HI]

    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            answer = await client.chat.completions.create(
                model="claude", messages=asked, tools=tools, max_completion_tokens=64
            )
        charged = await house.charged()

    [choice] = answer.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me look.")
    assert choice.message.tool_calls is not None
    [call] = choice.message.tool_calls
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("look", {"at": 3})
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (25, 6)
    # What is charged is what the provider's own wire says, whatever the client reads.
    assert charged == (25, 6)
    sent = house.upstream.received[-1]
    assert (sent.path, sent.headers["x-api-key"]) == ("/v1/messages", KEY)
    assert sent.body["max_tokens"] == 64
    assert sent.body["system"] == [{"type": "text", "text": "Be brief."}]
    assert sent.body["tools"] == [{"name": "look", "input_schema": LOOK}]


@pytest.mark.requirement("model.translation-serves-official-clients")
async def test_anthropics_client_is_served_by_a_provider_of_chat(house: House) -> None:
    function = {"name": "look", "arguments": '{"at": 3}'}
    call = {"id": "call_1", "type": "function", "function": function}
    house.upstream.plays(answering(completion(Truth(input_tokens=9, output_tokens=4))))
    house.upstream.plays(answering(completion(content=None, tool_calls=[call])))
    result: Any = [
        *HI,
        {"role": "assistant", "content": [{"type": "text", "text": "One moment."}]},
        {"role": "user", "content": "Go on."},
    ]

    with anyio.fail_after(SECONDS_MAX):
        async with house.anthropic() as client:
            answer = await client.messages.create(
                model="gpt", max_tokens=64, system="Be brief.", messages=result
            )
            charged = await house.charged()
            called = await client.messages.create(
                model="gpt",
                max_tokens=64,
                messages=HI,
                tools=[{"name": "look", "input_schema": LOOK}],
            )

    assert answer.content[0].type == "text"
    assert (answer.content[0].text, answer.stop_reason) == ("Hello there.", "end_turn")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (9, 4) == charged
    first, second = house.upstream.received
    assert (first.path, first.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert first.body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert second.body["tools"] == [
        {"type": "function", "function": {"name": "look", "parameters": LOOK}}
    ]
    [use] = called.content
    assert use.type == "tool_use"
    assert (use.id, use.name, use.input) == ("call_1", "look", {"at": 3})


@pytest.mark.requirement("model.translation-serves-official-clients")
@pytest.mark.parametrize("golden", MESSAGES, ids=lambda golden: golden.name.replace(" ", "-"))
async def test_a_stream_of_messages_reaches_openais_client(house: House, golden: Golden) -> None:
    house.upstream.plays(in_pieces(golden.content, 7))

    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            stream = await client.chat.completions.create(
                model="claude", messages=LONG, stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
        charged = await house.charged()

    said = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(said) == golden.text
    assert chunks[-1].usage is not None
    told = chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens
    assert told == charged == truth_of(golden)
    if golden.name == "tool use":
        assert arguments_of(chunks) == {
            "get_weather": {"city": "Köln"},
            "get_time": {},
        }


def arguments_of(chunks: list[Any]) -> dict[str, Any]:
    names: dict[int, str] = {}
    parts: dict[int, str] = {}
    for chunk in chunks:
        for call in (chunk.choices[0].delta.tool_calls or ()) if chunk.choices else ():
            names.setdefault(call.index, call.function.name)
            parts[call.index] = parts.get(call.index, "") + call.function.arguments
    return {names[index]: json.loads(text) for index, text in parts.items()}


@pytest.mark.requirement("model.translation-serves-official-clients")
@pytest.mark.parametrize("golden", CHAT[:-1], ids=lambda golden: golden.name.replace(" ", "-"))
async def test_a_stream_of_chat_reaches_anthropics_client(house: House, golden: Golden) -> None:
    house.upstream.plays(in_pieces(golden.content, 7))

    with anyio.fail_after(SECONDS_MAX):
        async with (
            house.anthropic() as client,
            client.messages.stream(model="gpt", max_tokens=64, messages=HI) as stream,
        ):
            answer = await stream.get_final_message()
        charged = await house.charged()

    assert house.upstream.received[-1].body["stream_options"] == {"include_usage": True}
    said = "".join(part.text for part in answer.content if part.type == "text")
    assert said == ("I cannot." if golden.name == "refusal" else golden.text)
    inputs = {part.name: part.input for part in answer.content if part.type == "tool_use"}
    if golden.name == "tool calls":
        assert inputs == {"get_weather": {"city": "Köln"}, "get_time": {}}
        assert answer.stop_reason == "tool_use"
    assert charged >= truth_of(golden)
    if golden.reports:
        usage = answer.usage
        cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        assert (usage.input_tokens + cached, usage.output_tokens) == charged == truth_of(golden)


@pytest.mark.requirement("model.translation-serves-official-clients")
async def test_a_translated_stream_is_cut_where_its_hold_ends(house: House) -> None:
    message, chat = lengthened(MESSAGES[0].content), lengthened(CHAT[0].content)
    house.upstream.plays(in_pieces(message, 1_000), in_pieces(chat, 1_000))

    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            stream = await client.chat.completions.create(
                model="short-claude", messages=HI, stream=True
            )
            chunks = [chunk async for chunk in stream]
        async with (
            house.anthropic() as other,
            other.messages.stream(model="short-gpt", max_tokens=64, messages=HI) as events,
        ):
            answer = await events.get_final_message()

    assert [choice.finish_reason for choice in chunks[-1].choices] == ["length"]
    assert answer.stop_reason == "max_tokens"


def lengthened(stream: bytes) -> bytes:
    """Return a stream whose words are as long as tokens can be: each is one at the least."""
    word = re.compile(rb'(?<="text":")[^"]+|(?<="content":")[^"]+')
    return word.sub(lambda found: found.group().rjust(TOKEN_BYTES_MAX), stream)


async def test_a_provider_that_leaves_out_its_last_words_ends_well_for_the_client(
    house: House,
) -> None:
    whole = CHAT[0]
    assert whole.events[-1] == b"data: [DONE]\n\n"
    house.upstream.plays(streaming(whole.events[:-1]))

    with anyio.fail_after(SECONDS_MAX):
        async with (
            house.anthropic() as client,
            client.messages.stream(model="gpt", max_tokens=64, messages=HI) as stream,
        ):
            answer = await stream.get_final_message()

    assert answer.stop_reason == "end_turn"


async def test_a_stream_that_breaks_off_is_raised_by_the_other_client_too(house: House) -> None:
    house.upstream.plays(broken_at(MESSAGES[0].content, 900), broken_at(CHAT[0].content, 900))

    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client, house.anthropic() as other:
            stream = await client.chat.completions.create(model="claude", messages=HI, stream=True)
            with pytest.raises(openai.APIError, match="failed"):
                [chunk async for chunk in stream]
            with pytest.raises(anthropic.APIStatusError, match="failed"):
                async with other.messages.stream(model="gpt", max_tokens=64, messages=HI) as events:
                    await events.get_final_message()


@pytest.mark.requirement("model.translation-refuses-by-name")
async def test_what_the_provider_cannot_be_told_is_refused_before_anything_is_sent(
    house: House,
) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client, house.anthropic() as other:
            with pytest.raises(openai.BadRequestError, match="logprobs") as chat:
                await client.chat.completions.create(model="claude", messages=HI, logprobs=True)
            with pytest.raises(anthropic.BadRequestError, match="top_k"):
                await other.messages.create(
                    model="gpt", max_tokens=5, messages=HI, extra_body={"top_k": 5}
                )
            with pytest.raises(anthropic.NotFoundError):
                await other.messages.count_tokens(model="gpt", messages=HI)

    assert chat.value.param == "logprobs"
    assert house.upstream.received == []


async def test_refusals_of_the_other_provider_raise_the_clients_own_errors(house: House) -> None:
    strange = {"type": "error", "error": {"type": "invalid_request_error", "message": "no such"}}
    full = {"error": {"message": "too long", "type": "invalid_request_error", "code": "x"}}
    house.upstream.plays(failing(400, strange), failing(400, full))

    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client, house.anthropic() as other:
            with pytest.raises(openai.BadRequestError, match="no such") as unfit:
                await client.chat.completions.create(model="claude", messages=HI)
            with pytest.raises(anthropic.BadRequestError, match="too long") as refused:
                await other.messages.create(model="gpt", max_tokens=5, messages=HI)

    assert (unfit.value.type, unfit.value.param) == ("invalid_request_error", None)
    assert refused.value.type == "invalid_request_error"


async def test_auto_is_a_tier_that_can_be_told_the_request(house: House) -> None:
    house.upstream.plays(answering(message()), answering(completion()))

    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            await client.chat.completions.create(model="auto", messages=HI)
            translated = house.last.path
            await client.chat.completions.create(model="auto", messages=HI, seed=7)

    assert translated == "/v1/messages"
    assert house.last.path == "/v1/chat/completions"


async def test_a_fallback_speaks_its_own_wire(house: House) -> None:
    broken = {"type": "error", "error": {"type": "api_error", "message": "broken"}}
    house.upstream.plays(failing(500, broken), answering(completion()))

    with anyio.fail_after(SECONDS_MAX):
        async with house.openai() as client:
            answer = await client.chat.completions.create(model="either", messages=HI)
        async with house.anthropic() as other:
            house.upstream.plays(failing(500, broken), in_pieces(CHAT[0].content, 1_000))
            async with other.messages.stream(model="either", max_tokens=64, messages=HI) as stream:
                said = await stream.get_final_text()

    assert answer.choices[0].message.content == "Hello there." == said
    paths = [request.path for request in house.upstream.received]
    assert paths == ["/v1/messages", "/v1/chat/completions"] * 2


async def test_a_server_that_knows_no_usage_of_streams_is_asked_without(house: House) -> None:
    unknown = {
        "error": {"message": "Unknown field: stream_options", "type": "invalid_request_error"}
    }
    silent = next(golden for golden in CHAT if golden.name == "no usage")
    house.upstream.plays(failing(400, unknown), in_pieces(silent.content, 1_000))

    with anyio.fail_after(SECONDS_MAX):
        async with (
            house.anthropic() as client,
            client.messages.stream(model="plain", max_tokens=64, messages=HI) as stream,
        ):
            said = await stream.get_final_text()
        charged = await house.charged()

    assert said == silent.text
    # Nobody reported it, so it is charged by a bound.
    assert charged >= truth_of(silent)
    first, second = house.upstream.received
    assert first.body["stream_options"] == {"include_usage": True}
    assert "stream_options" not in second.body

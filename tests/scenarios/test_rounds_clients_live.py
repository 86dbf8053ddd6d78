"""Answers in rounds and efforts, as the providers' own clients see them on each wire."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anthropic
import anyio
import openai
import pytest

from runtime.configuration.load import load_config
from runtime.serving import serving
from tests.model_upstream.chat_goldens import completion
from tests.model_upstream.messages_goldens import message
from tests.model_upstream.responses_goldens import whole
from tests.model_upstream.upstream import Upstream, an_upstream, answering

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECONDS_MAX = 120
CASCADE = {"Flyball-Strategy": "cascade"}
TIER = """
[[tier]]
name = "{name}"
provider = "{provider}"
model = "{name}-1"
input_usd_per_mtok = {usd}
output_usd_per_mtok = {usd}
output_tokens_max = 16000
"""
CONFIG = """
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"

[router]
answer_usd = 10

[strategy]
cascade = {{ samples = 0 }}

[[provider]]
name = "openai"
base_url = "{url}"
effort_style = "openai"

[[provider]]
name = "anthropic"
kind = "anthropic"
base_url = "{url}"
effort_style = "anthropic_budget"
"""
SCHEMA = {
    "type": "object",
    "properties": {"legs": {"type": "integer"}},
    "required": ["legs"],
    "additionalProperties": False,
}


@dataclass(frozen=True, kw_only=True)
class House:
    """Clients of a sidecar that runs, and the provider that it asks."""

    url: str
    key: str
    upstream: Upstream

    def cleared(self) -> "House":
        self.upstream.script.clear()
        self.upstream.received.clear()
        return self

    def openai(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=self.key)

    def anthropic(self) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(base_url=self.url, api_key=self.key)


@asynccontextmanager
async def a_house(folder: Path, provider: str, family: str) -> AsyncIterator[House]:
    tiers = "".join(
        TIER.format(name=f"{family}-{level}", provider=provider, usd=usd)
        for level, usd in (("low", 1), ("high", 5))
    )
    async with an_upstream() as upstream:
        path = folder / "flyball.toml"
        path.write_text(CONFIG.format(url=upstream.base_url) + tiers, encoding="utf-8")
        opened = serving(load_config(path), state_dir=folder / "state", store_url=None)
        async with opened as (sidecar, listeners):
            yield House(
                url=listeners.agents_url,
                key=sidecar.tokens.agent.read_text(encoding="utf-8").strip(),
                upstream=upstream,
            )


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def gpt_house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with a_house(tmp_path_factory.mktemp("gpt"), "openai", "gpt") as opened:
        yield opened


@pytest.fixture(scope="module")
async def claude_house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with a_house(tmp_path_factory.mktemp("claude"), "anthropic", "claude") as opened:
        yield opened


@pytest.fixture
def gpt(gpt_house: House) -> House:
    return gpt_house.cleared()


@pytest.fixture
def claude(claude_house: House) -> House:
    return claude_house.cleared()


@pytest.mark.requirement("model.rounds-stream-as-one-answer")
async def test_a_chat_in_rounds_is_a_stream_for_its_client(gpt: House) -> None:
    gpt.upstream.plays(answering(completion()), answering(completion(content='{"legs":8}')))
    said = ""
    with anyio.fail_after(SECONDS_MAX):
        async with gpt.openai() as client:
            stream = await client.chat.completions.create(
                model="auto",
                messages=[{"role": "user", "content": "How many legs has a spider?"}],
                response_format={"type": "json_object"},
                stream=True,
                stream_options={"include_usage": True},
                extra_headers=CASCADE,
            )
            chunks = [chunk async for chunk in stream]
    for chunk in chunks:
        if chunk.choices:
            said += chunk.choices[0].delta.content or ""

    assert json.loads(said) == {"legs": 8}
    assert chunks[-1].usage is not None
    assert [one.body["model"] for one in gpt.upstream.received] == ["gpt-low-1", "gpt-high-1"]


@pytest.mark.requirement("model.rounds-stream-as-one-answer")
async def test_a_response_in_rounds_is_a_stream_for_its_client(gpt: House) -> None:
    called = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "count",
        "arguments": '{"legs":8}',
        "status": "completed",
    }
    gpt.upstream.plays(answering(whole()), answering(whole(output=[called])))
    tool = {"type": "function", "name": "count", "parameters": SCHEMA, "strict": True}
    with anyio.fail_after(SECONDS_MAX):
        async with (
            gpt.openai() as client,
            client.responses.stream(
                model="auto",
                input="How many legs has a spider?",
                tools=[tool],  # type: ignore[list-item]
                tool_choice="required",
                extra_headers=CASCADE,
            ) as stream,
        ):
            kinds = [event.type async for event in stream]
            answer = await stream.get_final_response()

    assert [item.type for item in answer.output] == ["function_call"]
    assert "response.function_call_arguments.delta" in kinds
    assert kinds[-1] == "response.completed"
    assert len(gpt.upstream.received) == 2
    assert "<draft " in json.dumps(gpt.upstream.received[1].body["input"])


@pytest.mark.requirement("model.rounds-stream-as-one-answer")
async def test_a_message_in_rounds_is_a_stream_for_its_client(claude: House) -> None:
    used = {"type": "tool_use", "id": "toolu_1", "name": "count", "input": {"legs": 8}}
    claude.upstream.plays(
        answering(message()),
        answering(message(content=[used], stop_reason="tool_use")),
    )
    with anyio.fail_after(SECONDS_MAX):
        async with (
            claude.anthropic() as client,
            client.messages.stream(
                model="auto",
                max_tokens=500,
                messages=[{"role": "user", "content": "How many legs has a spider?"}],
                tools=[{"name": "count", "input_schema": SCHEMA}],
                tool_choice={"type": "any"},
                extra_headers=CASCADE,
            ) as stream,
        ):
            answer = await stream.get_final_message()

    assert answer.stop_reason == "tool_use"
    assert answer.content[0].type == "tool_use"
    assert answer.content[0].input == {"legs": 8}
    asked = [one.body["model"] for one in claude.upstream.received]
    assert asked == ["claude-low-1", "claude-high-1"]


@pytest.mark.requirement("model.effort-in-each-providers-terms")
async def test_an_effort_arrives_on_each_wire_in_its_own_parameter(
    gpt: House, claude: House
) -> None:
    effort = {"Flyball-Effort": "2"}
    gpt.upstream.plays(answering(completion()), answering(whole()))
    claude.upstream.plays(answering(message()), answering(message()))
    with anyio.fail_after(SECONDS_MAX):
        async with gpt.openai() as of_openai, claude.anthropic() as of_anthropic:
            await of_openai.chat.completions.create(
                model="gpt-low",
                messages=[{"role": "user", "content": "Why?"}],
                extra_headers=effort,
            )
            await of_openai.responses.create(model="gpt-low", input="Why?", extra_headers=effort)
            for headers in (effort, {"Flyball-Mode": "instant"}):
                await of_anthropic.messages.create(
                    model="claude-low",
                    max_tokens=1_000,
                    messages=[{"role": "user", "content": "Why?"}],
                    extra_headers=headers,
                )

    chat, response = (one.body for one in gpt.upstream.received)
    thinking, instant = (one.body for one in claude.upstream.received)
    assert chat["reasoning_effort"] == "high"
    assert response["reasoning"] == {"effort": "high"}
    assert thinking["thinking"] == {"type": "enabled", "budget_tokens": 8_192}
    assert thinking["max_tokens"] == 9_192
    assert instant["thinking"] == {"type": "disabled"}
    assert instant["max_tokens"] == 1_000

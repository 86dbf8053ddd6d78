"""Long sessions through a whole sidecar: what gives way, is read back, and is shown."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from runtime.wiring import Sidecar
from tests.model_upstream.upstream import Upstream, an_upstream, answering
from tests.runtime.memory.house import CONFIG, House, a_sidecar, settled_in
from tests.runtime.model_gateway.bench import completion
from tests.runtime.model_gateway.compaction.conversations import Turn, chat

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECONDS_MAX = 100
MODELS = """
[[provider]]
name = "lab"
base_url = "{base_url}"
[[tier]]
name = "low"
provider = "lab"
model = "small-1"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"
output_tokens_max = 100
[[memory.compaction]]
models = ["low"]
above_tokens = 2000
keep_turns = 2
fold = "{fold}"
"""
INDEX = re.compile(r"exp_[a-z2-7]{16}")


@dataclass
class Chat:
    """A house whose model is scripted."""

    house: House
    upstream: Upstream

    async def ask(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages that the provider got."""
        self.upstream.always = answering(completion())
        async with self.house.client() as client:
            body = {"model": "low", "messages": messages}
            answer = await client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        sent: list[dict[str, Any]] = self.upstream.received[-1].body["messages"]
        return sent

    async def context(self, **asked: Any) -> dict[str, Any]:
        answer = await self.house.post("context", asked)
        assert answer.status_code == 200, answer.text
        shape: dict[str, Any] = answer.json()
        return shape


@pytest.fixture(scope="module", params=["results", "turns"])
async def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Sidecar, Upstream]]:
    folder = tmp_path_factory.mktemp("contexts")
    async with an_upstream() as upstream:
        models = MODELS.format(base_url=upstream.base_url, fold=request.param)
        # Exact bytes are held and charged as the base64 that they come in.
        roomy = CONFIG.replace("memory_read_tokens = 20000", "memory_read_tokens = 100000")
        async with a_sidecar(folder, roomy + models) as sidecar:
            yield sidecar, upstream


@pytest.fixture
async def chatting(opened: tuple[Sidecar, Upstream], request: pytest.FixtureRequest) -> Chat:
    sidecar, upstream = opened
    return Chat(await settled_in(sidecar, f"{request.node.name[:40]}-{id(request)}"), upstream)


@pytest.mark.requirement("memory.compaction-replaces-old-results")
async def test_what_gave_way_in_a_chat_is_read_by_its_agent_and_by_nobody_else(
    chatting: Chat,
) -> None:
    asked = chat([Turn(said=f"And day {number}?") for number in range(12)])
    results = {one["content"] for one in asked if one["role"] == "tool"}
    with anyio.fail_after(SECONDS_MAX):
        sent = await chatting.ask(asked)
        again = await chatting.ask(asked)
        assert sent == again
        assert len(json.dumps(sent)) < len(json.dumps(asked)) / 2
        read = set()
        for index in dict.fromkeys(INDEX.findall(json.dumps(sent))):
            found = await chatting.house.get(f"experiences/{index}/content")
            assert found.status_code == 200, found.text
            read.add(found.text)
            other = await chatting.house.get(f"experiences/{index}/content", agent="bob")
            assert other.status_code == 404
    shown = {one["content"] for one in sent if one["role"] == "tool"}
    assert len(read & results) >= 8
    assert shown - results == set() or "result kept as" in str(shown - results)


@pytest.mark.requirement("memory.workspace-bounded")
async def test_a_session_is_told_where_it_stands_within_its_tokens(chatting: Chat) -> None:
    with anyio.fail_after(SECONDS_MAX):
        await chatting.ask(chat([Turn(said=f"And day {number}?") for number in range(12)]))
        note = {"content": "Decided: fly on day 3.", "kind": "decision", "tags": ["pinned"]}
        await chatting.house.post("experiences", note)
        small = await chatting.context(max_tokens=400)
        large = await chatting.context(max_tokens=4_000, focus="which day do we fly?")
    assert small["left_out"]["count"] > 0
    for shape, most in ((small, 400), (large, 4_000)):
        assert shape["tokens"] <= most
        assert shape["rooms"]["pinned"] == ["Decided: fly on day 3."]
    assert len(large["rooms"]["kept"]) > len(small["rooms"].get("kept", ()))
    assert "FB01000" in json.dumps(large["rooms"]["known"])


async def test_a_session_that_kept_nothing_is_told_so(chatting: Chat) -> None:
    shape = await chatting.house.post("context", {}, **{"Flyball-Session": "new"})
    assert shape.json()["rooms"] == {}

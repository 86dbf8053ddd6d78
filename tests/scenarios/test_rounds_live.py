"""A real sidecar before a scripted provider: answers in rounds, and efforts that arrive."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from runtime.configuration.load import load_config
from runtime.serving import serving
from tests.model_upstream.upstream import Play, Upstream, an_upstream

pytestmark = pytest.mark.anyio

CONFIG = """
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"

[[provider]]
name = "scripted"
base_url = "{base_url}"

[[tier]]
name = "low"
provider = "scripted"
model = "small"
input_usd_per_mtok = 1
output_usd_per_mtok = 2
effort_style = "openai"

[[tier]]
name = "high"
provider = "scripted"
model = "large"
input_usd_per_mtok = 50
output_usd_per_mtok = 100

[[budget]]
id = "money"
scope = "tenant"
limits = {{ cost_microusd = 1000000 }}
"""
STRATEGY = """
[router]
answer_usd = 1

[strategy]
cascade = { samples = 0 }
examples = { file = "worked.jsonl" }
"""
WORKED = {"query": "How many legs has a beetle?", "answer": '{"legs": 6}'}


@dataclass(frozen=True, kw_only=True)
class Running:
    """A sidecar that runs, and the secrets of its agent and administrator."""

    agents: str
    admin: str
    agent_token: str
    admin_token: str
    upstream: Upstream

    async def chat(self, *, headers: dict[str, str], **fields: Any) -> httpx.Response:
        question = {"role": "user", "content": "How many legs has a spider?"}
        body = {"model": "auto", "messages": [question], **fields}
        known = {"Authorization": f"Bearer {self.agent_token}", **headers}
        async with httpx.AsyncClient(trust_env=False, timeout=60, headers=known) as http:
            return await http.post(f"{self.agents}/v1/chat/completions", json=body)

    async def record(self, call_id: str) -> dict[str, Any]:
        known = {"Authorization": f"Bearer {self.admin_token}"}
        async with httpx.AsyncClient(trust_env=False, timeout=60, headers=known) as http:
            answer = await http.get(f"{self.admin}/admin/v1/calls/{call_id}")
            found: dict[str, Any] = answer.json()
            return found


def says(text: str) -> Play:
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
    return Play(steps=(json.dumps(answer).encode(),))


@asynccontextmanager
async def a_sidecar(folder: Path, *, strategy: str = STRATEGY) -> AsyncIterator[Running]:
    async with an_upstream() as upstream:
        path = folder / "flyball.toml"
        path.write_text(CONFIG.format(base_url=upstream.base_url) + strategy, encoding="utf-8")
        (folder / "worked.jsonl").write_text(json.dumps(WORKED), encoding="utf-8")
        opened = serving(load_config(path), state_dir=folder / "state", store_url=None)
        async with opened as (sidecar, listeners):
            yield Running(
                agents=listeners.agents_url,
                admin=listeners.admin_url,
                agent_token=sidecar.tokens.agent.read_text(encoding="utf-8").strip(),
                admin_token=sidecar.tokens.admin.read_text(encoding="utf-8").strip(),
                upstream=upstream,
            )


@pytest.mark.requirement("model.cascade-escalates-what-is-unusable")
async def test_a_sidecar_answers_in_two_rounds_that_are_both_on_its_books(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(120):
        async with a_sidecar(tmp_path) as sidecar:
            sidecar.upstream.plays(says("eight legs"), says('{"legs": 8}'))
            answer = await sidecar.chat(
                headers={"Flyball-Strategy": "cascade"},
                response_format={"type": "json_object"},
            )
            rounds = answer.json()["flyball"]["strategy"]["rounds"]
            records = [await sidecar.record(one["call_id"]) for one in rounds]

    assert answer.json()["choices"][0]["message"]["content"] == '{"legs": 8}'
    assert [one["tier"] for one in rounds] == ["low", "high"]
    assert [one["charged"]["cost_microusd"] for one in records] == [20, 1_000]
    assert records[0]["turn"] == records[1]["turn"]
    assert f"of {rounds[0]['call_id']}" in records[1]["rule"]
    asked = sidecar.upstream.received[0].body
    assert 'Answer: {"legs": 6}' in asked["messages"][0]["content"]


async def test_samples_are_asked_for_anew_though_answers_are_kept(tmp_path: Path) -> None:
    kept = '[kept_answers]\nkeep = "always"\n'
    sampling = "[router]\nanswer_usd = 0.2\n[strategy]\ncascade = { samples = 2 }\n"
    with anyio.fail_after(120):
        async with a_sidecar(tmp_path, strategy=kept + sampling) as sidecar:
            sidecar.upstream.always = says("eight")
            for _ in range(2):
                answer = await sidecar.chat(headers={"Flyball-Strategy": "cascade"})

    rounds = answer.json()["flyball"]["strategy"]["rounds"]
    assert [one["tier"] for one in rounds[:3]] == ["low"] * 3
    drafts = [one for one in sidecar.upstream.received if one.body["model"] == "small"]
    # The draft is kept from the first time, the samples of the second are two more.
    assert len(drafts) == 1 + 2 + 2


@pytest.mark.requirement("model.effort-in-each-providers-terms")
async def test_an_effort_arrives_at_the_provider_as_its_own_parameter(tmp_path: Path) -> None:
    with anyio.fail_after(120):
        async with a_sidecar(tmp_path) as sidecar:
            sidecar.upstream.always = says("eight")
            await sidecar.chat(model="low", headers={"Flyball-Effort": "2"})
            own = await sidecar.chat(
                model="low", headers={"Flyball-Effort": "2"}, reasoning_effort="minimal"
            )
            none = await sidecar.chat(model="high", headers={"Flyball-Effort": "2"})

    efforts = [one.body.get("reasoning_effort") for one in sidecar.upstream.received]
    assert efforts == ["high", "minimal", None]
    assert "the client's own" in own.json()["flyball"]["why"]
    assert "nothing is sent" in none.json()["flyball"]["why"]


async def test_an_outcome_of_a_cascade_teaches_what_is_expected_of_its_tier(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(120):
        async with a_sidecar(tmp_path) as sidecar:
            sidecar.upstream.always = says("eight")
            answer = await sidecar.chat(headers={"Flyball-Strategy": "cascade"})
            call_id = answer.json()["flyball"]["call_id"]
            known = {"Authorization": f"Bearer {sidecar.agent_token}"}
            async with httpx.AsyncClient(trust_env=False, timeout=60, headers=known) as http:
                reported = await http.post(
                    f"{sidecar.agents}/v1/outcomes",
                    json={"call_id": call_id, "score": 0.0, "source": "tests"},
                )
            again = await sidecar.chat(headers={"Flyball-Strategy": "cascade"})

    assert reported.is_success, reported.text
    whys = [one.json()["flyball"]["strategy"]["why"] for one in (answer, again)]
    assert whys[0] != whys[1]

"""A sidecar before model providers that limit, refuse and fail, as its administrator sees it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.configuration.load import load_config
from runtime.serving import serving
from tests.model_upstream.upstream import Upstream, an_upstream, answering, failing

pytestmark = pytest.mark.anyio

CONFIG = """
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"

# Metrics are of the whole process, so that no other test may use these names.
[[provider]]
name = "live-lab"
base_url = "{lab}"
api_keys_from = ["LAB_KEY_A", "LAB_KEY_B"]

[[provider]]
name = "live-spare"
kind = "local"
base_url = "{spare}"
breaker = {{ calls_min = 1 }}

[[tier]]
name = "low"
provider = "live-lab"
model = "small-1"
input_usd_per_mtok = 1
output_usd_per_mtok = 2
fallback = ["spare"]

[[tier]]
name = "spare"
provider = "live-spare"
model = "small-2"
input_usd_per_mtok = 0
output_usd_per_mtok = 0
"""
WELL = answering(
    {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "small-1",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "well"},
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
)
LIMITED = failing(429, {"error": {"message": "slow down"}}, Retry_After="40")
REFUSED = failing(401, {"error": {"message": "bad key"}})
BROKEN = failing(500, {"error": {"message": "it broke"}})


@dataclass(frozen=True, kw_only=True)
class Running:
    """A sidecar with its two providers."""

    lab: Upstream
    spare: Upstream
    agents: str
    admin: str
    agent_token: str
    admin_token: str

    async def chat(self) -> dict[str, Any]:
        body = {"model": "low", "messages": [{"role": "user", "content": "Why?"}]}
        answer = await self._send("POST", f"{self.agents}/v1/chat/completions", body)
        whole: dict[str, Any] = answer.json()
        return whole

    async def ask(self, method: str, path: str) -> Any:
        return (await self._send(method, f"{self.admin}/admin/v1/{path}")).json()

    async def keys(self) -> list[tuple[str, str]]:
        """Return the keys of the first provider, each with its state."""
        (lab, _) = (await self.ask("GET", "providers"))["items"]
        return [(key["from"], key["state"]) for key in lab["keys"]]

    async def metric(self, name: str, **labels: str) -> float:
        text = (await self._send("GET", f"{self.admin}/metrics")).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    async def _send(self, method: str, url: str, body: object = None) -> httpx.Response:
        token = self.agent_token if url.startswith(self.agents) else self.admin_token
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(trust_env=False, timeout=60, headers=headers) as http:
            return await http.request(method, url, json=body)


@asynccontextmanager
async def a_sidecar(folder: Path) -> AsyncIterator[Running]:
    async with an_upstream() as lab, an_upstream() as spare:
        path = folder / "flyball.toml"
        path.write_text(CONFIG.format(lab=lab.base_url, spare=spare.base_url))
        opened = serving(
            load_config(path), state_dir=folder / "state", reread=lambda: load_config(path)
        )
        async with opened as (sidecar, listeners):
            yield Running(
                lab=lab,
                spare=spare,
                agents=listeners.agents_url,
                admin=listeners.admin_url,
                agent_token=sidecar.tokens.agent.read_text().strip(),
                admin_token=sidecar.tokens.admin.read_text().strip(),
            )


@pytest.mark.requirement("model.keys-rest")
@pytest.mark.requirement("model.refused-key-is-out")
@pytest.mark.requirement("model.breaker-leaves-a-provider-alone")
async def test_an_administrator_sees_keys_rest_and_go_and_a_reload_takes_them_in_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY_A", "sk-a-0123456789abcdef")
    monkeypatch.setenv("LAB_KEY_B", "sk-b-0123456789abcdef")
    with anyio.fail_after(90):
        async with a_sidecar(tmp_path) as sidecar:
            sidecar.lab.plays(LIMITED, REFUSED)
            sidecar.spare.plays(WELL, BROKEN)
            mended = await sidecar.chat()
            broken = await sidecar.chat()
            refused = await sidecar.chat()

            seen = await sidecar.keys()
            shown = await sidecar.ask("GET", "providers")
            resting = await sidecar.metric(
                "flyball_provider_keys", backend="live-lab", state="resting"
            )
            opened = await sidecar.metric("flyball_breaker", kind="model", backend="live-spare")
            fallbacks = await sidecar.metric("flyball_fallbacks_total", backend="live-lab")
            await sidecar.ask("POST", "reload")
            after = await sidecar.keys()

    assert mended["flyball"]["tier"] == "spare"
    assert mended["flyball"]["fallback_after"][0]["why"] == "key_refused"
    assert broken["error"]["code"] == "provider_failed"
    assert refused["error"]["code"] == "provider_rate_limited"
    assert seen == [("LAB_KEY_A", "resting"), ("LAB_KEY_B", "out")]
    assert after == [("LAB_KEY_A", "resting"), ("LAB_KEY_B", "ready")]
    assert "0123456789abcdef" not in str(shown)
    assert [one["breaker"]["phase"] for one in shown["items"]] == ["closed", "open"]
    assert (resting, opened, fallbacks) == (1, 2, 2)

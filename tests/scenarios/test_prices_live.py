"""A price list that is replaced while sidecars run, and what their records then say."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from pydantic import SecretStr
from scenarios.model import a_model

from runtime.configuration.load import load_config
from runtime.serving import serving

pytestmark = pytest.mark.anyio

SHARED_WITHIN_SECONDS = 60
CONFIG = """
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"

[pricing]
file = "prices.toml"

[[provider]]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"

[[tier]]
name = "low"
provider = "scripted"
model = "scripted-small"
"""
PRICES = """
[[price]]
model = "scripted-*"
input_microusd_per_mtok = 1000000
output_microusd_per_mtok = 0
"""
THREE_TIMES = {
    "model": "scripted-*",
    "input_microusd_per_mtok": 3_000_000,
    "output_microusd_per_mtok": 0,
}


@dataclass(frozen=True, kw_only=True)
class Running:
    """A sidecar that runs, and the secrets of its agent and administrator."""

    agents: str
    admin: str
    agent_token: str
    admin_token: str

    async def ask(self, method: str, path: str, json: Any = None) -> Any:
        return await _ask(method, f"{self.admin}/admin/v1/{path}", self.admin_token, json)

    async def cost(self) -> tuple[int, str]:
        """Return what a model call costs for each token of input, and by which prices."""
        body = {"model": "low", "messages": [{"role": "user", "content": "Why?"}]}
        answer = await _ask("POST", f"{self.agents}/v1/chat/completions", self.agent_token, body)
        usage = answer["flyball"]["usage"]
        record = await self.ask("GET", f"calls/{answer['flyball']['call_id']}")
        assert record["charged"]["cost_microusd"] == usage["cost_microusd"]
        assert record["usage_source"] == answer["flyball"]["usage_source"] == "provider"
        each, rest = divmod(usage["cost_microusd"], usage["input_tokens"])
        assert rest == 0
        return each, record["price_version"]


async def _ask(method: str, url: str, token: str, json: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(trust_env=False, timeout=60, headers=headers) as http:
        answer = await http.request(method, url, json=json)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


@asynccontextmanager
async def a_sidecar(
    folder: Path, port: int, *, store_url: str | None = None, tokens_of: Running | None = None
) -> AsyncIterator[Running]:
    path = _written(folder, port)
    secret = None if store_url is None else SecretStr(store_url)
    opened = serving(load_config(path), state_dir=folder / "state", store_url=secret)
    async with opened as (sidecar, listeners):
        yield Running(
            agents=listeners.agents_url,
            admin=listeners.admin_url,
            agent_token=tokens_of.agent_token if tokens_of else _secret(sidecar.tokens.agent),
            admin_token=tokens_of.admin_token if tokens_of else _secret(sidecar.tokens.admin),
        )


def _written(folder: Path, port: int) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "prices.toml").write_text(PRICES)
    path = folder / "flyball.toml"
    path.write_text(CONFIG.format(port=port))
    return path


def _secret(path: Path) -> str:
    return path.read_text().strip()


@pytest.mark.requirement("price.list-replaced-live")
@pytest.mark.requirement("price.list-survives")
async def test_a_list_that_is_put_prices_the_next_call_and_those_after_a_restart(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(60):
        async with a_model() as port:
            async with a_sidecar(tmp_path, port) as sidecar:
                of_file = await sidecar.ask("GET", "prices")
                before = await sidecar.cost()
                put = await sidecar.ask("PUT", "prices", {"prices": [THREE_TIMES]})
                after = await sidecar.cost()
            async with a_sidecar(tmp_path, port, tokens_of=sidecar) as sidecar:
                restarted = await sidecar.cost()
                await sidecar.ask("DELETE", "prices")
                by_file = await sidecar.cost()

    assert before == by_file == (1, of_file["version"])
    assert after == restarted == (3, put["version"])


@pytest.mark.slow
@pytest.mark.requirement("price.list-shared")
async def test_a_list_that_is_put_at_one_sidecar_soon_prices_the_calls_of_the_other(
    tmp_path: Path, database: str
) -> None:
    with anyio.fail_after(60):
        async with (
            a_model() as port,
            a_sidecar(tmp_path / "one", port, store_url=database) as one,
            a_sidecar(tmp_path / "two", port, store_url=database, tokens_of=one) as two,
        ):
            of_file = (await two.cost())[1]
            put = (await one.ask("PUT", "prices", {"prices": [THREE_TIMES]}))["version"]
            await _becomes(two, (3, put))
            await two.ask("DELETE", "prices")
            await _becomes(one, (1, of_file))


async def _becomes(sidecar: Running, cost: tuple[int, str]) -> None:
    """Ask until calls cost so much; another sidecar learns it by the clock, by no event."""
    with anyio.fail_after(SHARED_WITHIN_SECONDS):
        while await sidecar.cost() != cost:
            await anyio.sleep(0.02)

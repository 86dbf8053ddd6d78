"""A router in several processes: one keeps and learns, all of them choose by what is in force."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import numpy as np
import pytest
from scenarios.model import TWO_TIERS, a_model
from scenarios.process import SidecarProcess

from runtime.cli.command_line import run
from runtime.workers.places import worker_socket

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WORKERS = 2
CONFIG = (
    """
[router]
mode = "learned"
answer_usd = 0.005
explore_percent = 0
"""
    + TWO_TIERS
)


@pytest.fixture
async def crew(tmp_path: Path) -> AsyncIterator[SidecarProcess]:
    async with a_model() as port:
        process = SidecarProcess(folder=tmp_path, extra=CONFIG.format(port=port), workers=WORKERS)
        await anyio.to_thread.run_sync(process.start)
        try:
            yield process
        finally:
            await anyio.to_thread.run_sync(process.stop)


def recorded(path: Path) -> None:
    """Write outcomes in which only the strong tier can prove anything."""
    dice = np.random.default_rng(1)
    names = ("Ann", "the primes", "a graph", "Tom", "the series", "a matrix", "Lisbon")
    with path.open("w") as file:
        for number in range(240):
            hard = number % 2 == 0
            verb = "prove the theorem about" if hard else "say hello to"
            tiers = {
                "low": {"score": 0.0 if hard else 1.0, "cost": 0.00005},
                "high": {"score": 1.0, "cost": 0.0005},
            }
            prompt = f"{verb} {names[dice.integers(len(names))]} {number}"
            file.write(json.dumps({"id": number, "prompt": prompt, "tiers": tiers}) + "\n")


async def answered(crew: SidecarProcess, worker: int, prompt: str) -> dict[str, Any]:
    transport = httpx.AsyncHTTPTransport(uds=str(worker_socket(crew.state, worker)))
    async with httpx.AsyncClient(
        base_url=crew.urls["agents"].removesuffix("/mcp"),
        transport=transport,
        timeout=60,
        headers={"Authorization": f"Bearer {crew.token('agent')}"},
    ) as client:
        body = {"model": "auto", "messages": [{"role": "user", "content": prompt}]}
        answer = await client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()["flyball"]
        said = {"call_id": told["call_id"], "score": 1.0, "source": "user"}
        # Whoever made the choice may not have told the keeper of it yet.
        heard = await client.post("/v1/outcomes", json=said)
        assert heard.status_code == 200, heard.text
        return told


@pytest.mark.timeout(300)
@pytest.mark.requirement("router.models-versioned")
@pytest.mark.requirement("router.log-kept")
async def test_a_model_that_is_promoted_chooses_in_every_worker_and_is_rolled_back_in_all(
    crew: SidecarProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = crew.folder / "asked.toml"
    admin = crew.urls["admin"].removeprefix("http://").partition("/")[0]
    asked.write_text(f'[listen]\nadmin = "{admin}"\n')
    outcomes = crew.folder / "outcomes.jsonl"
    recorded(outcomes)

    async def command(*words: str) -> Any:
        capsys.readouterr()
        where = ["--config", str(asked), "--state", str(crew.state)]
        status = await anyio.to_thread.run_sync(partial(run, ["router", *where, *words, "--json"]))
        told = capsys.readouterr().out
        assert status == 0, told
        return json.loads(told)

    async def until(worker: int, why: str) -> str:
        """Return the tier once it is chosen so; workers follow the keeper by the clock."""
        while (told := await answered(crew, worker, "prove the theorem about Ann"))["why"] != why:
            await anyio.sleep(0.1)
        return str(told["tier"])

    with anyio.fail_after(280):
        cold = [await answered(crew, worker, "say hello") for worker in (1, 2)]
        trained = await command("train", "--outcomes", str(outcomes), "--promote")
        learned = [await until(worker, "learned (value)") for worker in (1, 2)]
        await command("rollback")
        rules = [await until(worker, "default tier") for worker in (1, 2)]
        while sum(tier["rated"] for tier in (await command("show"))["tiers"]) < 6:
            await anyio.sleep(0.1)

    assert [told["why"] for told in cold] == ["default tier"] * 2
    assert trained["promoted"]["evidence"]["source"] == "outcomes"
    assert learned == ["high", "high"]
    assert rules == ["low", "low"]

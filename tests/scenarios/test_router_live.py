"""A router that learns from its own outcomes: a real sidecar, two tiers, and prompts of two kinds.

The weak tier is as good as the strong one for what is easy, and useless for what is hard. Nobody
tells the router that: it hears what each answer was worth, and of nothing else.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import numpy as np
import pytest
from scenarios.model import TWO_TIERS, a_model

from runtime import routing
from runtime.cli.command_line import run
from runtime.configuration.load import load_config
from runtime.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CONFIG = (
    """
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"

[router]
mode = "learned"
explore_percent = 50
trusted_reporters = ["agent"]
answer_usd = 0.005
"""
    + TWO_TIERS
)
HARD = ("prove the theorem", "derive a bound for", "show that the sum equals", "prove by induction")
EASY = ("say hello to", "list some names like", "write a short note to", "greet my friend")
THINGS = ("Ann", "the primes", "a graph", "Tom", "the series", "a matrix", "the queue", "Lisbon")


@dataclass
class Live:
    """A sidecar that runs, what asks it, and the dice of the prompts."""

    agents: str
    http: httpx.AsyncClient
    cli: tuple[str, ...]
    out: Callable[[], str]
    dice: np.random.Generator = field(default_factory=lambda: np.random.default_rng(8))
    asked: int = 0

    def prompt(self, *, hard: bool) -> str:
        kinds = HARD if hard else EASY
        return f"{kinds[self.dice.integers(4)]} {THINGS[self.dice.integers(8)]}"

    async def answer(self, prompt: str, **headers: str) -> tuple[str, str]:
        """Return the tier that answered, and the call."""
        self.asked += 1
        body = {"model": "auto", "messages": [{"role": "user", "content": prompt}]}
        session = {"Flyball-Session": f"run-{self.asked}", **headers}
        answer = await self.http.post(
            f"{self.agents}/v1/chat/completions", json=body, headers=session
        )
        assert answer.status_code == 200, answer.text
        told = answer.json()["flyball"]
        return told["tier"], told["call_id"]

    async def rate(self, count: int, worth: Callable[[str, bool], float]) -> None:
        """Ask so many prompts and say what the answers were worth."""
        for _ in range(count):
            hard = bool(self.dice.random() < 0.5)
            tier, call_id = await self.answer(self.prompt(hard=hard))
            said = {"call_id": call_id, "score": worth(tier, hard), "source": "tests"}
            heard = await self.http.post(f"{self.agents}/v1/outcomes", json=said)
            assert heard.status_code == 200, heard.text

    async def tiers(self, count: int, *, hard: bool) -> Counter[str]:
        """Return which tiers are taken for a kind of prompt when nothing is explored."""
        answers = [
            await self.answer(self.prompt(hard=hard), **{"Flyball-Explore": "off"})
            for _ in range(count)
        ]
        return Counter(tier for tier, _ in answers)

    async def command(self, *words: str) -> Any:
        """Return what a command answers in JSON."""
        self.out()
        status = await anyio.to_thread.run_sync(
            partial(run, [words[0], *self.cli, *words[1:], "--json"])
        )
        told = self.out()
        assert status == 0, told
        return json.loads(told)

    async def until(self, is_so: Callable[[Any], bool]) -> Any:
        """Return how the router stands once it is so; it learns by the clock, by no event."""
        with anyio.fail_after(60):
            while not is_so(standing := await self.command("router", "show")):
                await anyio.sleep(0.1)
        return standing


@pytest.fixture
async def live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Live]:
    monkeypatch.setattr(routing, "dice", lambda: np.random.default_rng(5))
    async with a_model() as port, _sidecar(tmp_path, port, capsys) as found:
        yield found


@asynccontextmanager
async def _sidecar(
    folder: Path, port: int, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Live]:
    path, state = folder / "flyball.toml", folder / "state"
    path.write_text(CONFIG.format(port=port))
    async with serving(load_config(path), state_dir=state) as (sidecar, listeners):
        asked = folder / "asked.toml"
        asked.write_text(f'[listen]\nadmin = "{listeners.admin_url.removeprefix("http://")}"\n')
        token = sidecar.tokens.agent.read_text().strip()
        async with httpx.AsyncClient(
            trust_env=False, timeout=60, headers={"Authorization": f"Bearer {token}"}
        ) as http:
            yield Live(
                agents=listeners.agents_url,
                http=http,
                cli=("--config", str(asked), "--state", str(state)),
                out=lambda: capsys.readouterr().out,
            )


def at_first(tier: str, hard: bool) -> float:  # noqa: FBT001 - a table, as a function
    return 1.0 if tier == "high" or not hard else 0.0


def afterwards(tier: str, _: bool) -> float:  # noqa: FBT001 - a table, as a function
    return 1.0 if tier == "low" else 0.2


@pytest.mark.timeout(300)
@pytest.mark.requirement("router.learns-live")
@pytest.mark.requirement("router.models-versioned")
async def test_the_router_learns_what_is_hard_and_that_it_no_longer_is(live: Live) -> None:
    with anyio.fail_after(280):
        await live.rate(180, at_first)
        await live.until(lambda told: sum(tier["rated"] for tier in told["tiers"]) == 180)
        cold = await live.tiers(3, hard=True)
        trained = await live.command("router", "train")
        promoted = await live.command("router", "promote", trained["version"])
        hard, easy = await live.tiers(20, hard=True), await live.tiers(20, hard=False)
        evaluation = await live.command("eval", "router", "--log")
        advice = await live.command("tiers", "advise")

        await live.rate(140, afterwards)
        standing = await live.until(
            lambda told: sum(tier["evidence"] for tier in told["tiers"]) > 130
        )
        changed = await live.tiers(20, hard=True)
        back = await live.command("router", "rollback")
        rules = await live.tiers(5, hard=True)

    assert cold == {"low": 3}
    assert promoted["evidence"]["gain"]["ci95"][0] > 0
    assert hard["high"] >= 15
    assert easy["low"] >= 15
    ways = {way["name"]: way for way in evaluation["policies"]}
    assert ways[f"model:{trained['version']}"]["gain"]["value"] > 0.2
    assert ways["tier:high"]["quality"]["value"] == pytest.approx(1.0, abs=0.15)
    assert set(advice["pareto"]) == {"low", "high"}
    assert standing["incumbent"] == trained["version"]
    assert changed["low"] >= 15
    assert (back["incumbent"], rules) == (None, {"low": 5})
    shares = [tier["explored"] for tier in standing["tiers"]]
    assert sum(shares) <= 0.65 * 320

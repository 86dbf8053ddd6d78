"""Declarations and learned estimates on a whole sidecar, through each of its fronts."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from scenarios.process import SidecarProcess, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RULES = """
[[budget]]
id = "time"
scope = "tenant"
limits = { wall_ms = 100000000, tool_calls = 1000 }

[estimates]
samples_min = 5

[contention.shed]
low = {}  # however loaded the machine is that tests this

[[rule]]
name = "shell"
tool = "shell_run"
isolation = "best_effort"
loops = "off"
limits = { memory_mib = 128, memory_mib_max = 512, cpus = 1.0, wall_ms = 30000 }
"""
DECLARED = {"flyball/resources": {"memory_mib": 400, "cpus": 8, "priority": "low"}}
GRANTED = {
    "basis": "declared",
    "memory_mib": 400,
    "memory_mib_max": 512,
    "cpus": 1.0,
    "wall_ms": 30_000,
    "priority": "low",
    "clamped": ["cpus"],
}
LIMIT_OF_ITS_GROUP = (
    "cat /sys/fs/cgroup/memory$(grep -m1 :memory: /proc/self/cgroup | cut -d: -f3)"
    "/memory.limit_in_bytes 2>/dev/null"
    " || cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup | tail -1)/memory.max"
)


@asynccontextmanager
async def over_pipes(folder: Path) -> AsyncIterator[Client]:
    config = folder / "flyball.toml"
    config.write_text(RULES, encoding="utf-8")
    words = ["-m", "runtime", "stdio", "--config", str(config), "--state", str(folder / "state")]
    command = StdioServerParameters(
        command=sys.executable,
        args=words,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
        cwd=str(folder),
    )
    async with Client(command, cache=None) as client:
        yield client


def granted(result: Any) -> dict[str, Any]:
    assert result.meta is not None, text_of(result)
    return dict(result.meta["flyball/granted"])


@pytest.mark.requirement("intent.never-above-the-ceiling")
@pytest.mark.parametrize("sidecar", [RULES], indirect=True)
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_request_declares_what_it_needs_and_is_told_what_it_got(
    sidecar: SidecarProcess, mode: str
) -> None:
    with anyio.fail_after(60):
        async with sidecar.agent("one", mode=mode) as client:
            result = await client.call_tool(
                "shell_run", {"command": LIMIT_OF_ITS_GROUP}, meta=DECLARED
            )
            with pytest.raises(MCPError) as refused:
                await client.call_tool(
                    "shell_run", {"command": "true"}, meta={"flyball/resources": "huge"}
                )

    assert GRANTED.items() <= granted(result).items()
    if text_of(result).strip().isdigit():  # not where limits are only observed
        assert int(text_of(result)) == 400 * 1024 * 1024
    assert "use one of low, medium, high, not 'huge'" in str(refused.value)


@pytest.mark.requirement("intent.never-above-the-ceiling")
async def test_a_client_on_standard_pipes_declares_in_the_same_words(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with over_pipes(tmp_path) as client:
            result = await client.call_tool("shell_run", {"command": "true"}, meta=DECLARED)

    assert GRANTED.items() <= granted(result).items()


@pytest.mark.requirement("intent.never-above-the-ceiling")
@pytest.mark.parametrize("sidecar", [RULES], indirect=True)
async def test_a_shell_declares_by_argument_by_environment_or_before_its_line(
    sidecar: SidecarProcess,
) -> None:
    ways = [
        {"command": "true", "resources": "high"},
        {"command": "true", "env": {"FLYBALL_RESOURCES": "memory_mib=512"}},
        {"command": "FLYBALL_RESOURCES='{\"memory_mib\": 512}' true"},
        {"command": "A=1 FLYBALL_RESOURCES=high true"},
    ]
    wrong = [
        {"command": "true", "resources": {"memory_mib": -1}},
        {"command": "touch ran", "env": {"FLYBALL_RESOURCES": "memory=512"}},
        {"command": "FLYBALL_RESOURCES=huge touch ran"},
    ]
    with anyio.fail_after(60):
        async with sidecar.agent("one") as client:
            results = [await client.call_tool("shell_run", way) for way in ways]
            refused = [await client.call_tool("shell_run", way) for way in wrong]
            ran = await client.call_tool("shell_run", {"command": "ls ran"})

    assert [granted(result)["memory_mib"] for result in results] == [512] * 4
    assert all(result.is_error for result in refused)
    assert all("was not called" in text_of(result) for result in refused)
    assert "there is no 'memory'" in text_of(refused[1])
    assert ran.is_error


@pytest.mark.requirement("estimates.cold-start-is-said")
@pytest.mark.requirement("estimates.learned-survive")
@pytest.mark.parametrize("sidecar", [RULES], indirect=True)
async def test_a_call_holds_its_limit_until_enough_of_its_like_were_seen_and_after_a_restart(
    sidecar: SidecarProcess,
) -> None:
    async def call() -> Any:
        async with sidecar.agent("one") as client:
            return await client.call_tool("shell_run", {"command": "echo learned"})

    async def held_by(result: Any) -> int:
        async with sidecar.admin() as admin:
            path = f"calls/{result.meta['flyball/call']['call_id']}"
            return int((await admin.get(path)).json()["estimate"]["wall_ms"])

    with anyio.fail_after(60):
        first = await call()
        for _ in range(5):
            await call()
        learned = await call()
        held_first, held_learned = await held_by(first), await held_by(learned)
        sidecar.stop()
        sidecar.start()
        after_restart = await call()

    assert held_first == 30_000
    assert granted(first)["basis"] == "rule"
    assert granted(first)["why"].startswith("unknown: 0 of 5 calls")
    assert held_learned < 30_000
    assert granted(learned)["basis"] == "learned"
    assert granted(learned)["memory_mib"] == 128
    assert json.dumps(granted(after_restart)).count("learned") == 1
    assert granted(after_restart)["calls_known"] == 7

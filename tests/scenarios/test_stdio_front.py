"""`flyball stdio`: the sidecar as the one process that an editor starts."""

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
from scenarios.process import WORKER, descendants, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("command.stdio-serves-one-client")]


@asynccontextmanager
async def served(folder: Path, mode: Any) -> AsyncIterator[Client]:
    config = folder / "flyball.toml"
    worker = [sys.executable, str(WORKER)]
    config.write_text(
        f"""
[[upstream]]
name = "worker"
command = {json.dumps(worker)}

[[budget]]
id = "two"
scope = "tenant"
limits = {{ tool_calls = 2 }}
""",
        encoding="utf-8",
    )
    words = ["-m", "runtime", "stdio", "--config", str(config), "--state", str(folder / "state")]
    path = os.pathsep.join(sys.path)
    command = StdioServerParameters(
        command=sys.executable, args=words, env={"PYTHONPATH": path}, cwd=str(folder)
    )
    with anyio.fail_after(60):
        async with Client(command, mode=mode, cache=None) as client:
            yield client


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_client_of_either_era_is_served_under_budgets(tmp_path: Path, mode: str) -> None:
    async with served(tmp_path, mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        answers = [await client.call_tool("worker__echo", {"text": str(n)}) for n in range(3)]
        started = descendants(os.getpid())

    assert {"worker__echo", "governor_status"} <= tools
    assert [text_of(one) for one in answers[:2]] == ["0", "1"]
    assert answers[2].is_error
    assert answers[2].meta is not None
    assert answers[2].meta["flyball/denial"]["budget_id"] == "two"
    with anyio.fail_after(20):
        while started & descendants(os.getpid()):
            await anyio.sleep(0.05)

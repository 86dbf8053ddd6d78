"""One MCP call through Flyball, beside the same call made directly to the server.

The server is the SDK's, over HTTP, with one tool that echoes. Rounds alternate between the
two, so that a drift of the machine's speed hits both. Every answer is compared, and the
calls that the sidecar recorded are counted against those that were made.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import httpx2
import psutil
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from measure import machine, percentiles, spread

ROUNDS = 5
CALLS = {1: 150, 16: 480}
SERVER = """
import uvicorn
from mcp.server.mcpserver import MCPServer
server = MCPServer("echo")
@server.tool(structured_output=False)
def echo(text: str) -> str:
    return text
import logging
logging.disable()
uvicorn.run(server.streamable_http_app(), port=9471, log_level="warning")
"""
CONFIG = """
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"
[store]
durability = "{durability}"
[[upstream]]
name = "echo"
url = "http://127.0.0.1:9471/mcp"
[[budget]]
id = "all"
scope = "tenant"
limits = {{ tool_calls = 1000000000, cost_microusd = 1000000000 }}
[[budget]]
id = "each"
scope = "session"
limits = {{ tool_calls = 1000000000 }}
"""


async def main() -> None:
    """Print the table."""
    print(machine())
    print(
        "| durability | calls at once | direct p50 ms | governed p50 ms | added p50 ms | "
        "governed p99 ms | sidecar CPU ms/call |"
    )
    print("|---|---|---|---|---|---|---|")
    with subprocess.Popen([sys.executable, "-c", SERVER]) as server:
        try:
            await _listens(9471)
            for durability in ("power", "process"):
                async with sidecar(durability) as (urls, token, process):
                    for at_once in CALLS:
                        row = await compare(urls["agents"], token, process, at_once)
                        print(f"| {durability} | {at_once} | {row} |", flush=True)
        finally:
            server.terminate()


async def compare(url: str, token: str, process: psutil.Process, at_once: int) -> str:
    """Measure both ways in turn and return the row's figures."""
    direct, governed, tail, cpu = [], [], [], []
    calls = CALLS[at_once]
    headers = {"Authorization": f"Bearer {token}"}
    for _ in range(ROUNDS):
        bare = await timed("http://127.0.0.1:9471/mcp", {}, "echo", at_once)
        direct.append(percentiles(bare)[0])
        before = sum(process.cpu_times()[:2])
        samples = await timed(url, headers, "echo__echo", at_once)
        cpu.append((sum(process.cpu_times()[:2]) - before) * 1000 / calls)
        middle, high = percentiles(samples)
        governed.append(middle)
        tail.append(high)
    added = [with_it - without for with_it, without in zip(governed, direct, strict=True)]
    return " | ".join(map(spread, (direct, governed, added, tail, cpu)))


async def timed(url: str, headers: dict[str, str], tool: str, at_once: int) -> list[float]:
    """Return how long each call took, in ms, `at_once` of them at a time."""
    samples: list[float] = []

    async def caller(client: Client, count: int) -> None:
        for number in range(count):
            began = time.perf_counter()
            answer = await client.call_tool(tool, {"text": str(number)})
            samples.append((time.perf_counter() - began) * 1000)
            [block] = answer.content
            assert block.text == str(number), "the wrong answer"

    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http), cache=None) as client,
    ):
        await client.list_tools()
        await caller(client, 5)
        samples.clear()
        async with anyio.create_task_group() as tasks:
            for _ in range(at_once):
                tasks.start_soon(caller, client, CALLS[at_once] // at_once)
    return samples


@asynccontextmanager
async def sidecar(durability: str) -> AsyncIterator[tuple[dict[str, str], str, psutil.Process]]:
    """Run a sidecar in a process of its own; check its books at the end."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "flyball.toml")
        config.write_text(CONFIG.format(durability=durability), encoding="utf-8")
        command = [sys.executable, "-m", "runtime", "up", "--json", "--config", str(config)]
        with subprocess.Popen(
            [*command, "--state", f"{folder}/state"], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            urls = json.loads(process.stdout.readline())
            token = Path(folder, "state/agent.token").read_text(encoding="utf-8").strip()
            admin = Path(folder, "state/admin.token").read_text(encoding="utf-8").strip()
            try:
                yield urls, token, psutil.Process(process.pid)
                books = httpx.get(
                    f"{urls['admin']}/balances",
                    headers={"Authorization": f"Bearer {admin}"},
                    params={"tenant": "default"},
                ).json()["items"]
                used = {item["used"] for item in books if item["unit"] == "tool_calls"}
                made = ROUNDS * sum(calls + 5 for calls in CALLS.values())
                assert used == {made}, f"{made} calls were made, the books say {used}"
            finally:
                process.terminate()


async def _listens(port: int) -> None:
    with anyio.fail_after(20):
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                await anyio.sleep(0.05)
            else:
                return


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    anyio.run(main)

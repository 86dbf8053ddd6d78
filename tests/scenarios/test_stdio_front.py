"""`flyball stdio`: the sidecar as the one process that an editor starts."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client, StdioServerParameters
from scenarios.process import WORKER, descendants, is_alive, text_of

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
    before = descendants(os.getpid())
    async with served(tmp_path, mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        answers = [await client.call_tool("worker__echo", {"text": str(n)}) for n in range(3)]
        started = descendants(os.getpid()) - before

    assert {"worker__echo", "governor_status"} <= tools
    assert [text_of(one) for one in answers[:2]] == ["0", "1"]
    assert answers[2].is_error
    assert answers[2].meta is not None
    assert answers[2].meta["flyball/denial"]["budget_id"] == "two"
    with anyio.fail_after(60):
        while started & descendants(os.getpid()):
            await anyio.sleep(0.05)


@dataclass
class Started:
    """A `flyball stdio` that was started by another process, with pipes that others hold too."""

    pid: int
    starter: subprocess.Popen[bytes]
    to_it: int
    from_it: int

    def send(self, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        os.write(self.to_it, json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            await anyio.to_thread.run_sync(self._line, abandon_on_cancel=True)
        )
        return answer

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self.from_it, 1)
        return line


# Starts what its arguments say, tells its pid, and waits to be killed.
STARTER = """
import subprocess, sys, time
started = subprocess.Popen(sys.argv[1:])
sys.stderr.write(f"{started.pid}\\n")
sys.stderr.flush()
time.sleep(1000)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    config = tmp_path / "flyball.toml"
    worker = [sys.executable, str(WORKER)]
    config.write_text(f'[[upstream]]\nname = "worker"\ncommand = {json.dumps(worker)}\n')
    (its_in, to_it), (from_it, its_out) = os.pipe(), os.pipe()
    words = ["-m", "runtime", "stdio", "--config", str(config), "--state", str(tmp_path / "state")]
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, sys.executable, *words],
        stdin=its_in,
        stdout=its_out,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
    )
    assert starter.stderr is not None
    pid = int(starter.stderr.readline())
    try:
        yield Started(pid=pid, starter=starter, to_it=to_it, from_it=from_it)
    finally:
        starter.kill()
        starter.wait()
        starter.stderr.close()
        for fd in (its_in, to_it, from_it, its_out):
            os.close(fd)


@pytest.mark.requirement("process.none-outlives-sidecar")
@pytest.mark.parametrize("ending", ["its client is killed", "it is asked to", "it is killed"])
async def test_all_below_a_sidecar_ends_with_it_though_others_hold_its_pipes(
    started: Started, tmp_path: Path, ending: str
) -> None:
    left = tmp_path / "left"
    with anyio.fail_after(60):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        arguments = {"pid_file": str(left)}
        started.send("tools/call", name="worker__leave_child", arguments=arguments, _meta=meta)
        answer = await started.receive()
        below = descendants(started.pid) | {started.pid, int(left.read_text())}

        match ending:
            case "its client is killed":
                started.starter.kill()
            case "it is asked to":
                os.kill(started.pid, signal.SIGTERM)
            case _:
                os.kill(started.pid, signal.SIGKILL)
        with anyio.fail_after(60):
            while any(map(is_alive, below)):
                await anyio.sleep(0.05)

    assert "result" in answer

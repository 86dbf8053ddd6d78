"""A real sidecar in a process of its own, and what tests ask of it."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
from commands import Command
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

WORKER = Path(__file__).parent / "worker_server.py"
START_SECONDS_MAX = 150
STOP_SECONDS_MAX = 60


@dataclass
class SidecarProcess:
    """A real `flyball up` in a process of its own, on ports of its own."""

    folder: Path
    extra: str = ""
    workers: int = 1
    urls: dict[str, str] = field(default_factory=dict)
    process: Command | subprocess.Popen[str] | None = None
    python: tuple[str, ...] = (sys.executable,)
    user: int | None = None
    env: Mapping[str, str] | None = None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def start(self) -> None:
        config = self.folder / "flyball.toml"
        config.write_text(
            f"""
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"
body_bytes_max = 100000

[[upstream]]
name = "worker"
command = [{json.dumps(self.python[-1])}, {json.dumps(str(WORKER))}]

{self.extra}
""",
            encoding="utf-8",
        )
        words = ("up", "--json", "--config", str(config), "--state", str(self.state))
        self.process = self._started(*words, "--workers", str(self.workers))
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS_MAX)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self._kill()
        assert line, f"the sidecar did not start: {self.log()}"
        self.urls = json.loads(line)

    def _started(self, *words: str) -> "Command | subprocess.Popen[str]":
        # A clone has loaded its packages from where this process has them.
        finds = os.environ.get("PYTHONPATH")
        finds_the_same = self.env is None or self.env.get("PYTHONPATH") == finds
        is_ours = self.python == (sys.executable,) and self.user is None and finds_the_same
        with (self.folder / "stderr.log").open("a", encoding="utf-8") as log:
            if is_ours:
                return Command(words, cwd=self.folder, stderr=log, env=self.env)
            return subprocess.Popen(
                [*self.python, "-m", "runtime", *words],
                env=self.env,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.folder,
            )

    def log(self) -> str:
        return (self.folder / "stderr.log").read_text(encoding="utf-8")

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            self._kill()
            raise AssertionError(f"the sidecar did not end: {self.log()}") from error
        self.process.stdout.close()
        self.process = None
        return code

    def _kill(self) -> None:
        """Leave nothing of it to the tests that follow; what it started ends with it."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGTERM)
            self.wait()

    def token(self, who: str) -> str:
        return (self.state / f"{who}.token").read_text(encoding="utf-8").strip()

    @asynccontextmanager
    async def agent(
        self,
        session: str | None = None,
        *,
        mode: str = "auto",
        token: str | None = None,
        lists: bool = True,
        **more: Any,
    ) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token or self.token('agent')}"}
        if session is not None:
            headers["Flyball-Session"] = session
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
            Client(
                streamable_http_client(self.urls["agents"], http_client=http),
                mode=mode,
                cache=None,
                **more,
            ) as client,
        ):
            # The SDK's client lists the tools after its first call, if it has not before.
            if lists:
                await client.list_tools()
            yield client

    def admin(self, who: str = "admin") -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.urls["admin"],
            headers={"Authorization": f"Bearer {self.token(who)}"},
            trust_env=False,
            timeout=60,
        )

    async def balances(self) -> list[dict[str, Any]]:
        async with self.admin() as admin:
            answer = await admin.get("balances", params={"tenant": "default"})
            assert answer.status_code == 200, answer.text
            items: list[dict[str, Any]] = answer.json()["items"]
            return items


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def denial_of(result: Any) -> Mapping[str, Any] | None:
    return (result.meta or {}).get("flyball/denial")


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that is dead and not yet reaped by its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def descendants(pid: int) -> set[int]:
    """Return every process below `pid`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(encoding="utf-8")
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found: set[int] = set()
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found |= frontier
    return found


def servers_below(pid: int) -> set[int]:
    """Return every process below a sidecar but those that stay as long as it."""
    lasting = (b"launcher.warden", b"launcher.spawner")
    return {
        one
        for one in descendants(pid)
        if not any(module in command_line_of(one) for module in lasting)
    }


def command_line_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


async def appears(path: Path) -> None:
    """Wait until a file exists; another process makes it, so there is no event to wait for."""
    with anyio.fail_after(60):
        while not await anyio.Path(path).exists():
            await anyio.sleep(0.02)

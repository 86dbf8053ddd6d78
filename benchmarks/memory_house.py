"""A house with an experience memory for benchmarks: real tools, real agents, one process.

Two upstreams answer whatever they are asked to: one that is trusted, and one that shows what
others wrote. Three agents of one tenant share a team's namespace.
"""

import itertools
import json
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import uvicorn

from benchmarks.gateway_upstream import server
from governor.ids import PrincipalId
from memory_store.audit import Actor
from memory_store.identities import Role
from memory_store.store import Store
from runtime.configuration.load import parse_config
from runtime.token_files import TENANT
from runtime.wiring import Sidecar, open_sidecar

AGENTS = ("victim", "attacker", "friend")
TEAM = "team/desk"
PROTOCOL = "2026-07-28"
CONFIG = """
[[budget]]
id = "all"
scope = "tenant"
limits = { tool_calls = 1000000 }
[[rule]]
name = "all"
[flow]
enabled = true
[[flow.label]]
tool = "records__*"
labels = []
[[flow.label]]
tool = "web__*"
labels = ["sees_untrusted"]
[memory]
record = "all"
[[memory.namespace]]
name = "team/desk"
readers = ["victim", "attacker", "friend"]
writers = ["victim", "attacker", "friend"]
[[upstream]]
name = "records"
url = "URL"
[[upstream]]
name = "web"
url = "URL"
"""
_META = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_BY = Actor(name="benchmark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool answered: its texts joined, and the same for programs."""

    text: str
    structured: Mapping[str, Any]
    is_error: bool

    @property
    def index(self) -> str:
        """Return the index of what was written."""
        return str(self.structured["index"])

    @property
    def hits(self) -> list[Mapping[str, Any]]:
        """Return what was found."""
        return list(self.structured.get("hits", ()))


class Agent:
    """An agent with a token of its own."""

    def __init__(self, client: httpx.AsyncClient, token: str) -> None:
        """Take a client of the agents' listener."""
        self._client = client
        self._token = token
        self._numbers = itertools.count(1)

    async def call(self, session: str, tool: str, **arguments: object) -> Answer:
        """Return what a tool answers in a session."""
        number = next(self._numbers)
        response = await self._client.post(
            "/mcp",
            headers={
                "authorization": f"Bearer {self._token}",
                "mcp-protocol-version": PROTOCOL,
                "mcp-method": "tools/call",
                "mcp-name": tool,
                "accept": "application/json, text/event-stream",
                "flyball-session": session,
                "flyball-turn": f"{number}",
            },
            json={
                "jsonrpc": "2.0",
                "id": number,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments, "_meta": _META},
            },
        )
        return _answer(response)


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A sidecar that runs, its agents and its store."""

    sidecar: Sidecar
    agents: Mapping[str, Agent]
    admin: httpx.AsyncClient

    @property
    def store(self) -> Store:
        """Return what is kept."""
        return self.sidecar.store


@asynccontextmanager
async def a_house(folder: Path) -> AsyncIterator[House]:
    """Yield a house on an empty state directory."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(_upstream())
        config = parse_config(CONFIG.replace("URL", url), source="the benchmark")
        sidecar = await stack.enter_async_context(open_sidecar(config, state_dir=folder))
        client = await stack.enter_async_context(_client(sidecar.agents))
        admin = await stack.enter_async_context(_client(sidecar.admin))
        agents = {name: Agent(client, await _token(sidecar, name)) for name in AGENTS}
        secret = sidecar.tokens.admin.read_text(encoding="utf-8").strip()
        admin.headers["authorization"] = f"Bearer {secret}"
        yield House(sidecar=sidecar, agents=agents, admin=admin)


def _client(app: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60)


async def _token(sidecar: Sidecar, name: str) -> str:
    principals = sidecar.store.principals
    await principals.create(
        PrincipalId(name), tenant=TENANT, name=name, role=Role.AGENT, by=_BY, now_ms=1
    )
    issued = await principals.issue_token(PrincipalId(name), expires_at_ms=None, by=_BY, now_ms=1)
    return issued.secret


@asynccontextmanager
async def _upstream() -> AsyncIterator[str]:
    """Yield the address of a server whose tools say again what they are given."""
    app = server(0).streamable_http_app(json_response=True)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="h11", log_level="warning", access_log=False)
    served = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.serve, [listening])
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            served.should_exit = True


def _answer(response: httpx.Response) -> Answer:
    body = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        body = re.findall(r"^data: (.*)$", body, re.MULTILINE)[-1]
    message = json.loads(body)
    if "result" not in message:
        return Answer(text=json.dumps(message), structured={}, is_error=True)
    result = message["result"]
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    return Answer(
        text="\n".join(texts),
        structured=result.get("structuredContent") or {},
        is_error=bool(result.get("isError")),
    )

"""What the tour plays on: the sidecar, its upstreams and a client for each audience."""

import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import mcp_types
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp

from runtime.configuration.listen import Listen
from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.listeners import SignalFreeServer, bind, check_free, serve_whole
from runtime.serving import serving
from runtime.settings import Settings
from runtime.tour import notes_server, scripted_model
from runtime.tour.repository import has_git, make_repository
from tool_gateway.results import DENIAL_META
from tool_gateway.upstreams.connection import UpstreamConnection

MEMORY_LIMIT_MIB = 64
REQUEST_SECONDS_MAX = 60.0
SHUTDOWN_SECONDS_MAX = 1
# The bundled servers are programs that a busy machine starts slowly.
UPSTREAMS_SECONDS_MAX = 60.0
_NOWHERE = "http://127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A tool's answer as the tour looks at it."""

    text: str
    blocks: tuple[str, ...]
    is_error: bool
    meta: Mapping[str, Any]

    @property
    def denial(self) -> Mapping[str, Any] | None:
        """Return the denial that the answer is, if it is one."""
        return self.meta.get(DENIAL_META)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything that a step may use; all of it goes over real connections."""

    agents_url: str
    admin_url: str
    session: str
    repository: Path | None
    is_model_scripted: bool
    http: httpx.AsyncClient
    admin: httpx.AsyncClient
    agent_token: str

    @asynccontextmanager
    async def agent(self, session: str | None = None) -> AsyncIterator[Client]:
        """Yield an MCP client in `session`, the tour's own by default."""
        headers = {
            "Authorization": f"Bearer {self.agent_token}",
            "Flyball-Session": session or self.session,
        }
        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=REQUEST_SECONDS_MAX, trust_env=False
            ) as http,
            Client(
                streamable_http_client(f"{self.agents_url}/mcp", http_client=http), cache=None
            ) as client,
        ):
            yield client

    async def session_id(self, name: str) -> str:
        """Return the id under which administrators see a session of the tour."""
        page = await self.admin.get("/admin/v1/sessions", params={"limit": 200})
        page.raise_for_status()
        return str(next(item["id"] for item in page.json()["items"] if item["name"] == name))


async def call(client: Client, tool: str, **arguments: Any) -> Answer:
    """Return the answer of one tool call."""
    result = await client.call_tool(tool, arguments)
    blocks = tuple(
        block.text for block in result.content if isinstance(block, mcp_types.TextContent)
    )
    return Answer(
        text="\n".join(blocks),
        blocks=blocks,
        is_error=result.is_error,
        meta=result.meta or {},
    )


@asynccontextmanager
async def staged(settings: Settings, folder: Path) -> AsyncIterator[Stage]:
    """Start everything that the tour needs and yield it; `folder` takes what it makes.

    Raises:
        ListenError: an address of the tour's sidecar is taken.
    """
    # Looked at before anything is started; what the other URLs are does not matter to it.
    check_free(tour_config(settings, notes_url=_NOWHERE, model_url=_NOWHERE).listen)
    async with AsyncExitStack() as stack:
        notes_url = await stack.enter_async_context(_served(notes_server.create_app()))
        scripted_url = await stack.enter_async_context(_served(scripted_model.create_app()))
        model_url = settings.model_url or f"{scripted_url}/v1"
        repository = await make_repository(folder) if has_git() else None
        config = tour_config(settings, notes_url=notes_url, model_url=model_url)
        sidecar, listeners = await stack.enter_async_context(
            serving(config, state_dir=settings.state)
        )
        await upstreams_settled(sidecar.fleet.connections)
        agent_token = await _secret(sidecar.tokens.agent)
        admin_token = await _secret(sidecar.tokens.admin)
        session = f"tour-{secrets.token_hex(4)}"
        yield Stage(
            agents_url=listeners.agents_url,
            admin_url=listeners.admin_url,
            session=session,
            repository=repository,
            is_model_scripted=settings.model_url is None,
            agent_token=agent_token,
            http=await stack.enter_async_context(
                _client(listeners.agents_url, agent_token, {"Flyball-Session": session})
            ),
            admin=await stack.enter_async_context(_client(listeners.admin_url, admin_token, {})),
        )


async def upstreams_settled(
    connections: Sequence[UpstreamConnection], *, seconds_max: float = UPSTREAMS_SECONDS_MAX
) -> None:
    """Wait until each upstream is up or down; one that is neither for long is not waited for."""
    with anyio.move_on_after(seconds_max):
        for one in connections:
            await one.settled()


def tour_config(settings: Settings, *, notes_url: str, model_url: str) -> Config:
    """Return the configuration of the tour's sidecar, written as an operator would."""
    real = settings.model_url is not None
    low, high = (settings.model_name,) * 2 if real else ("scripted-small", "scripted-large")
    key = 'api_key_from = "FLYBALL_MODEL_KEY"' if settings.model_key is not None else ""
    upstreams = [f'[[upstream]]\nname = "notes"\nurl = "{notes_url}/mcp"\n']
    upstreams.append('[[upstream]]\nname = "time"\ncommand = ["mcp-server-time"]\n')
    if has_git():
        upstreams.append('[[upstream]]\nname = "git"\ncommand = ["mcp-server-git"]\n')
    text = f"""
{"".join(upstreams)}
[[rule]]
name = "tour-shell"
tool = "shell_run"
cost_microusd = 50
limits = {{ memory_mib = {MEMORY_LIMIT_MIB}, pids = 64, cpus = 1.0, wall_ms = 20000 }}

[[rule]]
name = "tour-python"
tool = "python_run"
cost_microusd = 50
limits = {{ memory_mib = {MEMORY_LIMIT_MIB}, pids = 64, cpus = 1.0, wall_ms = 20000 }}

[default]
cost_microusd = 10
limits = {{ wall_ms = 30000 }}
estimate = {{ wall_ms = 1000 }}

[[provider]]
name = "model"
base_url = "{model_url}"
{key}

[[tier]]
name = "low"
provider = "model"
model = {json.dumps(low)}
input_usd_per_mtok = "0.15"
output_usd_per_mtok = "0.60"
output_tokens_max = 256

[[tier]]
name = "high"
provider = "model"
model = {json.dumps(high)}
input_usd_per_mtok = "3.00"
output_usd_per_mtok = "15.00"
output_tokens_max = 512

[[tier_rule]]
tier = "high"
keywords = ["prove", "debug", "step by step"]
"""
    return parse_config(text, source="the tour's configuration")


@asynccontextmanager
async def _served(app: ASGIApp) -> AsyncIterator[str]:
    """Serve `app` on a free loopback port while the block runs; yield its URL."""
    bound = bind("127.0.0.1:0", Listen())
    server = SignalFreeServer(
        uvicorn.Config(
            app, log_config=None, access_log=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS_MAX
        )
    )
    with bound.listening:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_whole, server, bound)
            try:
                yield bound.url
            finally:
                server.should_exit = True


def _client(url: str, token: str, headers: Mapping[str, str]) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}", **headers},
        timeout=REQUEST_SECONDS_MAX,
        trust_env=False,
    )


async def _secret(path: Path) -> str:
    return (await anyio.Path(path).read_text(encoding="utf-8")).strip()

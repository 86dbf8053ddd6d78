"""A front over a fleet of real servers on loopback, and clients of every era to call it."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import httpx2
import mcp_types
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Receive, Scope, Send

from governor.breaker import BreakerTerms
from governor.ids import PrincipalId, SessionId, TenantId, UpstreamName
from governor.policy import Match, Policy, ToolRule
from tests.governor.makers import budget
from tests.tool_gateway.finding_makers import a_finder
from tests.tool_gateway.makers import RULE, House
from tests.tool_gateway.placement import Unfenced
from tests.tool_gateway.protocol.everything import Everything
from tool_gateway.bearer import Bearer
from tool_gateway.changes import Changes
from tool_gateway.front.mcp_http import CALLER_KEY, SSE_MESSAGES_PATH, SSE_PATH, McpFront
from tool_gateway.gateway import Gateway
from tool_gateway.guards.pins import Pins
from tool_gateway.identity import Caller
from tool_gateway.outcomes import Outcomes
from tool_gateway.relaying import Relaying
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.stock import Stock
from tool_gateway.upstreams.fleet import UpstreamFleet
from tool_gateway.upstreams.spec import HttpSpec, Share, UpstreamSpec

# Real connections on a busy machine; nothing here waits that long when all is well.
SECONDS_MAX = 60
SESSIONS = HANDSHAKE_PROTOCOL_VERSIONS
STATELESS = MODERN_PROTOCOL_VERSIONS
NEW, OLD = "2026-07-28", "legacy"
ADA = Caller(tenant=TenantId("acme"), agent=PrincipalId("ada"), token_id="tok_ada")
BOB = Caller(tenant=TenantId("acme"), agent=PrincipalId("bob"), token_id="tok_bob")


class Placement(Unfenced):
    """Starts servers as they are."""

    def server_started(self, name: str, pid: int) -> None:
        pass

    async def server_processes(self, name: str) -> tuple[int, ...]:
        return ()

    async def end_server(self, name: str) -> None:
        pass


@dataclass
class Answers:
    """What the person and the model at a client say, and what the client was told."""

    name: str = "Ada"
    asked: list[str] = field(default_factory=list)
    heard: list[Any] = field(default_factory=list)
    progress: list[tuple[float, float | None, str | None]] = field(default_factory=list)
    told: anyio.Event = field(default_factory=anyio.Event)

    async def elicit(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        self.asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"name": self.name})

    async def sample(self, context: Any, params: Any) -> mcp_types.CreateMessageResult:
        self.asked.append("model")
        said = mcp_types.TextContent(type="text", text=f"it, says {self.name}")
        return mcp_types.CreateMessageResult(role="assistant", content=said, model="m")

    async def hear(self, message: Any) -> None:
        self.heard.append(message)
        self.told.set()

    async def note_progress(self, done: float, total: float | None, message: str | None) -> None:
        self.progress.append((done, total, message))


class Stage:
    """A gateway in front of servers in this process."""

    def __init__(
        self,
        *rules: ToolRule,
        wall_ms: int = 60_000,
        pins: Pins | None = None,
        breaker: BreakerTerms | None = None,
        breaker_of: str = "one",
    ) -> None:
        self.house = House(budget("calls", tool_calls=100))
        if breaker is not None:
            self.house.breakers.adopt({breaker_of: breaker})
        self.pins = pins
        any_tool = replace(RULE, limits=replace(RULE.limits, wall_ms=wall_ms), match=Match())
        self.house.policy = Policy(version="v1", rules=(*rules, any_tool), fallback=any_tool)
        self.url = ""
        self.fleet = UpstreamFleet((), placement=Placement(), stock=Stock(()))
        self.relaying: Relaying | None = None
        self.gateway: Gateway | None = None
        self.front: McpFront | None = None

    @asynccontextmanager
    async def serving(self, *specs: UpstreamSpec) -> AsyncIterator["Stage"]:
        with anyio.fail_after(SECONDS_MAX):
            async with AsyncExitStack() as stack:
                stock, changes = Stock(()), Changes()
                self.house.schemas = lambda: stock.schemas
                self.fleet = UpstreamFleet(
                    specs, placement=Placement(), stock=stock, changes=changes, pins=self.pins
                )
                outcomes = Outcomes(
                    self.fleet.relays,
                    breakers=self.house.breakers,
                    kept_out=(lambda _: 0) if self.pins is None else self.pins.count_kept_out,
                )
                gateway = Gateway(
                    stock=stock,
                    pipeline=self.house.pipeline,
                    books=self.house.books,
                    backends={},
                    relays=self.fleet.relays,
                    outcomes=outcomes,
                    policy=lambda: self.house.policy,
                    sessions=ImplicitSessions(clock=self.house.clock, idle_ms=1_000_000),
                    session_naming=lambda agent, name: SessionId(f"{agent}/{name}"),
                    clock=self.house.clock,
                    finder=a_finder(stock=stock, house=self.house),
                )
                relaying = Relaying(
                    relays=self.fleet.relays,
                    outcomes=outcomes,
                    calls=gateway.offer_calls(),
                    tasks=gateway.tasks,
                    policy=lambda: self.house.policy,
                    changes=changes,
                    elapsed_ms=self.house.clock.elapsed_ms,
                    is_exposed=(lambda *_: True) if self.pins is None else self.pins.exposes,
                )
                front = McpFront(
                    gateway,
                    relaying,
                    version="1",
                    body_bytes_max=1_000_000,
                    code_of=lambda _: mcp_types.INVALID_PARAMS,
                )
                self.relaying, self.front, self.gateway = relaying, front, gateway
                await stack.enter_async_context(self.fleet.connected())
                await stack.enter_async_context(front.running())
                self.url = await stack.enter_async_context(served(Named(Routed(front))))
                yield self

    @asynccontextmanager
    async def client(
        self,
        mode: Any = NEW,
        *,
        answers: Answers | None = None,
        who: str = "ada",
        bearer: str | None = None,
        **more: Any,
    ) -> AsyncIterator[Client]:
        asking: dict[str, Any] = {}
        if answers is not None:
            asking = {
                "elicitation_callback": answers.elicit,
                "sampling_callback": answers.sample,
                "message_handler": answers.hear,
            }
        headers = {"x-who": who, **({} if bearer is None else {"x-bearer": bearer})}
        async with (
            httpx2.AsyncClient(timeout=60, trust_env=False, headers=headers) as http,
            Client(
                streamable_http_client(f"{self.url}/mcp", http_client=http),
                mode=mode,
                cache=None,
                **asking,
                **more,
            ) as client,
        ):
            yield client


class Routed:
    """Leads to the front's three ways in."""

    def __init__(self, front: McpFront) -> None:
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serve = {SSE_PATH: self._front.serve_events, SSE_MESSAGES_PATH: self._front.take_message}
        await serve.get(scope["path"], self._front)(scope, receive, send)


class Named:
    """Names the caller that a header says, as authentication does in the sidecar."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            caller = BOB if headers.get(b"x-who") == b"bob" else ADA
            if b"x-bearer" in headers:
                bearer = Bearer(token=headers[b"x-bearer"].decode(), expires_at_ms=1 << 50)
                caller = replace(caller, bearer=bearer)
            scope[CALLER_KEY] = caller
        await self._app(scope, receive, send)


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an application on loopback and yield its URL."""
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True


@asynccontextmanager
async def upstream(
    everything: Everything,
    *,
    name: str = "one",
    versions: tuple[str, ...] | None = None,
    prefixed: bool = True,
    share: Share = Share.ALL,
) -> AsyncIterator[HttpSpec]:
    """Serve a server and yield what an operator would say about it."""
    app = everything.app(versions=versions)
    async with everything.server.session_manager.run(), served(app) as url:
        yield HttpSpec(name=UpstreamName(name), url=f"{url}/mcp", prefixed=prefixed, share=share)


@asynccontextmanager
async def stage(
    everything: Everything | None = None, *, make: Callable[[], Stage] = Stage, **more: Any
) -> AsyncIterator[Stage]:
    """Yield a stage with one server behind it."""
    async with upstream(everything or Everything(), **more) as spec, make().serving(spec) as found:
        yield found


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")

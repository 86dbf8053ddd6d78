"""A small MCP server with a bit of everything, for one era of the protocol or for both."""

import warnings
from typing import Any

import anyio
import mcp_types
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import InputRequiredResult, TextContent
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class Named(BaseModel):
    name: str


class Everything:
    """The server, with events by which tests see and hold what happens in it."""

    def __init__(self, name: str = "everything") -> None:
        self.held = anyio.Event()
        self.let_go = anyio.Event()
        self.cancelled = anyio.Event()
        self.asked: list[object] = []
        self.runs = 0
        self.watched: list[str] = []
        # The server must refuse a state that was tampered with: one key for all its life.
        self.server = MCPServer(
            name,
            version="7.1",
            instructions="Ask politely.",
            request_state_security=RequestStateSecurity(keys=[b"x" * 32]),
        )
        self._tools()
        self._faults_and_changes()
        self._questions()
        self._rest()

    def app(self, *, versions: tuple[str, ...] | None = None) -> ASGIApp:
        """Serve over HTTP, to clients of these versions alone if they are given."""
        app: ASGIApp = self.server.streamable_http_app()
        return app if versions is None else OneEra(app, versions)

    def _tools(self) -> None:
        @self.server.tool()
        def echo(text: str) -> str:
            self.runs += 1
            return text

        @self.server.tool()
        def met(ctx: Context) -> str:
            """Say how this server was spoken to, and what it may ask."""
            declared = ctx.client_capabilities
            can = [] if declared is None else sorted(declared.model_dump(exclude_none=True))
            return f"{ctx.protocol_version} {' '.join(can)}".strip()

        @self.server.tool()
        async def steps(ctx: Context) -> str:
            for step in range(1, 4):
                await ctx.report_progress(step, 3, f"step {step}")
            return "done"

        @self.server.tool()
        async def chatty(ctx: Context) -> str:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                await ctx.debug("a detail")
                await ctx.warning("a warning")
            return "said"

    def _faults_and_changes(self) -> None:
        @self.server.tool()
        async def hold() -> str:
            self.held.set()
            try:
                await self.let_go.wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled.set()
                raise
            return "held"

        @self.server.tool()
        def refuse() -> str:
            raise MCPError(
                -32_021, "missing capability", {"requiredCapabilities": {"sampling": {}}}
            )

        @self.server.tool()
        async def grow(ctx: Context) -> str:
            def late() -> str:
                return "late"

            self.server.add_tool(late)
            await ctx.notify_tools_changed()
            await ctx.session.send_tool_list_changed()
            return "grown"

        @self.server.tool()
        async def touch(ctx: Context) -> str:
            await ctx.notify_resource_updated("mem://note")
            return "touched"

    def _questions(self) -> None:
        @self.server.tool()
        async def ask_name(ctx: Context) -> str | InputRequiredResult:
            self.runs += 1
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                answer = await ctx.elicit("Who is there?", Named)
                name = answer.data.name if answer.action == "accept" else answer.action
            else:
                found = (ctx.input_responses or {}).get("who")
                if not isinstance(found, mcp_types.ElicitResult):
                    return InputRequiredResult(
                        input_requests={"who": a_form()}, request_state="round-1"
                    )
                name = str((found.content or {}).get("name", found.action))
            self.asked.append(name)
            return f"hello {name}"

        @self.server.tool()
        async def ask_model(ctx: Context) -> str | InputRequiredResult:
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", MCPDeprecationWarning)
                    said = await ctx.session.create_message(
                        a_prompt().messages, max_tokens=9, related_request_id=ctx.request_id
                    )
                return f"model: {text_of(said.content)}"
            found = (ctx.input_responses or {}).get("model")
            if not isinstance(found, mcp_types.CreateMessageResult):
                request = mcp_types.CreateMessageRequest(params=a_prompt())
                return InputRequiredResult(input_requests={"model": request})
            return f"model: {text_of(found.content)}"

    def _rest(self) -> None:
        @self.server.resource("mem://note")
        def note() -> str:
            return "a note"

        @self.server.resource("mem://page/{number}")
        def page(number: str) -> str:
            return f"page {number}"

        async def subscribe(_: object, params: Any) -> mcp_types.EmptyResult:
            self.watched.append(f"+{params.uri}")
            return mcp_types.EmptyResult()

        async def unsubscribe(_: object, params: Any) -> mcp_types.EmptyResult:
            self.watched.append(f"-{params.uri}")
            return mcp_types.EmptyResult()

        # The SDK's server has no decorator for what only the older era has.
        add = self.server._lowlevel_server.add_request_handler
        add("resources/subscribe", mcp_types.SubscribeRequestParams, subscribe)
        add("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, unsubscribe)

        @self.server.prompt()
        def greet(name: str) -> str:
            return f"Greet {name}."

        @self.server.completion()
        async def complete(
            _ref: object, argument: mcp_types.CompletionArgument, _context: object
        ) -> mcp_types.Completion:
            return mcp_types.Completion(values=[f"{argument.value}da"], total=1, has_more=False)


def a_form() -> mcp_types.ElicitRequest:
    return mcp_types.ElicitRequest(
        params=mcp_types.ElicitRequestFormParams(
            message="Who is there?",
            requested_schema={"type": "object", "properties": {"name": {"type": "string"}}},
        )
    )


def a_prompt() -> mcp_types.CreateMessageRequestParams:
    asked = mcp_types.SamplingMessage(role="user", content=TextContent(type="text", text="Say it."))
    return mcp_types.CreateMessageRequestParams(messages=[asked], max_tokens=9)


def text_of(content: Any) -> str:
    return content.text if content.type == "text" else ""


class OneEra:
    """Serves only clients of some versions, as servers of one era do."""

    def __init__(self, app: ASGIApp, versions: tuple[str, ...]) -> None:
        self._app = app
        self._versions = versions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            # The first request of the older era comes without the header.
            asked = headers.get("mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[-1])
            if asked not in self._versions:
                data = {"supported": list(self._versions), "requested": asked}
                error = {"code": -32_022, "message": "unsupported version", "data": data}
                body = {"jsonrpc": "2.0", "id": None, "error": error}
                await JSONResponse(body, 400)(scope, receive, send)
                return
        await self._app(scope, receive, send)

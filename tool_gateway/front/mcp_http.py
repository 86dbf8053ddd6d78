"""MCP over streamable HTTP, both eras, on the official SDK."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp, Receive, Scope, Send

from tool_gateway.errors import (
    IdempotencyConflictError,
    InvalidContextError,
    UnknownToolError,
)
from tool_gateway.gateway import Gateway
from tool_gateway.identity import Caller, read_context
from tool_gateway.translate import tool_for_client, wire_of

# Where the authenticating middleware leaves the caller for the handlers.
CALLER_KEY = "flyball.caller"
SESSION_IDLE_SECONDS = 1800


class McpFront:
    """Serves a gateway to MCP clients; authentication is done before a request gets here."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        version: str,
        body_bytes_max: int,
        code_of: Callable[[Exception], int],
    ) -> None:
        """Build the server; `running` must be entered before the first request.

        `code_of` gives the JSON-RPC code of an error: the house has one table for that.
        """
        self._gateway = gateway
        self._code_of = code_of
        server: Server[Any] = Server(
            "flyball",
            version=version,
            title="Flyball",
            instructions=(
                "Tools run under budgets. A denial names the budget and the remedy; results "
                "that are too large end with an index for memory_read."
            ),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        # Host and Origin are checked by the application, for every route alike.
        self._manager = StreamableHTTPSessionManager(
            app=server,
            max_request_body_size=body_bytes_max,
            session_idle_timeout=SESSION_IDLE_SECONDS,
        )
        self._app: ASGIApp = StreamableHTTPASGIApp(self._manager)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of the caller that the middleware named."""
        caller: Caller = scope[CALLER_KEY]
        # The SDK binds each session of the older era to the user that opened it.
        scope["user"] = AuthenticatedUser(
            AccessToken(token=caller.token_id, client_id=caller.agent, scopes=[])
        )
        await self._app(scope, receive, send)

    async def _list_tools(
        self,
        ctx: ServerRequestContext[Any],
        params: mcp_types.PaginatedRequestParams | None,
    ) -> mcp_types.ListToolsResult:
        caller, headers = _request_of(ctx)
        try:
            context = read_context(headers, dict(ctx.meta or {}))
        except InvalidContextError as error:
            raise MCPError(self._code_of(error), str(error)) from error
        return mcp_types.ListToolsResult(
            tools=[
                tool_for_client(listed.entry, with_output_schema=listed.with_output_schema)
                for listed in await self._gateway.listed_for(caller, context)
            ]
        )

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        caller, headers = _request_of(ctx)
        try:
            context = read_context(headers, dict(ctx.meta or {}))
            result = await self._gateway.call(
                caller, context, tool=params.name, arguments=params.arguments or {}
            )
        except (UnknownToolError, InvalidContextError, IdempotencyConflictError) as error:
            raise MCPError(self._code_of(error), str(error)) from error
        return wire_of(result)


def _request_of(ctx: ServerRequestContext[Any]) -> tuple[Caller, Mapping[str, str]]:
    """Return who sent the request, and its headers."""
    assert ctx.request is not None, "streamable HTTP attaches the request to every message"
    return ctx.request.scope[CALLER_KEY], ctx.request.headers

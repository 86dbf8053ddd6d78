"""A server of tools that a plug-in brings, spoken to as any other: in messages of MCP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.memory import create_client_server_memory_streams
from pydantic import ValidationError

from tool_gateway import telemetry
from tool_gateway.server_ports import PluggedServer
from tool_gateway.upstreams.spec import PluggedSpec

_NO_RESULT = "The plug-in of this upstream answered what is no result of a tool."


@asynccontextmanager
async def plugged_server(spec: PluggedSpec) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from and to a server that is open during the block."""
    async with spec.opened() as plugged:
        server = _server_of(spec, plugged)
        async with create_client_server_memory_streams() as (streams, of_server):

            async def serve() -> None:
                await server.run(*of_server, server.create_initialization_options())

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve, name=f"upstream {spec.name}, its server")
                try:
                    yield streams
                finally:
                    tasks.cancel_scope.cancel()


def _server_of(spec: PluggedSpec, plugged: PluggedServer) -> Server[Any]:
    async def listed(
        _context: ServerRequestContext[Any], _params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        found = [mcp_types.Tool.model_validate(tool) for tool in await plugged.tools()]
        return mcp_types.ListToolsResult(tools=found)

    async def called(
        _context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        result = await plugged.call(params.name, params.arguments or {})
        try:
            return mcp_types.CallToolResult.model_validate(result)
        except ValidationError:
            telemetry.count_failure("plugin")
            said = mcp_types.TextContent(type="text", text=_NO_RESULT)
            return mcp_types.CallToolResult(content=[said], is_error=True)

    return Server(spec.kind, on_list_tools=listed, on_call_tool=called)

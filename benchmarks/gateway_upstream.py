"""The MCP server that the gateways stand in front of: one tool that echoes, and any number more.

gateway_upstream.py PORT [TOOLS]     streamable HTTP, answers as JSON
gateway_upstream.py stdio
"""

import asyncio
import sys
from typing import Any

import mcp_types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "what to say again"}},
    "required": ["text"],
}


def server(more: int) -> Server[Any]:
    """Return the server, with `more` tools that nobody calls."""
    names = ["echo", *(f"tool_{number}" for number in range(more))]
    tools = [
        mcp_types.Tool(name=name, description=f"The {name} of them all. " * 8, input_schema=TEXT)
        for name in names
    ]

    async def listed(_: object, __: object) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=tools)

    async def call(_: object, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        said = str((params.arguments or {}).get("text", ""))
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=said)])

    return Server("echo", version="1", on_list_tools=listed, on_call_tool=call)


async def over_stdio() -> None:
    """Serve one client over standard input and output."""
    served = server(0)
    async with stdio_server() as (reading, writing):
        await served.run(reading, writing, served.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(over_stdio())
    else:
        app = server(int(sys.argv[2]) if sys.argv[2:] else 0).streamable_http_app(
            json_response=True
        )
        # Without a proxy's sake: h11, as the SDK's own dependencies have it.
        uvicorn.run(app, port=int(sys.argv[1]), http="h11", log_level="warning", access_log=False)

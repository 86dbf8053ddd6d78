"""A stdio MCP server that can be told to fail in each way that upstreams do."""

import os
import sys

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

server = MCPServer("quirky")


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
def charge(cost: object) -> CallToolResult:
    meta = {"flyball/cost_microusd": cost}
    return CallToolResult(content=[TextContent(type="text", text="charged")], _meta=meta)


@server.tool()
def pid() -> str:
    return str(os.getpid())


@server.tool()
def big(size: int) -> str:
    return "x" * size


@server.tool()
def complain() -> str:
    message = "no such file"
    raise ToolError(message)


@server.tool()
def die() -> str:
    sys.stderr.write("the disk is full\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
def grow() -> str:
    """Offer one more tool."""

    def late() -> str:
        return "late"

    server.add_tool(late)
    return str(os.getpid())


@server.tool()
async def wait() -> str:
    await anyio.sleep_forever()
    return "never"


@server.tool()
def answer_with_code(code: int, message: str) -> str:
    raise MCPError(code, message)


if __name__ == "__main__":
    if "--refuse" in sys.argv:
        sys.stderr.write("no configuration found\n")
        sys.exit(2)
    server.run("stdio")

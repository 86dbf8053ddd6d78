"""A stdio MCP server that can be told to fail in each way that upstreams do."""

import asyncio
import os
import subprocess
import sys
import time

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

server = MCPServer("quirky")
# The SDK keeps standard output to itself and gives the number to standard error.
OUTPUT = os.dup(1)


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
def flood(mib: int) -> str:
    """Write a line that does not end."""
    for _ in range(mib):
        os.write(OUTPUT, b"x" * 1024 * 1024)
    return "flooded"


@server.tool()
def babble() -> str:
    """Write what is no message where messages belong."""
    os.write(OUTPUT, b"\nDEBUG token=hush-hush\n\xff\xfe{]\n")
    return "babbled"


@server.tool()
async def hang() -> str:
    """Answer, and then nothing any more."""
    asyncio.get_running_loop().call_later(0.05, time.sleep, 1000)
    return "hung"


@server.tool()
def leave_holder() -> str:
    """End, while a child goes on holding the pipes."""
    child = subprocess.Popen(["sleep", "1000"])
    sys.stderr.write(f"left {child.pid}\n")
    sys.stderr.flush()
    os._exit(4)


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

"""An MCP server over stdio that describes a tool with what a file says when it starts."""

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("changing")
described = Path(sys.argv[1])


@server.tool(description=described.read_text(encoding="utf-8"), structured_output=False)
def read_page(url: str) -> str:
    return url


@server.tool(structured_output=False)
def leave() -> str:
    """End the whole server."""
    os._exit(0)


if __name__ == "__main__":
    server.run()

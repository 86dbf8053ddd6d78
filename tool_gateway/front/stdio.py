"""MCP on standard input and output, for the one client that started this process."""

from collections.abc import Callable
from typing import cast

import anyio
from mcp.server.stdio import stdio_server

from tool_gateway.front.mcp_server import McpServer
from tool_gateway.front.standard_pipes import standard_pipes
from tool_gateway.gateway import Gateway
from tool_gateway.identity import Caller
from tool_gateway.relaying import Relaying


class StdioFront:
    """Serves a gateway to the client at the other end of the pipes."""

    def __init__(
        self,
        gateway: Gateway,
        relaying: Relaying,
        *,
        version: str,
        code_of: Callable[[Exception], int],
        caller: Caller,
    ) -> None:
        """Build the server; `caller` is whose calls they are."""
        self._server = McpServer(
            gateway,
            relaying,
            version=version,
            code_of=code_of,
            caller_of=lambda _: (caller, {}),
        )

    async def serve(self) -> None:
        """Serve until the client closes its end."""
        sdk = self._server.sdk
        with standard_pipes() as (lines, text):
            # Of what a file can do the SDK wants the lines of the one, and to write to the other.
            stdin, stdout = cast(anyio.AsyncFile[str], lines), cast(anyio.AsyncFile[str], text)
            async with (
                self._server.running(),
                stdio_server(stdin, stdout) as (reading, writing),
            ):
                await sdk.run(reading, writing, sdk.create_initialization_options())

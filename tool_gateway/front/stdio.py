"""MCP on standard input and output, for the one client that started this process."""

from collections.abc import Callable

from mcp.server.stdio import stdio_server

from tool_gateway.front.mcp_server import McpServer
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
        async with self._server.running(), stdio_server() as (reading, writing):
            await sdk.run(reading, writing, sdk.create_initialization_options())

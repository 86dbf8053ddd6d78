"""The MCP fronts over one gateway, with the codes that errors have in this house."""

from runtime.failures import problem_for
from runtime.version import VERSION
from tool_gateway.front.mcp_http import McpFront
from tool_gateway.front.modern import ModernFront
from tool_gateway.front.stdio import StdioFront
from tool_gateway.gateway import Gateway
from tool_gateway.identity import Caller
from tool_gateway.relaying import Relaying


def http_front(
    gateway: Gateway, relaying: Relaying, *, body_bytes_max: int, place: str = ""
) -> ModernFront:
    """Return the front that the agents' listener serves; `place` names this process in ids."""
    whole = McpFront(
        gateway,
        relaying,
        version=VERSION,
        body_bytes_max=body_bytes_max,
        code_of=_code_of,
        place=place,
    )
    return ModernFront(gateway, whole=whole, version=VERSION, code_of=_code_of)


def stdio_front(gateway: Gateway, relaying: Relaying, *, caller: Caller) -> StdioFront:
    """Return the front of the client that started this process: no token tells who it is."""
    return StdioFront(gateway, relaying, version=VERSION, code_of=_code_of, caller=caller)


def _code_of(error: Exception) -> int:
    return problem_for(error).code

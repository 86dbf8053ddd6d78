"""Libraries that speak on wires say at low levels what they send and receive, secrets included."""

import logging

__all__ = ["quieten_wires"]

# httpcore tells every header at DEBUG, httpx every address at INFO, and the MCP SDK every message,
# with the arguments of calls. Whoever needs that much reads the wire.
_WIRES = ("httpcore", "httpcore2", "httpx", "httpx2", "mcp", "sse_starlette", "urllib3")


def quieten_wires() -> None:
    """Let these libraries tell of nothing below a warning, however much the rest tells."""
    for name in _WIRES:
        logging.getLogger(name).setLevel(logging.WARNING)

"""The MCP servers that the gateway calls."""

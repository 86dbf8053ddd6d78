"""A small MCP server over HTTP: the tour's upstream that runs elsewhere."""

from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette

NOTES_MAX = 10_000


def create_app() -> Starlette:
    """Return the server: `add` keeps a note, `list` returns them all."""
    server = MCPServer("notes", instructions="Notes that live as long as the tour.")
    notes: list[str] = []

    @server.tool()
    def add(text: str) -> str:
        """Keep a note and return its number."""
        if len(notes) >= NOTES_MAX:
            return f"full: {NOTES_MAX} notes are kept"
        notes.append(text)
        return f"note {len(notes)} kept"

    @server.tool(name="list", structured_output=False)
    def list_notes() -> str:
        """Return every note, one on a line."""
        return "\n".join(f"{number}. {text}" for number, text in enumerate(notes, start=1))

    return server.streamable_http_app()

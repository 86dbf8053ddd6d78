"""MCP wire types to gateway values and back; `Any` ends here."""

from collections.abc import Iterable, Mapping
from typing import Any

from mcp import Client
from pydantic import BaseModel

from governor.ids import UpstreamName
from tool_gateway.catalog import ToolEntry, exposed_name
from tool_gateway.relays import ServerFace
from tool_gateway.results import COST_META, OUR_META, ToolResult

_KNOWN = frozenset({"content", "structuredContent", "isError", "_meta"})


def entries_of(
    upstream: UpstreamName,
    tools: Iterable[Mapping[str, Any]],
    *,
    prefixed: bool,
    about: str = "",
) -> tuple[ToolEntry, ...]:
    """Return the catalogue entries of an upstream's tools; `about` is what it says of itself."""
    return tuple(
        ToolEntry(
            exposed=exposed_name(upstream, tool["name"], prefixed=prefixed),
            original=tool["name"],
            backend=upstream,
            definition=tool,
            about=about,
        )
        for tool in tools
    )


def face_of(client: Client) -> ServerFace:
    """Return what a server said about itself when it was connected."""
    found = client.session.discover_result or client.session.initialize_result
    assert found is not None, "a client that is open has negotiated"
    info = client.session.server_info
    return ServerFace(
        capabilities=shaped(found.capabilities),
        instructions=found.instructions,
        implementation=None if info is None else shaped(info),
        has_sessions=client.session.discover_result is None,
    )


def tool_for_client(entry: ToolEntry, *, with_output_schema: bool) -> dict[str, object]:
    """Return the tool as clients see it: under its exposed name, else as the upstream has it."""
    definition = {**entry.definition, "name": entry.exposed}
    if not with_output_schema:
        definition.pop("outputSchema", None)
    return definition


def result_of(body: Mapping[str, Any]) -> ToolResult:
    """Return an upstream's answer as a gateway value."""
    meta = body.get("_meta") or {}
    return ToolResult(
        content=tuple(body.get("content", ())),
        structured=body.get("structuredContent"),
        is_error=bool(body.get("isError", False)),
        meta=_foreign(meta),
        reported_cost=meta.get(COST_META),
        extra={key: value for key, value in body.items() if key not in _KNOWN},
    )


def _foreign(meta: Mapping[str, object]) -> dict[str, object]:
    """Return an upstream's `_meta` without the keys that are ours to set."""
    return {key: value for key, value in meta.items() if not key.startswith(OUR_META)}


def shaped(model: BaseModel) -> dict[str, Any]:
    """Return a model of the SDK as the wire has it."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)

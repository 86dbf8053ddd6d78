"""MCP wire types to gateway values and back; `Any` ends here."""

from collections.abc import Iterable, Mapping

import mcp_types

from governor.ids import UpstreamName
from tool_gateway.catalog import ToolEntry, exposed_name
from tool_gateway.results import COST_META, OUR_META, ToolResult


def entries_of(
    upstream: UpstreamName, tools: Iterable[mcp_types.Tool], *, prefixed: bool, about: str = ""
) -> tuple[ToolEntry, ...]:
    """Return the catalogue entries of an upstream's tools; `about` is what it says of itself."""
    return tuple(
        ToolEntry(
            exposed=exposed_name(upstream, tool.name, prefixed=prefixed),
            original=tool.name,
            backend=upstream,
            definition=tool.model_dump(mode="json", by_alias=True, exclude_none=True),
            about=about,
        )
        for tool in tools
    )


def tool_for_client(entry: ToolEntry, *, with_output_schema: bool) -> mcp_types.Tool:
    """Return the tool as clients see it: under its exposed name, else as the upstream has it."""
    definition = {**entry.definition, "name": entry.exposed}
    if not with_output_schema:
        definition.pop("outputSchema", None)
    return mcp_types.Tool.model_validate(definition)


def result_of(wire: mcp_types.CallToolResult) -> ToolResult:
    """Return an upstream's answer as a gateway value."""
    body = wire.model_dump(mode="json", by_alias=True, exclude_none=True)
    return ToolResult(
        content=tuple(body.get("content", ())),
        structured=body.get("structuredContent"),
        is_error=bool(body.get("isError", False)),
        meta=_foreign(body.get("_meta", {})),
        reported_cost=body.get("_meta", {}).get(COST_META),
    )


def _foreign(meta: Mapping[str, object]) -> dict[str, object]:
    """Return an upstream's `_meta` without the keys that are ours to set."""
    return {key: value for key, value in meta.items() if not key.startswith(OUR_META)}


def wire_of(result: ToolResult) -> mcp_types.CallToolResult:
    """Return a gateway value as the answer to a client."""
    return mcp_types.CallToolResult.model_validate(result.to_wire())

"""What the built-in tools for finding tools answer."""

import json
from collections.abc import Mapping

from governor.call import CallStatus, ToolCall
from tool_gateway.catalog import ToolEntry
from tool_gateway.discovery import definitions
from tool_gateway.discovery.finder import Finder
from tool_gateway.discovery.texts import lead_of
from tool_gateway.results import Outcome, ToolResult, text_block, text_result

# The last line of a search's record: which tools it found, for the memory of past use.
FOUND = "found: "
_LEAD_CHARS_MAX = 300
_DESCRIBED_CHARS_MAX = 200_000
_PARAMETERS_MAX = 20


class Answers:
    """Answers searches and descriptions."""

    def __init__(self, finder: Finder) -> None:
        """Take what finds."""
        self._finder = finder

    async def run(self, call: ToolCall) -> Outcome:
        """Answer one call of these tools."""
        if call.tool == definitions.SEARCH:
            return await self._search(call)
        if call.tool == definitions.DESCRIBE:
            return self._describe(call)
        # The gateway calls what `tools_call` names; it gets here by no path that we know.
        text = "tools_call must be sent as a call of its own"
        return Outcome(
            result=text_result(text, is_error=True), status=CallStatus.TOOL_ERROR, detail=text
        )

    async def _search(self, call: ToolCall) -> Outcome:
        asked = call.arguments.get("limit", definitions.LIMIT_DEFAULT)
        limit = int(asked) if isinstance(asked, (int, float)) else definitions.LIMIT_DEFAULT
        found = await self._finder.search(
            call.chain,
            str(call.arguments["query"]),
            limit=limit,
            is_read_only=call.is_read_only,
        )
        told = (
            "tools_describe shows the arguments in full; tools_call calls one that is not listed."
            if found
            else "No tool fits these words. Say the step in other words, or more generally."
        )
        shape = {"tools": [_brief(entry) for entry in found]}
        return Outcome(
            result=_shown(shape, told),
            detail=FOUND + " ".join(entry.exposed for entry in found),
        )

    def _describe(self, call: ToolCall) -> Outcome:
        names = call.arguments["names"]
        assert isinstance(names, list), "the schema says so"
        tools: list[dict[str, object]] = []
        unknown, left_out, chars = [], [], 0
        for name in dict.fromkeys(str(name) for name in names):
            definition = self._finder.described(call.chain, name, is_read_only=call.is_read_only)
            if definition is None:
                unknown.append(name)
                continue
            chars += len(json.dumps(definition, ensure_ascii=False, default=str))
            if chars > _DESCRIBED_CHARS_MAX and tools:
                left_out.append(name)
            else:
                tools.append(definition)
        shape: dict[str, object] = {"tools": tools}
        notes = []
        if unknown:
            shape["unknown"] = unknown
            notes.append(f"No tool of yours is called {', '.join(unknown)}.")
        if left_out:
            shape["left_out"] = left_out
            notes.append(f"Too long to show at once, ask again for {', '.join(left_out)}.")
        return Outcome(result=_shown(shape, " ".join(notes)))


def found_in(detail: str) -> tuple[str, ...]:
    """Return the tools that a search's record says it found."""
    return tuple(detail.removeprefix(FOUND).split()) if detail.startswith(FOUND) else ()


def query_in(arguments: str) -> str:
    """Return the request in a search's recorded arguments; nothing where only a hash is kept."""
    try:
        kept = json.loads(arguments)
    except ValueError:
        return ""
    query = kept.get("query") if isinstance(kept, dict) else None
    return query if isinstance(query, str) else ""


def _brief(entry: ToolEntry) -> dict[str, object]:
    said = entry.definition.get("description")
    lead = lead_of(said) if isinstance(said, str) else ""
    if len(lead) > _LEAD_CHARS_MAX:
        lead = f"{lead[:_LEAD_CHARS_MAX]}…"
    return {"name": entry.exposed, "description": lead, "arguments": _parameters(entry)}


def _parameters(entry: ToolEntry) -> list[str]:
    """Return the names of the arguments, those that may be left out with a question mark."""
    properties, required = (entry.input_schema.get(key) for key in ("properties", "required"))
    if not isinstance(properties, Mapping):
        return []
    needed = set(map(str, required)) if isinstance(required, list) else set()
    names = list(map(str, properties))[:_PARAMETERS_MAX]
    return [name if name in needed else f"{name}?" for name in names]


def _shown(shape: Mapping[str, object], told: str) -> ToolResult:
    shown = text_block(json.dumps(shape, ensure_ascii=False, default=str))
    content = (shown, text_block(told)) if told else (shown,)
    return ToolResult(content=content, structured=shape)

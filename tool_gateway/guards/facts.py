"""What a tool's definition says about it, as the governor's facts."""

from collections.abc import Mapping

from governor.flow.labels import ToolFacts
from tool_gateway.catalog import ToolEntry

_FREE_TYPES = frozenset({"string", "array", "object"})


def facts_of(entry: ToolEntry) -> ToolFacts:
    """Return what the definition says; what it leaves open is taken for free text."""
    hints = entry.definition.get("annotations")
    hints = hints if isinstance(hints, Mapping) else {}
    properties = entry.input_schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    return ToolFacts(
        name=entry.original,
        description=str(entry.definition.get("description") or ""),
        parameters={str(name): _is_free(schema) for name, schema in properties.items()},
        is_read_only=_hint(hints, "readOnlyHint"),
        is_open_world=_hint(hints, "openWorldHint"),
    )


def _hint(hints: Mapping[object, object], name: str) -> bool | None:
    said = hints.get(name)
    return said if isinstance(said, bool) else None


def _is_free(schema: object) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if "enum" in schema or "const" in schema:
        return False
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        return any(_is_free(choice) for choice in choices)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return bool(_FREE_TYPES.intersection(map(str, kinds)))
    return kinds is None or kinds in _FREE_TYPES

"""The shape that a request asks an answer to have, and whether an answer has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from jsonschema.exceptions import SchemaError

from runtime.model_gateway.model_request import ModelRequest, WireName
from runtime.router.modes import forced_tool, tool_name
from runtime.router.said import Said, ToolUse
from tool_gateway.schemas import CheckedSchema

_FORCED = frozenset({"required", "any"})
_FAULT_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What an answer has to be: JSON, of a schema perhaps, and calls of tools as they declare.

    `tools` are the schemas of the tools that are offered. A shape that `is_plain` is any text.
    """

    is_json: bool = False
    schema: Mapping[str, object] | None = None
    tools: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    must_call: bool = False
    only_tool: str | None = None

    @property
    def is_plain(self) -> bool:
        """Tell whether any text will do."""
        return not self.is_json and not self.must_call


def shape_of(request: ModelRequest) -> Shape:
    """Return the shape that a request asks for."""
    fields = request.fields
    is_json, schema = _json_wanted(request.wire, fields)
    tools = {
        name: _parameters(tool)
        for tool in fields.get("tools") or ()
        if (name := tool_name(tool)) is not None
    }
    choice = fields.get("tool_choice")
    word = choice.get("type") if isinstance(choice, dict) else choice
    only = forced_tool(request)
    return Shape(
        is_json=is_json,
        schema=schema,
        tools=tools,
        must_call=only is not None or word in _FORCED,
        only_tool=only,
    )


def fault_of(shape: Shape, said: Said) -> str | None:
    """Return what of an answer is not of its shape, None where nothing is.

    It never quotes more than a little of the answer.
    """
    if said.tools:
        return next(filter(None, (_tool_fault(shape, use) for use in said.tools)), None)
    if shape.must_call:
        return "no tool is called, and one was to be"
    return _json_fault(shape, said.text) if shape.is_json else None


def is_checkable(shape: Shape, said: Said) -> bool:
    """Tell whether there is anything about an answer that its shape says."""
    return not shape.is_plain or bool(said.tools)


def _tool_fault(shape: Shape, use: ToolUse) -> str | None:
    if use.name not in shape.tools:
        return f"the tool {use.name!r:.80} was not offered"
    if shape.only_tool is not None and use.name != shape.only_tool:
        return f"the tool {use.name!r:.80} is called in place of {shape.only_tool!r:.80}"
    if use.arguments is None:
        return f"the arguments of {use.name!r:.80} are no JSON object"
    return _schema_fault(shape.tools[use.name], use.arguments, where="arguments")


def _json_fault(shape: Shape, text: str) -> str | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return "it is no JSON"
    if shape.schema is None:
        return None if isinstance(value, dict) else "it is no JSON object"
    return _schema_fault(shape.schema, value, where="answer")


def _schema_fault(schema: Mapping[str, object], value: object, *, where: str) -> str | None:
    try:
        finding = CheckedSchema(schema).finding(value, where=where)
    except SchemaError:
        # A client's own schema that cannot be worked with says nothing about an answer.
        return None
    if finding is None or not finding.is_certain:
        return None
    return finding.words[:_FAULT_CHARS_MAX]


def _json_wanted(
    wire: WireName, fields: Mapping[str, Any]
) -> tuple[bool, Mapping[str, object] | None]:
    match wire:
        case WireName.OPENAI_CHAT:
            wanted = fields.get("response_format")
        case WireName.OPENAI_RESPONSES:
            wanted = _member(fields.get("text"), "format")
        case _:
            wanted = _member(fields.get("output_config"), "format")
    kind = _member(wanted, "type")
    if kind not in ("json_object", "json_schema"):
        return False, None
    within = _member(wanted, "json_schema")
    schema = _member(within if isinstance(within, dict) else wanted, "schema")
    return True, schema if isinstance(schema, dict) else None


def _parameters(tool: Any) -> Mapping[str, object]:
    held = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    schema = held.get("parameters") or held.get("input_schema")
    return schema if isinstance(schema, dict) else {}


def _member(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None

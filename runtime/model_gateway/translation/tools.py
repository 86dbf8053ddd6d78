"""Definitions of tools, the choice between them, and what calls them, as either wire writes it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.model_gateway.strict_json import object_in
from runtime.model_gateway.translation.refusing import refuse_untold, untold

# Arguments that are no JSON object: told as they are, since nobody may invent others.
UNPARSED = "unparsed_arguments"
_NO_ARGUMENTS = {"type": "object", "properties": {}}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_CHOSEN = {theirs: ours for ours, theirs in _CHOICES.items()}
_TOLD_OF_FUNCTION = ("name", "description", "parameters", "strict")
_TOLD_OF_TOOL = ("name", "description", "input_schema", "strict", "type")
# How a tool is cached, streamed or shown by example changes neither what it is nor its price;
# one that a model would first have to search for is told from the start.
_HINTS = ("cache_control", "eager_input_streaming", "input_examples", "defer_loading")

Tool = dict[str, Any]


def messages_tools(tools: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """Return chat's functions as messages defines tools.

    Raises:
        InvalidRequestError: a tool is no function.
    """
    return [_messages_tool(tool, where=f"tools.{at}") for at, tool in enumerate(tools)]


def _messages_tool(tool: Mapping[str, Any], *, where: str) -> Tool:
    match tool:
        case {"type": "function", "function": {"name": str(name)} as function}:
            pass
        case _:
            raise untold(where, "is no function, and cannot be said")
    refuse_untold(function, told=_TOLD_OF_FUNCTION, neutral={}, within=f"{where}.function.")
    told: Tool = {"name": name, "input_schema": function.get("parameters") or _NO_ARGUMENTS}
    for field in ("description", "strict"):
        if function.get(field) is not None:
            told[field] = function[field]
    return told


def chat_tools(tools: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """Return messages' tools as chat's functions.

    Raises:
        InvalidRequestError: a tool is one that its provider would run.
    """
    return [_chat_tool(tool, where=f"tools.{at}") for at, tool in enumerate(tools)]


def _chat_tool(tool: Mapping[str, Any], *, where: str) -> Tool:
    if tool.get("type", "custom") not in ("custom", None):
        raise untold(where, "is a tool of the provider's own, and cannot be said")
    refuse_untold(
        tool,
        told=(*_TOLD_OF_TOOL, *_HINTS),
        neutral={"allowed_callers": (["direct"],)},
        within=f"{where}.",
    )
    function: Tool = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
    for field in ("description", "strict"):
        if tool.get(field) is not None:
            function[field] = tool[field]
    return {"type": "function", "function": function}


def messages_choice(choice: object, *, is_parallel: bool) -> Tool | None:
    """Return chat's choice of tools as messages has it; None leaves it to the provider.

    Raises:
        InvalidRequestError: the choice cannot be said.
    """
    told: Tool | None
    match choice:
        case None:
            told = None if is_parallel else {"type": "auto"}
        case "auto" | "none" | "required":
            told = {"type": _CHOICES[choice]}
        case {"type": "function", "function": {"name": str(name)}}:
            told = {"type": "tool", "name": name}
        case _:
            raise untold("tool_choice")
    if told is not None and not is_parallel and told["type"] != "none":
        told["disable_parallel_tool_use"] = True
    return told


def chat_choice(choice: Mapping[str, Any]) -> Tool:
    """Return the fields of a chat request that say what messages' choice of tools says.

    Raises:
        InvalidRequestError: the choice cannot be said.
    """
    match choice:
        case {"type": "tool", "name": str(name)}:
            told: object = {"type": "function", "function": {"name": name}}
        case {"type": "auto" | "none" | "any" as kind}:
            told = _CHOSEN[kind]
        case _:
            raise untold("tool_choice")
    alone = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {}
    return {"tool_choice": told, **alone}


def called(call: object, *, where: str) -> Tool:
    """Return a call in a chat message as the block that messages has for it.

    Raises:
        InvalidRequestError: it is no call of a function.
    """
    match call:
        case {"id": str(call_id), "function": {"name": str(name), "arguments": str(text)}}:
            pass
        case _:
            raise untold(where)
    return {"type": "tool_use", "id": call_id, "name": name, "input": read_arguments(text)}


def read_arguments(text: str) -> dict[str, Any]:
    """Return a call's arguments as an object, whatever a model wrote."""
    try:
        return object_in(text.encode()) if text else {}
    except ValueError:
        return {UNPARSED: text}


def written_arguments(arguments: object) -> str:
    """Return a call's arguments as chat has them: a text."""
    if isinstance(arguments, dict) and arguments.keys() == {UNPARSED}:
        return str(arguments[UNPARSED])
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))

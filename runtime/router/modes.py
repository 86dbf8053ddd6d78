"""A mode and a tier's list of tools, written into a request.

An instant or a reasoned answer is one in words: tools that are offered stay in the prompt, where
the conversation refers to them and the provider has cached them, and are not to be called. What
the client says of tools itself goes before the mode.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from governor.effort import AnswerMode
from runtime.model_gateway.model_request import ModelRequest, WireName
from runtime.router.conversation import with_fields
from runtime.router.effort import Written

_IN_WORDS = (AnswerMode.INSTANT, AnswerMode.REASONING)


def with_mode(request: ModelRequest, mode: AnswerMode) -> Written:
    """Return the request as a mode answers it, its effort aside."""
    if mode not in _IN_WORDS or not request.tools_count:
        return Written(request=request, why=f"mode: {mode.value}")
    if request.fields.get("tool_choice") is not None:
        return Written(request=request, why=f"mode: {mode.value}, tools as the client chose")
    none: Any = {"type": "none"} if request.wire is WireName.ANTHROPIC_MESSAGES else "none"
    said = with_fields(request, {"tool_choice": none})
    return Written(request=said, why=f"mode: {mode.value}, no tools are called")


def with_tools(request: ModelRequest, allowed: Collection[str]) -> Written:
    """Return the request with those of its tools that are allowed."""
    tools = request.fields.get("tools")
    if not isinstance(tools, list) or not tools:
        return Written(request=request)
    kept = [tool for tool in tools if tool_name(tool) in allowed]
    left_out = len(tools) - len(kept)
    if not left_out:
        return Written(request=request)
    changes: dict[str, Any] = {"tools": kept}
    forced = forced_tool(request)
    # Neither a tool that is not there nor a choice among none can be asked for.
    drops_choice = not kept or (forced is not None and forced not in allowed)
    without = ("tool_choice",) if drops_choice else ()
    if not kept:
        without, changes = (*without, "tools", "parallel_tool_calls"), {}
    said = with_fields(request, changes, without=without)
    return Written(
        request=replace(said, tools_count=request.tools_count - left_out),
        why=f"tools: the tier offers {len(kept)} of {len(tools)}",
    )


def tool_name(tool: object) -> str | None:
    """Return the name of a tool that is offered, in whichever of the shapes of the wires."""
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    held = function if isinstance(function, dict) else tool
    name = held.get("name")
    return name if isinstance(name, str) else None


def forced_tool(request: ModelRequest) -> str | None:
    """Return the name of the one tool that the client wants called; None where it is free."""
    return tool_name(request.fields.get("tool_choice"))

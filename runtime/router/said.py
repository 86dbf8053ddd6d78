"""What a model's whole answer says, on the wires that have conversations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from runtime.model_gateway.model_request import WireName
from runtime.model_gateway.strict_json import object_in

_CHAT_CUT = "length"
_MESSAGES_CUT = "max_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A tool that the model wants called; its arguments are None where they are no object."""

    name: str
    arguments: Mapping[str, object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The first choice of an answer: its words, the tools it wants called, how it ended."""

    text: str = ""
    tools: tuple[ToolUse, ...] = ()
    is_cut: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was said at all."""
        return not self.text.strip() and not self.tools


NOTHING_SAID = Said()


def said_in(wire: WireName, content: bytes) -> Said:
    """Return what an answer says; nothing where it cannot be read."""
    try:
        answer = object_in(content)
    except ValueError:
        return NOTHING_SAID
    match wire:
        case WireName.OPENAI_CHAT:
            return _of_chat(answer)
        case WireName.ANTHROPIC_MESSAGES:
            return _of_messages(answer)
        case WireName.OPENAI_RESPONSES:
            return _of_responses(answer)
        case _:
            return NOTHING_SAID


def arguments_in(text: object) -> Mapping[str, object] | None:
    """Return the object of arguments that a model wrote; None where it is none."""
    if isinstance(text, dict):
        return text
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _of_chat(answer: Mapping[str, Any]) -> Said:
    choice = _first(answer.get("choices"))
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    tools = []
    for call in _objects(message.get("tool_calls")):
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        tools.append(_use(function.get("name"), function.get("arguments")))
    content = message.get("content") or message.get("refusal")
    return Said(
        text=content if isinstance(content, str) else "",
        tools=tuple(tools),
        is_cut=choice.get("finish_reason") == _CHAT_CUT,
    )


def _of_messages(answer: Mapping[str, Any]) -> Said:
    blocks = _objects(answer.get("content"))
    return Said(
        text="\n".join(_text(block) for block in blocks if block.get("type") == "text"),
        tools=tuple(
            _use(block.get("name"), block.get("input"))
            for block in blocks
            if block.get("type") == "tool_use"
        ),
        is_cut=answer.get("stop_reason") == _MESSAGES_CUT,
    )


def _of_responses(answer: Mapping[str, Any]) -> Said:
    items = _objects(answer.get("output"))
    texts = [
        _text(part)
        for item in items
        if item.get("type") == "message"
        for part in _objects(item.get("content"))
        if part.get("type") == "output_text"
    ]
    return Said(
        text="\n".join(texts),
        tools=tuple(
            _use(item.get("name"), item.get("arguments"))
            for item in items
            if item.get("type") == "function_call"
        ),
        is_cut=answer.get("status") == "incomplete",
    )


def _use(name: object, arguments: object) -> ToolUse:
    return ToolUse(name=name if isinstance(name, str) else "", arguments=arguments_in(arguments))


def _text(part: Mapping[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else ""


def _first(value: object) -> dict[str, Any]:
    return next(iter(_objects(value)), {})


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

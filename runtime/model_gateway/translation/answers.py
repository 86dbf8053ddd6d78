"""Whole answers and faults, in the words of the other wire."""

from collections.abc import Mapping
from typing import Any

from runtime.model_gateway.translation.tools import read_arguments, written_arguments
from runtime.model_gateway.translation.words import (
    chat_fault,
    chat_usage,
    finish_reason,
    messages_fault,
    messages_usage,
    stop_reason,
)

_UNNAMED = "The model provider refused the request and did not say why."

Body = dict[str, Any]


def chat_answer(message: Mapping[str, Any], *, now_s: int) -> Body:
    """Return a message as a chat completion; what was thought in the open stands beside it."""
    said, thought, calls = [], [], []
    for block in listed(message.get("content")):
        match block:
            case {"type": "text", "text": str(text)}:
                said.append(text)
            case {"type": "thinking", "thinking": str(text)}:
                thought.append(text)
            case {"type": "tool_use", "id": call_id, "name": name, "input": arguments}:
                function = {"name": name, "arguments": written_arguments(arguments)}
                calls.append({"id": call_id, "type": "function", "function": function})
            case _:
                pass  # what its provider ran by itself has no words in chat
    told: Body = {"role": "assistant", "content": "".join(said) if said else None, "refusal": None}
    if thought:
        told["reasoning_content"] = "".join(thought)
    if calls:
        told["tool_calls"] = calls
    return {
        "id": message.get("id", ""),
        "object": "chat.completion",
        "created": now_s,
        "model": message.get("model", ""),
        "choices": [
            {
                "index": 0,
                "message": told,
                "logprobs": None,
                "finish_reason": finish_reason(message.get("stop_reason")),
            }
        ],
        "usage": chat_usage(_object(message.get("usage"))),
    }


def messages_answer(completion: Mapping[str, Any]) -> Body:
    """Return a chat completion as a message; it has one choice, for messages can ask for one."""
    choice = _object(next(iter(listed(completion.get("choices"))), None))
    message = _object(choice.get("message"))
    refusal = message.get("refusal")
    blocks = [_text(text) for text in (message.get("content"), refusal) if text]
    for call in listed(message.get("tool_calls")):
        match call:
            case {"id": call_id, "function": {"name": name, "arguments": str(text)}}:
                arguments = read_arguments(text)
                blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
            case _:
                pass  # only functions are offered, so nothing else is called
    return {
        "id": completion.get("id", ""),
        "type": "message",
        "role": "assistant",
        "model": completion.get("model", ""),
        "content": blocks,
        "stop_reason": "refusal" if refusal else stop_reason(choice.get("finish_reason")),
        "stop_sequence": None,
        "usage": messages_usage(_object(completion.get("usage"))),
    }


def chat_error(body: Mapping[str, Any] | None) -> Body:
    """Return Anthropic's error in OpenAI's envelope."""
    error = _object((body or {}).get("error"))
    kind = error.get("type")
    return {
        "error": {
            "message": str(error.get("message") or _UNNAMED),
            "type": chat_fault(kind),
            "param": None,
            "code": kind,
        }
    }


def messages_error(body: Mapping[str, Any] | None, *, status: int) -> Body:
    """Return OpenAI's error, which some servers write as a text alone, in Anthropic's envelope."""
    error = (body or {}).get("error")
    said = error if isinstance(error, str) else _object(error).get("message")
    told = {"type": messages_fault(status), "message": str(said or _UNNAMED)}
    return {"type": "error", "error": told}


def _text(text: object) -> Body:
    return {"type": "text", "text": str(text)}


def listed(value: object) -> list[Any]:
    """Return a list that a provider sent, none where it sent something else."""
    return value if isinstance(value, list) else []


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

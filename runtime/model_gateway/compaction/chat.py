"""Chat completions as conversations, and back with what gave way."""

from collections.abc import Mapping, Sequence

from runtime.model_gateway.compaction.contents import JSON, TEXT, Fields, bytes_of, text_of
from runtime.model_gateway.compaction.conversation import (
    Asked,
    Conversation,
    Message,
    Part,
    Result,
)

_PARTS = {
    "system": Part.INSTRUCTIONS,
    "developer": Part.INSTRUCTIONS,
    "user": Part.USER,
    "assistant": Part.AGENT,
    "tool": Part.RESULTS,
    "function": Part.RESULTS,
}
_FAILED = ("error", "exception", "traceback")


def read_chat(messages: Sequence[Fields]) -> Conversation:
    """Return the conversation in the messages of a chat completion."""
    read: list[Message] = []
    names: dict[str, str] = {}
    turn = 0
    for message in messages:
        # A role that is not known is nobody's to shorten.
        part = _PARTS.get(str(message.get("role")), Part.INSTRUCTIONS)
        turn += part is Part.AGENT
        read.append(_read(message, part, turn, names))
    return Conversation(messages=tuple(read))


def seems_failed(text: str) -> bool:
    """Tell whether a result begins as errors do, where nothing else says so."""
    return text[:40].lstrip(" [{\"'(").lower().startswith(_FAILED)


def _read(message: Fields, part: Part, turn: int, names: dict[str, str]) -> Message:
    content = message.get("content")
    asked = tuple(_asked(message)) if part is Part.AGENT else ()
    names.update((one.call, one.name) for one in asked)
    results: tuple[Result, ...] = ()
    if part is Part.RESULTS:
        results = (_result(message, content, names),)
    return Message(
        part=part,
        turn=turn,
        text="" if part is Part.RESULTS else text_of(content),
        content=bytes_of(message),
        asked=asked,
        results=results,
    )


def _result(message: Fields, content: object, names: Mapping[str, str]) -> Result:
    call = str(message.get("tool_call_id") or "")
    text = text_of(content)
    is_text = isinstance(content, str)
    return Result(
        block=None,
        call=call,
        name=str(message.get("name") or names.get(call, "")),
        content=bytes_of(content) if is_text or _is_of_texts(content) else None,
        media_type=TEXT if is_text else JSON,
        text=text,
        is_failed=seems_failed(text),
    )


def _is_of_texts(content: object) -> bool:
    return isinstance(content, list) and all(
        isinstance(part, Mapping) and part.get("type") == "text" for part in content
    )


def _asked(message: Fields) -> list[Asked]:
    calls = message.get("tool_calls")
    found = [
        _call(str(call.get("id") or ""), call.get("function") or call.get("custom"))
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, Mapping)
    ]
    if isinstance(message.get("function_call"), Mapping):
        found.append(_call("", message["function_call"]))
    return found


def _call(call: str, function: object) -> Asked:
    about = function if isinstance(function, Mapping) else {}
    arguments = about.get("arguments") or about.get("input") or ""
    return Asked(call=call, name=str(about.get("name") or ""), arguments=str(arguments))

"""Anthropic's messages as conversations, and back with what gave way."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.model_gateway.compaction.contents import JSON, TEXT, Fields, bytes_of, text_of
from runtime.model_gateway.compaction.conversation import (
    Asked,
    Conversation,
    Message,
    Part,
    Result,
)

# What may stand in a result that can be kept elsewhere: all else means something to the provider.
_KEEPABLE = ("text", "image", "document", "search_result")


def read_messages(messages: Sequence[Fields]) -> Conversation:
    """Return the conversation in the messages of a request."""
    read: list[Message] = []
    names: dict[str, str] = {}
    turn = 0
    for message in messages:
        turn += message.get("role") == "assistant"
        read.append(_read(message, turn, names))
    return Conversation(messages=tuple(read))


def _read(message: Fields, turn: int, names: dict[str, str]) -> Message:
    content = message.get("content")
    asked: tuple[Asked, ...] = ()
    results: tuple[Result, ...] = ()
    if message.get("role") == "assistant":
        part = Part.AGENT
        asked = tuple(_asked(content))
        names.update((one.call, one.name) for one in asked)
    else:
        results = tuple(_results(content, names))
        part = Part.RESULTS if results else Part.USER
        if message.get("role") != "user":
            part = Part.INSTRUCTIONS
    return Message(
        part=part,
        turn=turn,
        text=text_of(content),
        content=bytes_of(message),
        asked=asked,
        results=results,
    )


def _blocks(content: object, kind: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for place, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, Mapping) and block.get("type") == kind:
            yield place, block


def _asked(content: object) -> Iterator[Asked]:
    for _, block in _blocks(content, "tool_use"):
        yield Asked(
            call=str(block.get("id") or ""),
            name=str(block.get("name") or ""),
            arguments=(bytes_of(block.get("input")) or b"").decode(),
        )


def _results(content: object, names: Mapping[str, str]) -> Iterator[Result]:
    for place, block in _blocks(content, "tool_result"):
        call, told = str(block.get("tool_use_id") or ""), block.get("content")
        is_text = isinstance(told, str)
        yield Result(
            block=place,
            call=call,
            name=names.get(call, ""),
            content=bytes_of(told) if is_text or _is_keepable(told) else None,
            media_type=TEXT if is_text else JSON,
            text=text_of(told),
            is_failed=block.get("is_error") is True,
        )


def _is_keepable(content: object) -> bool:
    return isinstance(content, list) and all(
        isinstance(block, Mapping) and block.get("type") in _KEEPABLE for block in content
    )

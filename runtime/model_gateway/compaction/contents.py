"""Contents of messages: their words, the bytes that stand for them, and what replaces them."""

from collections.abc import Mapping
from typing import Any

import msgspec

Fields = Mapping[str, Any]

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
_CACHE = "cache_control"


def text_of(content: object) -> str:
    """Return the words of a content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def bytes_of(value: object) -> bytes | None:
    """Return what stands for a value whole: a text's own bytes, else JSON; None for no text."""
    try:
        return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        return None


def replaced(content: object, words: str) -> object:
    """Return `words` in the place of a content; a border of a cache stays where it is."""
    if not isinstance(content, list):
        return words
    borders = [part[_CACHE] for part in content if isinstance(part, Mapping) and _CACHE in part]
    if not borders:
        return words
    return [{"type": "text", "text": words, _CACHE: borders[-1]}]


def with_more(content: object, words: str) -> object:
    """Return a content with `words` after it."""
    if isinstance(content, list):
        return [*content, {"type": "text", "text": words}]
    return f"{content}\n\n{words}" if content else words


def with_contents(message: Fields, contents: Mapping[int | None, object]) -> dict[str, Any]:
    """Return a message with other contents of its blocks, of itself under None."""
    if not contents:
        return dict(message)
    if None in contents:
        return {**message, "content": contents[None]}
    blocks = [
        {**block, "content": contents[place]} if place in contents else block
        for place, block in enumerate(message["content"])
    ]
    return {**message, "content": blocks}

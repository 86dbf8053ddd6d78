"""What a write was answered, told again to a retry: its words are those of the memory by then."""

import json
from collections.abc import Mapping
from dataclasses import replace

from governor.experience.experience import Experience
from tool_gateway.results import ToolResult, text_block

# Both tell what was written, the second to whoever guesses it.
_WORDS = ("summary", "address")
_GONE = "What was kept has been erased since."


def without_words(result: ToolResult) -> ToolResult:
    """Return an answer as it may be kept for a retry: nothing in it outlives an erasure."""
    shape = result.structured
    if result.is_error or not isinstance(shape, Mapping):
        return result
    bare = {name: "" if name in _WORDS else value for name, value in shape.items()}
    return _with_shape(result, bare)


def with_words(result: ToolResult, kept: Experience | None) -> ToolResult:
    """Return an answer that was kept without its words with those of what is there now."""
    shape = result.structured
    if result.is_error or not isinstance(shape, Mapping):
        return result
    if kept is None:
        return result.with_note(_GONE)
    return _with_shape(result, {**shape, "summary": kept.summary, "address": kept.address})


def index_of(result: ToolResult) -> str | None:
    """Return the index of what was written, None where nothing was."""
    shape = result.structured
    index = shape.get("index") if isinstance(shape, Mapping) else None
    return index if isinstance(index, str) else None


def _with_shape(result: ToolResult, shape: Mapping[str, object]) -> ToolResult:
    told = text_block(json.dumps(shape, ensure_ascii=False))
    return replace(result, content=(told, *result.content[1:]), structured=dict(shape))

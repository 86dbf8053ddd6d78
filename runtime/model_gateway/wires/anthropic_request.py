"""What is read of a request in Anthropic's Messages format."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from governor.tiers import Extra
from runtime.model_gateway.model_request import Asked, ImagePart, Uncounted
from runtime.model_gateway.wires.extras import image_at
from runtime.model_gateway.wires.fields import Object, fault, objects, objects_in
from runtime.model_gateway.wires.found import Found

MESSAGES_MAX = 100_000
_BLOCKS_MAX = 100_000
TOOLS_MAX = 4_096
_TOOL_RESULT_DEPTH_MAX = 4

# Tools that Anthropic defines and the client runs; all other types the provider runs itself.
_CLIENT_TOOLS = ("custom", "bash_", "text_editor_", "computer_", "browser_", "memory_")
# Their definitions are Anthropic's own, so their bytes are not in the request: several times
# what is published of them.
_TOKENS_PER_KNOWN_TOOL = 2_048
_TOKENS_PER_TOOLSET = 32_768
# What is added around tools and around a schema for the output, several times what is published.
_TOKENS_WITH_TOOLS = 1_024
_TOKENS_WITH_FORMAT = 1_024
_LONG_CACHE = "1h"
_RESULTS = ("tool_result", "web_fetch_tool_result")
# Every type of block whose tokens are in its own bytes.
_IN_BYTES = frozenset(
    {
        *("text", "thinking", "redacted_thinking", "tool_use", "search_result"),
        *("server_tool_use", "web_search_tool_result"),
        *("code_execution_tool_result", "bash_code_execution_tool_result"),
        *("text_editor_code_execution_tool_result", "tool_search_tool_result", "compaction"),
        *("advisor_tool_result", "mcp_tool_use", "mcp_tool_result", "mcp_tool_listing"),
        *("browser_state", "tool_removal", "fallback"),
    }
)


@dataclass(slots=True)
class FoundInMessage(Found):
    """What was found, and which tools are shown to the model again, once for each time."""

    shown_again: list[object] = field(default_factory=list)


def found_in(fields: Object) -> FoundInMessage:
    """Return what a request holds besides the text that its bytes bound.

    Raises:
        InvalidRequestError: a part of it is not what the format says.
    """
    found = FoundInMessage()
    _take_system(fields.get("system"), found)
    messages = objects_in(fields, "messages", count_max=MESSAGES_MAX)
    if not messages:
        raise fault("messages", "send at least one message")
    for number, message in enumerate(messages):
        _take_message(message, f"messages.{number}", found)
    _take_tools(objects_in(fields, "tools", count_max=TOOLS_MAX), found)
    _take_extras(fields, found)
    _take_cache(fields, "cache_control", found)
    output = fields.get("output_config")
    if isinstance(output, Mapping) and output.get("format") is not None:
        found.more_tokens += _TOKENS_WITH_FORMAT
    return found


def texts_of(message: Object) -> Iterator[str]:
    """Yield the words of a message; what tools answered are nobody's words."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
        return
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") == "text":
            text = block.get("text")
            if isinstance(text, str):
                yield text


def _take_system(system: object, found: FoundInMessage) -> None:
    if system is None or isinstance(system, str):
        return
    for number, block in enumerate(objects(system, "system", count_max=_BLOCKS_MAX)):
        _take_block(block, f"system.{number}", found)


def _take_message(message: Object, param: str, found: FoundInMessage) -> None:
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise fault(f"{param}.role", 'use "user" or "assistant"')
    content = message.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise fault(f"{param}.content", "use a text or a list of blocks")
    _take_blocks(content, f"{param}.content", found)


def _take_blocks(content: object, param: str, found: FoundInMessage, *, depth: int = 0) -> None:
    if depth > _TOOL_RESULT_DEPTH_MAX:
        raise fault(param, "blocks are nested too deeply")
    for number, block in enumerate(objects(content, param, count_max=_BLOCKS_MAX)):
        _take_block(block, f"{param}.{number}", found, depth=depth)


def _take_block(block: Object, param: str, found: FoundInMessage, *, depth: int = 0) -> None:
    _take_cache(block, f"{param}.cache_control", found)
    kind = block.get("type")
    if not isinstance(kind, str):
        raise fault(f"{param}.type", "name the type of the block")
    if kind in _IN_BYTES:
        _take_citations(block, found)
    elif kind == "image":
        found.images.append(_image(block.get("source"), f"{param}.source"))
    elif kind == "document":
        _take_document(block, param, found, depth=depth)
    elif kind in _RESULTS:
        _take_result(block, param, found, depth=depth)
    elif kind == "tool_reference":
        found.shown_again.append(block.get("tool_name"))
    elif kind == "container_upload":
        found.asked.append(Asked(extra=Extra.SERVER_TOOLS, param=param))
    else:
        found.uncounted.append(Uncounted(param=param, what="This type of block"))


def _take_result(block: Object, param: str, found: FoundInMessage, *, depth: int) -> None:
    """Take what a tool answered: a text, blocks, or one document inside what was fetched."""
    content = block.get("content")
    if isinstance(content, Mapping):
        document = content.get("content")
        if isinstance(document, Mapping):
            _take_blocks([document], f"{param}.content.content", found, depth=depth + 1)
    elif content is not None and not isinstance(content, str):
        _take_blocks(content, f"{param}.content", found, depth=depth + 1)


def _image(source: object, param: str) -> ImagePart:
    """Return an image, which is made small enough wherever it comes from."""
    if not isinstance(source, Mapping):
        raise fault(param, "use an object")
    encoded = source.get("data")
    if not isinstance(encoded, str):
        return ImagePart()
    return image_at(f"data:{source.get('media_type')};base64,{encoded}", param)


def _take_document(block: Object, param: str, found: FoundInMessage, *, depth: int) -> None:
    source = block.get("source")
    if not isinstance(source, Mapping):
        raise fault(f"{param}.source", "use an object")
    match source.get("type"):
        case "text":
            _take_citations(block, found)
        case "content":
            content = source.get("content")
            if not isinstance(content, str):
                _take_blocks(content, f"{param}.source.content", found, depth=depth + 1)
            _take_citations(block, found)
        case _:
            # Each page is read as text and as an image, and only the provider sees the pages.
            found.uncounted.append(Uncounted(param=param, what="A document that is no text"))


def _take_citations(block: Object, found: FoundInMessage) -> None:
    """Count a document again that can be cited: its sentences are numbered for the model."""
    citations = block.get("citations")
    if isinstance(citations, Mapping) and citations.get("enabled") is True:
        found.more_tokens += _text_bytes(block)


def _text_bytes(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(_text_bytes(item) for item in value.values())
    return sum(_text_bytes(item) for item in value) if isinstance(value, list) else 0


def _take_tools(tools: Sequence[dict[str, Any]], found: FoundInMessage) -> None:
    if tools:
        found.more_tokens += _TOKENS_WITH_TOOLS
    again = Counter(name for name in found.shown_again if isinstance(name, str))
    for number, tool in enumerate(tools):
        param = f"tools.{number}"
        if (times := again.get(str(tool.get("name")), 0)) > 0:
            found.more_tokens += times * _text_bytes(tool)
        _take_cache(tool, f"{param}.cache_control", found)
        kind = tool.get("type")
        if kind is None or kind == "custom":
            continue
        if not isinstance(kind, str):
            raise fault(f"{param}.type", "use a text")
        if not kind.startswith(_CLIENT_TOOLS):
            found.asked.append(Asked(extra=Extra.SERVER_TOOLS, param=f"{param}.type"))
        elif "_toolset_" in kind:
            found.more_tokens += _TOKENS_PER_TOOLSET
        else:
            found.more_tokens += _TOKENS_PER_KNOWN_TOOL


def _take_extras(fields: Object, found: FoundInMessage) -> None:
    for name, extra in _EXTRA_FIELDS.items():
        if fields.get(name) not in (None, [], {}):
            found.asked.append(Asked(extra=extra, param=name))
    for name, (usual, extra) in _EXTRA_VALUES.items():
        if fields.get(name) not in (None, *usual):
            found.asked.append(Asked(extra=extra, param=name))
    if fields.get("thread") is not None:
        found.uncounted.append(Uncounted(param="thread", what="A conversation that is kept"))
    management = fields.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    for number, edit in enumerate(objects(edits, "context_management.edits", count_max=64)):
        # What only clears makes the input smaller.
        if not str(edit.get("type")).startswith("clear_"):
            param = f"context_management.edits.{number}"
            found.asked.append(Asked(extra=Extra.COMPACTION, param=param))


_EXTRA_FIELDS = {
    "mcp_servers": Extra.SERVER_TOOLS,
    "container": Extra.SERVER_TOOLS,
    "fallbacks": Extra.OTHER_MODELS,
    "compaction": Extra.COMPACTION,
}
_EXTRA_VALUES = {
    "speed": (("standard",), Extra.FAST),
    "service_tier": (("auto", "standard_only"), Extra.PRIORITY),
    "inference_geo": (("global",), Extra.GEOGRAPHY),
}


def _take_cache(holder: Object, param: str, found: FoundInMessage) -> None:
    control = holder.get("cache_control")
    if control is None:
        return
    found.writes_cache = True
    if isinstance(control, Mapping) and control.get("ttl") == _LONG_CACHE:
        found.asked.append(Asked(extra=Extra.LONG_CACHE, param=f"{param}.ttl"))

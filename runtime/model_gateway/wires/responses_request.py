"""What is read of a request in OpenAI's Responses format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from governor.tiers import Extra
from runtime.model_gateway.model_request import Asked, ImagePart, Uncounted
from runtime.model_gateway.wires.extras import image_at
from runtime.model_gateway.wires.fields import Object, fault, objects, objects_in
from runtime.model_gateway.wires.found import Found

ITEMS_MAX = 100_000
TOOLS_MAX = 4_096
_DEPTH_MAX = 4

_SERVICE_TIERS = ("auto", "default", "flex")
_LONG_CACHE = "12h"
# Tools whose definition is OpenAI's own and which the client runs: several times what they take.
_KNOWN_TOOLS = ("local_shell", "shell", "apply_patch", "computer", "computer_use_preview")
_TOKENS_PER_KNOWN_TOOL = 2_048
_TOKENS_WITH_TOOLS = 1_024
_TOKENS_WITH_FORMAT = 1_024
_OWN_TOOLS = ("function", "custom")

# Items and parts whose tokens are in their own bytes.
_TEXTS = frozenset(
    {"input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text"}
)
_IN_BYTES = frozenset(
    {
        *("function_call", "custom_tool_call", "compaction", "computer_call", "tool_search_call"),
        *("local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output"),
        *("apply_patch_call", "apply_patch_call_output", "mcp_list_tools", "mcp_call"),
        *("mcp_approval_request", "mcp_approval_response", "program", "program_output"),
        *("tool_search_output", "configuration_update"),
    }
)
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "computer_call_output")
_STORED = {
    "previous_response_id": "An earlier answer",
    "conversation": "A stored conversation",
    "prompt": "A stored prompt",
}


@dataclass(slots=True)
class FoundInResponse(Found):
    """What was found, and how many tools the model is offered."""

    tools_count: int = 0


def items_of(fields: Object) -> Sequence[Mapping[str, object]]:
    """Return the items of the input; a text is one message of the user's.

    Raises:
        InvalidRequestError: there is none, or it is neither a text nor a list of items.
    """
    value = fields.get("input")
    if isinstance(value, str):
        return ({"role": "user", "content": value},)
    if value is None and not any(fields.get(name) is not None for name in _STORED):
        raise fault("input", "send a text or a list of items")
    return objects_in(fields, "input", count_max=ITEMS_MAX)


def found_in(fields: Object) -> FoundInResponse:
    """Return what a request holds besides the text that its bytes bound.

    Raises:
        InvalidRequestError: a part of it is not what the format says, or cannot be governed.
    """
    found = FoundInResponse()
    for number, item in enumerate(items_of(fields)):
        _take_item(item, f"input.{number}", found)
    _take_tools(fields.get("tools"), "tools", found)
    if found.tools_count:
        found.more_tokens += _TOKENS_WITH_TOOLS
    _take_options(fields, found)
    for name, what in _STORED.items():
        if fields.get(name) is not None:
            found.uncounted.append(Uncounted(param=name, what=what))
    return found


def texts_of(item: Mapping[str, object]) -> Iterator[str]:
    """Yield the words of a message."""
    content = item.get("content")
    if isinstance(content, str):
        yield content
        return
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and part.get("type") in _TEXTS:
            text = part.get("text")
            if isinstance(text, str):
                yield text


def is_message(item: Mapping[str, object]) -> bool:
    """Tell whether an item is a message; those that clients write by hand have no type."""
    return item.get("type") == "message" or ("type" not in item and "role" in item)


def _take_item(item: Object, param: str, found: FoundInResponse) -> None:
    kind = _kind(item, param)
    if is_message(item):
        _take_content(item.get("content"), f"{param}.content", found)
    elif kind in _OUTPUTS:
        _take_content(item.get("output"), f"{param}.output", found)
    elif kind == "reasoning":
        if not item.get("encrypted_content") and not item.get("content"):
            what = "Reasoning that only the provider has"
            found.uncounted.append(Uncounted(param=param, what=what))
    elif kind == "additional_tools":
        _take_tools(item.get("tools"), f"{param}.tools", found)
    elif kind == "image_generation_call" and isinstance(item.get("result"), str):
        found.images.append(image_at(f"data:image/png;base64,{item['result']}", param))
    elif kind == "compaction_trigger":
        found.asked.append(Asked(extra=Extra.COMPACTION, param=param))
    elif kind not in _IN_BYTES:
        found.uncounted.append(Uncounted(param=param, what="This type of item"))


def _kind(holder: Object, param: str) -> str | None:
    kind = holder.get("type")
    if kind is not None and not isinstance(kind, str):
        raise fault(f"{param}.type", "use a text")
    return kind


def _take_content(content: object, param: str, found: FoundInResponse) -> None:
    if content is None or isinstance(content, str):
        return
    if isinstance(content, Mapping):
        _take_part(content, param, found)
        return
    for number, part in enumerate(objects(content, param, count_max=ITEMS_MAX)):
        _take_part(part, f"{param}.{number}", found)


def _take_part(part: Object, param: str, found: FoundInResponse) -> None:
    if part.get("prompt_cache_breakpoint") is not None:
        _take_cache(part["prompt_cache_breakpoint"], f"{param}.prompt_cache_breakpoint", found)
    kind = _kind(part, param)
    if kind in _TEXTS:
        return
    if kind in ("input_image", "computer_screenshot"):
        url, detail = part.get("image_url"), part.get("detail")
        detail = detail if isinstance(detail, str) else "auto"
        # Without an address it is a file that the provider has.
        found.images.append(
            image_at(url, param, detail=detail)
            if isinstance(url, str)
            else ImagePart(detail=detail)
        )
        return
    if kind == "input_audio":
        found.asked.append(Asked(extra=Extra.AUDIO, param=param))
    what = "A file" if kind == "input_file" else "This type of content"
    found.uncounted.append(Uncounted(param=param, what=what))


def _take_tools(tools: object, param: str, found: FoundInResponse, *, depth: int = 0) -> None:
    if depth > _DEPTH_MAX:
        raise fault(param, "tools are nested too deeply")
    for number, tool in enumerate(objects(tools, param, count_max=TOOLS_MAX)):
        found.tools_count += 1
        kind, here = tool.get("type"), f"{param}.{number}"
        if kind == "namespace":
            _take_tools(tool.get("tools"), f"{here}.tools", found, depth=depth + 1)
        elif _is_run_by_client(tool):
            found.more_tokens += 0 if kind in _OWN_TOOLS else _TOKENS_PER_KNOWN_TOOL
        else:
            found.asked.append(Asked(extra=Extra.SERVER_TOOLS, param=f"{here}.type"))


def _is_run_by_client(tool: Object) -> bool:
    kind = tool.get("type")
    if kind == "shell":
        environment = tool.get("environment")
        return environment is None or (
            isinstance(environment, Mapping) and environment.get("type") == "local"
        )
    if kind == "tool_search":
        return tool.get("execution") == "client"
    return kind in _OWN_TOOLS or kind in _KNOWN_TOOLS


def _take_options(fields: Object, found: FoundInResponse) -> None:
    if fields.get("background") not in (None, False):
        raise fault(
            "background",
            "answers in the background are not served: what they cost is only known later, at a "
            "route that no budget covers. Leave it out, or stream the answer.",
        )
    if fields.get("service_tier") not in (None, *_SERVICE_TIERS):
        found.asked.append(Asked(extra=Extra.PRIORITY, param="service_tier"))
    if fields.get("context_management"):
        found.asked.append(Asked(extra=Extra.COMPACTION, param="context_management"))
    if fields.get("prompt") is not None:
        found.asked.append(Asked(extra=Extra.STORED_PROMPT, param="prompt"))
    if fields.get("prompt_cache_options") is not None:
        _take_cache(fields["prompt_cache_options"], "prompt_cache_options", found)
    text = fields.get("text")
    if isinstance(text, Mapping) and text.get("format") is not None:
        found.more_tokens += _TOKENS_WITH_FORMAT


def _take_cache(options: object, param: str, found: FoundInResponse) -> None:
    found.writes_cache = True
    if isinstance(options, Mapping) and options.get("ttl") == _LONG_CACHE:
        found.asked.append(Asked(extra=Extra.LONG_CACHE, param=f"{param}.ttl"))

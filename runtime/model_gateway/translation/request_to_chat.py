"""A request in Anthropic's messages, as OpenAI's chat asks for the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.model_gateway.translation.content import Block, parts_of, plain, text_of
from runtime.model_gateway.translation.refusing import refuse_untold, rows, table, untold
from runtime.model_gateway.translation.tools import chat_choice, chat_tools, written_arguments

_TOLD = frozenset(
    {
        *("model", "messages", "system", "max_tokens", "stream", "temperature", "top_p"),
        *("stop_sequences", "metadata", "tools", "tool_choice", "thinking", "output_config"),
        # Where a cache ends changes no answer; a provider of chat finds it by itself.
        "cache_control",
    }
)
_NEUTRAL: Mapping[str, Sequence[object]] = {
    "service_tier": ("auto", "standard_only"),
    "speed": ("standard",),
    "mcp_servers": ([],),
    # Thoughts are never told to another provider, so that there are none to clear.
    "context_management": (
        {"edits": []},
        {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    ),
}
_TOLD_OF_OUTPUT = frozenset({"format", "effort"})
# Thoughts are signed for the provider that thought them, and nobody else can read them.
_UNSAID = frozenset({"thinking", "redacted_thinking"})
_FAILED = "The tool failed: "
_SHOWN = "(What the tool shows follows in the next message of the user.)"
_SHOWN_BY = "Shown by the tool call"
_FOUND = "Found the tool"
_SCHEMA_NAME = "answer"
_USER_CHARS_MAX = 64
# From how many tokens of thinking on an effort is meant.
_EFFORTS = ((16_384, "high"), (4_096, "medium"), (0, "low"))

Fields = dict[str, Any]


def chat_request(
    messages: Mapping[str, Any], *, output_tokens_max: int, asks_for_usage: bool = True
) -> Fields:
    """Return the request in chat's fields; a stream of it is asked for its usage, or is not.

    `output_tokens_max` is for a request that names none.

    Raises:
        InvalidRequestError: a field cannot be said there.
    """
    refuse_untold(messages, told=_TOLD, neutral=_NEUTRAL)
    asked = messages.get("max_tokens")
    fields: Fields = {
        "model": messages["model"],
        "messages": [*_instructions(messages.get("system")), *_conversation(messages["messages"])],
        "max_completion_tokens": output_tokens_max if asked is None else asked,
    }
    for name in ("temperature", "top_p"):
        if messages.get(name) is not None:
            fields[name] = messages[name]
    if messages.get("stream"):
        fields["stream"] = True
        if asks_for_usage:
            fields["stream_options"] = {"include_usage": True}
    if messages.get("stop_sequences"):
        fields["stop"] = messages["stop_sequences"]
    user = table(messages.get("metadata"), where="metadata").get("user_id")
    if isinstance(user, str) and len(user) <= _USER_CHARS_MAX:
        fields["user"] = user
    return {**fields, **_tools(messages), **_output(messages)}


def _tools(messages: Mapping[str, Any]) -> Fields:
    tools = rows(messages.get("tools"), where="tools")
    if not tools:
        return {}
    choice = table(messages.get("tool_choice"), where="tool_choice")
    return {"tools": chat_tools(tools), **(chat_choice(choice) if choice else {})}


def _output(messages: Mapping[str, Any]) -> Fields:
    """Return how the answer is to be shaped and thought about."""
    fields: Fields = {}
    config = table(messages.get("output_config"), where="output_config")
    refuse_untold(config, told=_TOLD_OF_OUTPUT, neutral={}, within="output_config.")
    match config.get("format"):
        case None:
            pass
        case {"type": "json_schema", "schema": dict(schema)}:
            shape = {"name": _SCHEMA_NAME, "schema": schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": shape}
        case _:
            raise untold("output_config.format")
    effort = config.get("effort") or _effort(messages.get("thinking"))
    if effort is not None:
        fields["reasoning_effort"] = effort
    return fields


def _effort(thinking: object) -> str | None:
    # Not to think is what chat does unasked, and models that cannot do not know the field.
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    if not isinstance(budget, int):
        return None
    return next((word for tokens, word in _EFFORTS if budget >= tokens), None)


def _instructions(system: object) -> list[Fields]:
    told = text_of(system, where="system")
    return [{"role": "system", "content": told}] if told else []


def _conversation(messages: object) -> list[Fields]:
    told: list[Fields] = []
    for at, message in enumerate(rows(messages, where="messages")):
        where, content = f"messages.{at}.content", message.get("content")
        match message.get("role"):
            case "user":
                told += _user(content, where)
            case "assistant":
                told.append(_assistant(content, where))
            case "system":
                told.append({"role": "system", "content": text_of(content, where=where)})
            case _:
                raise untold(f"messages.{at}.role")
    if told and told[-1]["role"] == "assistant":
        raise untold("messages", "that end with the assistant's own words cannot be said")
    return told


def _user(content: object, where: str) -> list[Fields]:
    """Return what tools answer, which chat has first, and what the user says to it."""
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    results: list[Fields] = []
    said: list[Block] = []
    for block in blocks:
        if _kind(block) == "tool_result":
            result, shown = _result(block, where)
            results.append(result)
            said += shown
    said += parts_of([block for block in blocks if _kind(block) != "tool_result"], where=where)
    return [*results, {"role": "user", "content": plain(said)}] if said else results


def _result(block: Block, where: str) -> tuple[Fields, list[Block]]:
    """Return what a tool says, and what it shows: chat has tools say texts alone."""
    parts = parts_of(_without_references(block.get("content")), where=where)
    said = [part for part in parts if part["type"] == "text"]
    shown = [part for part in parts if part["type"] != "text"]
    if shown:
        said.append(_text(_SHOWN))
        shown.insert(0, _text(f"{_SHOWN_BY} {block.get('tool_use_id')}:"))
    told = plain(said)
    if block.get("is_error"):
        # Chat has no mark for it, and a model must not take a failure for a result.
        told = f"{_FAILED}{told}" if isinstance(told, str) else [_text(_FAILED), *told]
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": told}, shown


def _without_references(content: object) -> object:
    """Return what a tool answered; the tools that it found are all told to chat already."""
    if not isinstance(content, list):
        return content
    return [
        _text(f"{_FOUND} {block.get('tool_name')}") if _kind(block) == "tool_reference" else block
        for block in content
    ]


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _assistant(content: object, where: str) -> Fields:
    blocks = content if isinstance(content, list) else [_text(str(content))]
    calls = [_call(block) for block in blocks if _kind(block) == "tool_use"]
    rest = [block for block in blocks if _kind(block) not in {*_UNSAID, "tool_use"}]
    said = text_of(rest, where=where)
    message: Fields = {"role": "assistant", "content": said or None}
    if calls:
        message["tool_calls"] = calls
    elif not said:
        message["content"] = ""
    return message


def _call(block: Block) -> Fields:
    arguments = written_arguments(block.get("input") or {})
    function = {"name": block.get("name"), "arguments": arguments}
    return {"id": block.get("id"), "type": "function", "function": function}


def _kind(block: object) -> object:
    return str(block.get("type")) if isinstance(block, dict) else None

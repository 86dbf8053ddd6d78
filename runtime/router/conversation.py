"""A request for one more answer in the same conversation, on the wires that have conversations.

Everything here makes a new request of an old one and changes nothing of it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.model_gateway.model_request import ModelRequest, WireName

CHAT, MESSAGES, RESPONSES = (
    WireName.OPENAI_CHAT,
    WireName.ANTHROPIC_MESSAGES,
    WireName.OPENAI_RESPONSES,
)
CONVERSING = frozenset({CHAT, MESSAGES, RESPONSES})
_CHAT_CAPS = ("max_completion_tokens", "max_tokens")
# What belongs to one conversation or one way to be answered, and not to a question of our own.
_STORED = ("previous_response_id", "conversation", "background", "prompt", "container")
_OWN_WORDS = ("metadata", "user", "safety_identifier", "prompt_cache_key", "service_tier")


def with_fields(
    request: ModelRequest, changes: Mapping[str, Any], *, without: tuple[str, ...] = ()
) -> ModelRequest:
    """Return the request with some fields set and some left out."""
    kept = {name: value for name, value in request.fields.items() if name not in without}
    return replace(request, fields={**kept, **changes})


def for_tier(request: ModelRequest, tier: str) -> ModelRequest:
    """Return the request as it names one tier."""
    return replace(with_fields(request, {"model": tier}), model=tier)


def whole(request: ModelRequest) -> ModelRequest:
    """Return the request for one answer in one piece."""
    if not request.is_streamed:
        return request
    asked = with_fields(request, {"stream": False}, without=("stream_options",))
    return replace(asked, is_streamed=False)


def with_output_max(request: ModelRequest, tokens: int) -> ModelRequest:
    """Return the request with a cap on its output, thinking included."""
    match request.wire:
        case WireName.OPENAI_CHAT:
            # Servers differ in which of the two they know: the client's own word is kept.
            name = next(
                (cap for cap in _CHAT_CAPS if request.fields.get(cap) is not None), _CHAT_CAPS[0]
            )
        case WireName.OPENAI_RESPONSES:
            name = "max_output_tokens"
        case _:
            name = "max_tokens"
    return replace(with_fields(request, {name: tokens}), output_tokens_asked=tokens)


def with_words(request: ModelRequest, words: str) -> ModelRequest:
    """Return the request with more words at the end of what its user said.

    They come last, so that what the provider has cached of the conversation still is its
    beginning.
    """
    match request.wire:
        case WireName.OPENAI_RESPONSES:
            name, turn = "input", {"role": "user", "content": words}
        case _:
            name, turn = "messages", {"role": "user", "content": words}
    said = _turns_of(request, name)
    grown = replace(request, messages_count=request.messages_count + 1)
    return with_fields(grown, {name: [*said, turn]})


def with_words_before_question(request: ModelRequest, words: str) -> ModelRequest | None:
    """Return the request with words before its last question; None where it ends in none.

    In the middle of a model's use of tools nothing can be put between a call and its result.
    """
    name = "input" if request.wire is RESPONSES else "messages"
    said = _turns_of(request, name)
    if not said or not _is_question(said[-1]):
        return None
    turn = {"role": "user", "content": words}
    grown = replace(request, messages_count=request.messages_count + 1)
    return with_fields(grown, {name: [*said[:-1], turn, said[-1]]})


def question(
    request: ModelRequest, *, tier: str, told: str, asked: str, output_tokens: int
) -> ModelRequest:
    """Return a question of our own, on the wire of a request and for one of its tiers."""
    turn = {"role": "user", "content": asked}
    fields: dict[str, Any] = {
        name: request.fields[name] for name in _OWN_WORDS if request.fields.get(name) is not None
    }
    match request.wire:
        case WireName.OPENAI_CHAT:
            fields["messages"] = [{"role": "system", "content": told}, turn]
        case WireName.OPENAI_RESPONSES:
            fields |= {"instructions": told, "input": [turn], "store": False}
        case _:
            fields |= {"system": told, "messages": [turn]}
    plain = replace(
        request,
        model=tier,
        fields={**fields, "model": tier},
        is_streamed=False,
        asks_for_usage=True,
        messages_count=2,
        choices=1,
        tools_count=0,
        images=(),
        body_bytes=len(told) + len(asked),
        facts=replace(request.facts, has_tools=False, chars=len(told) + len(asked)),
    )
    return with_output_max(plain, output_tokens)


def can_be_asked_again(request: ModelRequest) -> bool:
    """Tell whether a request means the same a second time, and can be gone on with.

    One that belongs to what the provider stores does not, and one whose answer is begun is not
    to be gone on with by somebody else's words.
    """
    if any(request.fields.get(name) for name in _STORED):
        return False
    turns = _turns_of(request, "input" if request.wire is RESPONSES else "messages")
    return bool(turns) and turns[-1].get("role") != "assistant"


def last_words(request: ModelRequest, chars_max: int) -> str:
    """Return the end of what its user said last, as far as it is text."""
    name = "input" if request.wire is RESPONSES else "messages"
    for turn in reversed(_turns_of(request, name)):
        if turn.get("role") == "user" and (said := text_of(turn.get("content"))):
            return said[-chars_max:]
    return request.opening[-chars_max:]


def text_of(content: object) -> str:
    """Return the text of a message's content, in whichever of the shapes of the wires."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(part for part in parts if isinstance(part, str))


def _turns_of(request: ModelRequest, name: str) -> list[dict[str, Any]]:
    said = request.fields.get(name)
    if isinstance(said, str):
        return [{"role": "user", "content": said}]
    return [turn for turn in said if isinstance(turn, dict)] if isinstance(said, list) else []


def _is_question(turn: Mapping[str, Any]) -> bool:
    if turn.get("role") != "user":
        return False
    content = turn.get("content")
    if not isinstance(content, list):
        return isinstance(content, str)
    kinds = {part.get("type") for part in content if isinstance(part, dict)}
    return "tool_result" not in kinds

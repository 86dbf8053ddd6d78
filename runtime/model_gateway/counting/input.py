"""How many input tokens a request is, as the tokenizer of its tier counts them."""

import json
from collections.abc import Iterator
from typing import Any

from governor.tiers import ModelTier
from runtime.model_gateway.counting.images import image_tokens_max
from runtime.model_gateway.counting.tokenizer import Tokenizer
from runtime.model_gateway.model_request import ModelRequest

# OpenAI's own rule for messages of plain text.
_BY_OPENAI_PER_MESSAGE = 3
_BY_OPENAI_PER_NAME = 1
_BY_OPENAI_PER_REQUEST = 3
_PLAIN = frozenset({"role", "content", "name"})
# What templates put around messages and tools, with instructions of their own.
_PER_REQUEST = 128
_PER_MESSAGE = 12
_PER_PART = 4
_PER_TOOL = 32
_WITH_TOOLS = 1_024
# Members that hold what a model is told; of these, what stands under the names below is not.
_TOLD = ("messages", "system", "input", "instructions", "tools", "functions", "response_format")
_NOT_TOLD = frozenset({"image_url", "source", "data", "cache_control", "file_data"})
_WRITTEN_ANEW = frozenset({"tools", "functions", "response_format"})
_DEPTH_MAX = 64


def input_tokens_counted(request: ModelRequest, tier: ModelTier, tokenizer: Tokenizer) -> int:
    """Return the input tokens of a request: exact by a provider's own rule, else some more."""
    if tokenizer.by_openai and _is_plain(request):
        return _BY_OPENAI_PER_REQUEST + sum(
            _BY_OPENAI_PER_MESSAGE
            + sum(tokenizer.count(value) for value in message.values())
            + (_BY_OPENAI_PER_NAME if "name" in message else 0)
            for message in request.fields["messages"]
        )
    tools = (_WITH_TOOLS if request.tools_count else 0) + _PER_TOOL * request.tools_count
    images = sum(_PER_PART + image_tokens_max(image, tier) for image in request.images)
    texts = sum(
        _PER_PART + tokenizer.count(text)
        for name in _TOLD
        for text in _texts(request.fields.get(name), name=name)
    )
    return _PER_REQUEST + _PER_MESSAGE * request.messages_count + tools + images + texts


def _is_plain(request: ModelRequest) -> bool:
    messages = request.fields.get("messages")
    if request.tools_count or request.images or not isinstance(messages, list):
        return False
    if any(name in request.fields for name in _TOLD if name != "messages"):
        return False
    return all(
        isinstance(message, dict)
        and message.keys() <= _PLAIN
        and all(isinstance(value, str) for value in message.values())
        for message in messages
    )


def _texts(value: Any, *, name: str, depth: int = 0) -> Iterator[str]:
    """Yield every text below a member of a request; what is written anew, as the longest form."""
    if depth > _DEPTH_MAX or name in _NOT_TOLD:
        return
    match value:
        case str():
            yield value
        case dict() | list() if name in _WRITTEN_ANEW:
            yield json.dumps(value, indent=4)
        case dict():
            for key, held in value.items():
                yield from _texts(held, name=key, depth=depth + 1)
        case list():
            for held in value:
                yield from _texts(held, name="", depth=depth + 1)
        case None | bool():
            return
        case _:
            yield str(value)

"""A small OpenAI-compatible server whose answers are scripted, for the tour and for trials.

It is no model: its answers say so, and their words follow from the request alone. What it
shares with a real provider is what a governor looks at: the wire format, the limit on the
output, and usage figures that are counted on the texts that went in and out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

# The models that are played, and how many sentences each one says.
MODELS = {"scripted-small": 1, "scripted-large": 4}
LABEL = "[scripted answer, not a model]"

_BYTES_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 3
_QUOTED_CHARS_MAX = 80
_CAP_DEFAULT = 256
_CHOICES_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What of a request the answer depends on."""

    model: str
    question: str
    input_tokens: int
    cap: int
    choices: int


def create_app() -> Starlette:
    """Return the server's application."""
    return Starlette(
        routes=[
            Route("/v1/chat/completions", _complete, methods=["POST"]),
            Route("/v1/models", _models, methods=["GET"]),
        ]
    )


def token_count(text: str) -> int:
    """Return how many tokens the script counts in `text`: one for every four bytes begun."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


async def _models(_request: Request) -> JSONResponse:
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "flyball-scripted"}
        for name in MODELS
    ]
    return JSONResponse({"object": "list", "data": data})


async def _complete(request: Request) -> JSONResponse:
    try:
        asked = _asked(json.loads(await request.body()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _error(HTTPStatus.BAD_REQUEST, "Send a model, messages and plain numbers.")
    if asked.model not in MODELS:
        return _error(HTTPStatus.NOT_FOUND, f"This script plays {' and '.join(MODELS)} only.")
    return JSONResponse(_completion(asked))


def _asked(body: Mapping[str, Any]) -> _Asked:
    """Return what the script looks at in a request, however the rest of it reads."""
    messages = body["messages"]
    texts = [_text_of(message.get("content")) for message in messages]
    roles = [str(message["role"]) for message in messages]
    users = [text for role, text in zip(roles, texts, strict=True) if role == "user"]
    cap = body.get("max_completion_tokens") or body.get("max_tokens") or _CAP_DEFAULT
    tools = body.get("tools")
    return _Asked(
        model=str(body["model"]),
        question=users[-1] if users else "",
        input_tokens=sum(token_count(text) + _TOKENS_PER_MESSAGE for text in texts)
        + (token_count(json.dumps(tools)) if tools else 0),
        cap=max(int(cap), 1),
        choices=min(int(body.get("n") or 1), _CHOICES_MAX),
    )


def _completion(asked: _Asked) -> dict[str, object]:
    answer = _answer_to(asked)
    shown = answer.encode()[: asked.cap * _BYTES_PER_TOKEN].decode("utf-8", "ignore")
    choice = {
        "message": {"role": "assistant", "content": shown, "refusal": None},
        "logprobs": None,
        "finish_reason": "stop" if shown == answer else "length",
    }
    output_tokens = token_count(shown) * asked.choices
    return {
        "id": f"chatcmpl-scripted-{sha256(asked.question.encode()).hexdigest()[:16]}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "choices": [{"index": index, **choice} for index in range(asked.choices)],
        "usage": {
            "prompt_tokens": asked.input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": asked.input_tokens + output_tokens,
        },
    }


def _answer_to(asked: _Asked) -> str:
    """Return the script's lines: the larger model says more, and both only what they read."""
    question = asked.question
    words = question.split()
    quoted = " ".join(words)[:_QUOTED_CHARS_MAX]
    longest = max(words, key=len, default="nothing")[:_QUOTED_CHARS_MAX]
    lines = (
        f"You wrote: {quoted}",
        f"That is {len(words)} words in {len(question)} characters.",
        f"The longest of them is {longest}.",
        f"The whole conversation counts {asked.input_tokens} tokens here.",
    )
    return "\n".join((LABEL, *lines[: MODELS[asked.model]]))


def _text_of(content: object) -> str:
    """Return the words of a message's content, in UTF-8's reach."""
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    text = "\n".join(str(part.get("text", "")) for part in parts)
    return text.encode("utf-8", "replace").decode()


def _error(status: HTTPStatus, message: str) -> JSONResponse:
    kind = "invalid_request_error"
    error = {"message": f"{LABEL} {message}", "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status_code=status)

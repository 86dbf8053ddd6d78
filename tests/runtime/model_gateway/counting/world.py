"""What the tests of counting are about: a tier, a request, and what is sent for it."""

import json
from typing import Any

from governor.ids import TierName
from governor.tiers import ModelTier, PromptFacts
from runtime.model_gateway.counting.bounds import input_tokens_max
from runtime.model_gateway.measured import Produced
from runtime.model_gateway.model_request import ImagePart, ModelRequest, Payload, WireName


def a_tier(model: str = "plain", **more: Any) -> ModelTier:
    told = {"provider": "any", "price": None, "output_tokens_max": 4_096, **more}
    return ModelTier(name=TierName("low"), model=model, **told)


def a_request(
    fields: dict[str, Any] | None = None, *, images: tuple[ImagePart, ...] = (), choices: int = 1
) -> ModelRequest:
    fields = fields or {"messages": [{"role": "user", "content": "hello"}]}
    tools = fields.get("tools") or ()
    return ModelRequest(
        wire=WireName.OPENAI_CHAT,
        model="auto",
        fields=fields,
        body_bytes=0,
        is_streamed=True,
        asks_for_usage=False,
        output_tokens_asked=None,
        messages_count=len(fields["messages"]),
        opening="",
        facts=PromptFacts(text="", chars=0, has_tools=bool(tools)),
        choices=choices,
        tools_count=len(tools),
        images=images,
    )


def a_payload(
    request: ModelRequest | None = None, *, held: int = 4_096, tier: ModelTier | None = None
) -> Payload:
    request = request or a_request()
    content = compact(request.fields)
    return Payload(
        request=request,
        model="plain",
        content=content,
        input_tokens_max=bound_of(request, tier=tier),
        output_tokens_max=held,
    )


def bound_of(request: ModelRequest, *, tier: ModelTier | None = None) -> int:
    content = compact(request.fields)
    tools = request.fields.get("tools")
    return input_tokens_max(
        content_bytes=len(content),
        messages=request.messages_count,
        tools=request.tools_count,
        images=request.images,
        tier=tier or a_tier(),
        content=content,
        tools_json=compact(tools) if tools else b"",
    )


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def wrote(**parts: str) -> Produced:
    """Return an answer of these parts, whose text is kept; arguments are told by their name."""
    produced = Produced(pieces={})
    for name, text in parts.items():
        if name.startswith("arguments"):
            produced.calls += 1
            produced.note_arguments(name, text)
        else:
            produced.note(name, text)
    return produced

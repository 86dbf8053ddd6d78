"""Wires, tiers and payloads that the tests of wires begin with."""

import json
from collections.abc import Mapping
from typing import Any

from governor.ids import TierName
from governor.pricing import ModelPrice
from governor.tiers import Extra, ModelTier
from runtime.model_gateway.model_request import ModelRequest, Payload
from runtime.model_gateway.wires.anthropic_messages import AnthropicMessages
from runtime.model_gateway.wires.openai_chat import OpenAIChat
from runtime.model_gateway.wires.openai_embeddings import OpenAIEmbeddings
from runtime.model_gateway.wires.openai_responses import OpenAIResponses
from runtime.model_gateway.wires.wire import Wire
from tests.model_upstream.chat_goldens import CHAT
from tests.model_upstream.golden import Golden
from tests.model_upstream.messages_goldens import MESSAGES
from tests.model_upstream.responses_goldens import RESPONSES

GOLDENS: tuple[Golden, ...] = (*CHAT, *MESSAGES, *RESPONSES)
WIRES: dict[str, Wire] = {
    wire.name: wire
    for wire in (OpenAIChat(), AnthropicMessages(), OpenAIResponses(), OpenAIEmbeddings())
}


def a_tier(
    *,
    output_tokens_max: int = 4_096,
    context_tokens_max: int | None = None,
    extras: frozenset[Extra] = frozenset(),
) -> ModelTier:
    return ModelTier(
        name=TierName("low"),
        provider="scripted",
        model="model-of-the-tier",
        price=ModelPrice(input_microusd_per_mtok=1, output_microusd_per_mtok=2),
        output_tokens_max=output_tokens_max,
        context_tokens_max=context_tokens_max,
        extras=extras,
    )


def parsed(
    wire: Wire, fields: Mapping[str, object], *, headers: Mapping[str, str] | None = None
) -> ModelRequest:
    return wire.parse(json.dumps(fields).encode(), headers=headers or {})


def sent(payload: Payload) -> dict[str, Any]:
    """Return what is sent to the provider."""
    fields: dict[str, Any] = json.loads(payload.content)
    return fields


def payload_of(golden: Golden) -> Payload:
    wire = WIRES[golden.wire]
    return wire.payload(parsed(wire, golden.request), a_tier())


def named(golden: Golden) -> str:
    return f"{golden.wire}-{golden.name}".replace(" ", "-")

"""Requests as the wires read them, and an asker that answers as a test says."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from governor.ids import CallId, TierName
from governor.pricing import ModelPrice
from governor.tiers import ModelTier, PromptFacts
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.model_request import ModelRequest, WireName
from runtime.model_gateway.preparation import Linked

Scripted = Callable[[ModelRequest], "Reply"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a scripted provider says, and what its call cost."""

    text: str = "yes"
    tools: tuple[tuple[str, str], ...] = ()
    cost_microusd: int = 10
    output_tokens: int = 5
    status: int = 200
    is_denied: bool = False
    finish: str = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked of the gateway in one round."""

    request: ModelRequest
    linked: Linked

    @property
    def parent(self) -> CallId | None:
        return self.linked.parent

    @property
    def tier(self) -> str:
        return self.request.model

    @property
    def said(self) -> str:
        return json.dumps(self.request.fields)


@dataclass(slots=True)
class ScriptedAsker:
    """Answers rounds by a script, and remembers them."""

    script: Scripted
    rounds: list[Asked] = field(default_factory=list)

    @property
    def tiers(self) -> list[str]:
        return [one.tier for one in self.rounds]

    async def ask(self, request: ModelRequest, linked: Linked) -> Answer:
        self.rounds.append(Asked(request=request, linked=linked))
        return answer(self.script(request), call_id=f"call_{len(self.rounds)}")


def answer(reply: Reply, *, call_id: str) -> Answer:
    member: dict[str, object] = {"call_id": call_id}
    if reply.is_denied:
        member["denial"] = {"reason": "budget_exhausted"}
        return Answer(status=429, content=b'{"error":{}}', flyball=member)
    member["usage"] = {
        "cost_microusd": reply.cost_microusd,
        "output_tokens": reply.output_tokens,
    }
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tools:
        message["tool_calls"] = [
            {
                "id": f"t{place}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for place, (name, arguments) in enumerate(reply.tools)
        ]
    body = {
        "id": "chatcmpl-1",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
        "usage": {"prompt_tokens": 3, "completion_tokens": reply.output_tokens},
    }
    return Answer(status=reply.status, content=json.dumps(body).encode(), flyball=member)


def request(
    said: str = "How many legs has a spider?",
    *,
    wire: WireName = WireName.OPENAI_CHAT,
    model: str = "auto",
    is_streamed: bool = False,
    output_tokens_asked: int | None = None,
    tools_count: int = 0,
    fields: Mapping[str, Any] | None = None,
) -> ModelRequest:
    name = "input" if wire is WireName.OPENAI_RESPONSES else "messages"
    return ModelRequest(
        wire=wire,
        model=model,
        fields={"model": model, name: [{"role": "user", "content": said}], **(fields or {})},
        body_bytes=len(said) + 60,
        is_streamed=is_streamed,
        asks_for_usage=True,
        output_tokens_asked=output_tokens_asked,
        messages_count=1,
        opening=said,
        facts=PromptFacts(text=said.lower(), chars=len(said), has_tools=tools_count > 0),
        tools_count=tools_count,
    )


def tier(name: str, *, usd_per_mtok: int = 1, **more: Any) -> ModelTier:
    price = ModelPrice(
        input_microusd_per_mtok=usd_per_mtok * 1_000_000,
        output_microusd_per_mtok=usd_per_mtok * 4_000_000,
    )
    return ModelTier(
        name=TierName(name),
        provider="lab",
        model=f"{name}-1",
        price=price,
        **{"output_tokens_max": 4_000, **more},
    )

"""Anthropic's Messages format."""

from collections.abc import Mapping
from typing import Any

import msgspec

from governor.tiers import Extra, ModelTier, PromptFacts
from runtime.model_gateway.answer import Answer, json_answer
from runtime.model_gateway.counting.reports import anthropic_usage
from runtime.model_gateway.measured import Produced
from runtime.model_gateway.model_request import Asked, ModelRequest, Payload, WireName
from runtime.model_gateway.wires.anthropic_errors import error_body
from runtime.model_gateway.wires.anthropic_meter import THINKING, MessagesMeter
from runtime.model_gateway.wires.anthropic_request import found_in, texts_of
from runtime.model_gateway.wires.extras import refuse_extras
from runtime.model_gateway.wires.fields import (
    Object,
    body_in,
    fault,
    flag_in,
    model_in,
    tokens_in,
)
from runtime.model_gateway.wires.holding import output_held, payload_of
from runtime.model_gateway.wires.sse import object_of
from runtime.model_gateway.wires.wire import Served, served_instead

_VERSION, _BETA = "anthropic-version", "anthropic-beta"
_VERSION_DEFAULT = "2023-06-01"
# Less thinking than this is refused; no thinking is allowed.
_THINKING_TOKENS_MIN = 1_024
_LONG_CONTEXT = "context-1m"
_encode = msgspec.json.Encoder().encode


class AnthropicMessages:
    """The wire of /v1/messages."""

    name = WireName.ANTHROPIC_MESSAGES
    path = "/messages"

    def parse(self, content: bytes, *, headers: Mapping[str, str]) -> ModelRequest:
        """Return the request in a body.

        Raises:
            InvalidRequestError: it is no request for a message.
        """
        fields = body_in(content)
        model = model_in(fields)
        asked = tokens_in(fields, "max_tokens", least=0)
        found = found_in(fields)
        tools_count = len(fields.get("tools") or ())
        relayed = _relayed(headers)
        if _LONG_CONTEXT in relayed.get(_BETA, ""):
            found.asked.append(Asked(extra=Extra.LONG_CONTEXT, param=_BETA))
        return ModelRequest(
            wire=self.name,
            model=model,
            fields=fields,
            body_bytes=len(content),
            is_streamed=flag_in(fields, "stream"),
            asks_for_usage=True,
            output_tokens_asked=asked,
            messages_count=len(fields["messages"]),
            tools_count=tools_count,
            images=tuple(found.images),
            opening=_opening(fields),
            facts=_facts(fields, has_tools=tools_count > 0),
            headers=relayed,
            extras=tuple(found.asked),
            uncounted=tuple(found.uncounted),
            more_tokens=found.more_tokens,
            writes_cache=found.writes_cache,
        )

    def payload(
        self,
        request: ModelRequest,
        tier: ModelTier,
        *,
        note: str | None = None,
        output_tokens_max: int | None = None,
    ) -> Payload:
        """Return the request as `tier` serves it: its model, and no more output than it allows.

        Raises:
            InvalidRequestError: it asks for what the price of the tier does not cover.
        """
        refuse_extras(request, tier)
        cap = output_held(request, tier, output_tokens_max)
        fields = {**request.fields, "model": tier.model, "max_tokens": cap}
        _keep_thinking_below(cap, fields)
        if note is not None:
            fields["system"] = _with_note(fields.get("system"), note)
        return payload_of(request, tier, fields, output_tokens=cap)

    def headers(self, api_key: str | None, request: ModelRequest) -> Mapping[str, str]:
        """Return the key, and what the client says of the version it speaks."""
        key = {} if api_key is None else {"x-api-key": api_key}
        return {_VERSION: _VERSION_DEFAULT, **request.headers, **key}

    def served(self, content: bytes, payload: Payload, *, keeps_text: bool = False) -> Served:
        """Return what a whole answer with status 200 means."""
        body = object_of(content)
        if body is None:
            return Served(fault="the provider's answer is not a JSON object")
        if body.get("type") == "error" or not isinstance(body.get("content"), list):
            return served_instead(body, of="message", wanted="a message")
        return Served(
            reported=anthropic_usage(body.get("usage")),
            produced=_produced(body["content"], keeps_text=keeps_text),
        )

    def meter(self, payload: Payload, *, keeps_text: bool = False) -> MessagesMeter:
        """Return what hears the stream that answers `payload`."""
        return MessagesMeter(model=payload.model, keeps_text=keeps_text)

    def error(
        self,
        status: int,
        message: str,
        *,
        kind: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return an error as Anthropic's clients read it."""
        body = error_body(status, message, code=code, param=param)
        return json_answer(status, body, headers=headers)


def _relayed(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a client says of the version it speaks.

    Raises:
        InvalidRequestError: it cannot be written in a header.
    """
    relayed = {name: headers[name] for name in (_VERSION, _BETA) if name in headers}
    for name, value in relayed.items():
        if not value.isascii() or not value.isprintable():
            raise fault(name, "use printable ASCII")
    return relayed


def _keep_thinking_below(cap: int, fields: dict[str, Any]) -> None:
    """Make the model think less than it may write, or not at all."""
    thinking = fields.get("thinking")
    if not isinstance(thinking, Mapping):
        return
    tokens = thinking.get("budget_tokens")
    if not isinstance(tokens, int) or tokens < cap:
        return
    if cap > _THINKING_TOKENS_MIN:
        fields["thinking"] = {**thinking, "budget_tokens": cap - 1}
    else:
        fields["thinking"] = {"type": "disabled"}


def _with_note(system: object, note: str) -> object:
    """Return the instructions with a note at their end, behind what may be cached of them."""
    if isinstance(system, list):
        return [*system, {"type": "text", "text": note}]
    return f"{system}\n\n{note}" if system else note


def _opening(fields: Object) -> str:
    said: list[str] = []
    for message in fields["messages"]:
        if message["role"] == "user":
            said.extend(texts_of(message))
        elif message["role"] != "system":
            break
    return "\n".join(said)


def _facts(fields: Object, *, has_tools: bool) -> PromptFacts:
    texts = [(message["role"], "\n".join(texts_of(message))) for message in fields["messages"]]
    users = [text for role, text in texts if role == "user" and text]
    system = fields.get("system")
    before = "\n".join(texts_of({"content": system}))
    return PromptFacts(
        text=users[-1] if users else "",
        chars=len(before) + sum(len(text) for _, text in texts),
        has_tools=has_tools,
    )


def _produced(blocks: list[Any], *, keeps_text: bool) -> Produced:
    produced = Produced(pieces={} if keeps_text else None)
    for number, block in enumerate(blocks):
        if not isinstance(block, Mapping):
            continue
        produced.hides |= block.get("type") in THINKING
        for name in ("text", "thinking"):
            if isinstance(text := block.get(name), str):
                produced.note(f"{number}.{name}", text)
        if block.get("input") is not None:
            produced.calls += 1
            produced.note(f"{number}.name", str(block.get("name")))
            produced.note_arguments(f"{number}.tool", _encode(block["input"]).decode())
    return produced

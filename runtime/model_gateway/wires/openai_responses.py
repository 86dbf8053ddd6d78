"""OpenAI's Responses format."""

from collections.abc import Mapping
from typing import Any

from governor.tiers import ModelTier, PromptFacts
from runtime.model_gateway.counting.reports import openai_usage
from runtime.model_gateway.measured import Produced
from runtime.model_gateway.model_request import ModelRequest, Payload, WireName
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
from runtime.model_gateway.wires.openai_wire import OpenAIWire
from runtime.model_gateway.wires.responses_meter import REASONING, ResponsesMeter
from runtime.model_gateway.wires.responses_request import found_in, is_message, items_of, texts_of
from runtime.model_gateway.wires.sse import object_of
from runtime.model_gateway.wires.wire import Served, served_instead

_INSTRUCTIONS = ("system", "developer")
_ENDED = (None, "completed", "incomplete")
_ARGUMENTS = ("arguments", "input")


class OpenAIResponses(OpenAIWire):
    """The wire of /v1/responses."""

    name = WireName.OPENAI_RESPONSES
    path = "/responses"

    def parse(
        self,
        content: bytes,
        *,
        headers: Mapping[str, str],
    ) -> ModelRequest:
        """Return the request in a body.

        Raises:
            InvalidRequestError: it is no request for a response, or one that no budget covers.
        """
        fields = body_in(content)
        instructions = fields.get("instructions")
        if instructions is not None and not isinstance(instructions, str):
            raise fault("instructions", "use a text")
        found = found_in(fields)
        messages = [item for item in items_of(fields) if is_message(item)]
        return ModelRequest(
            wire=self.name,
            model=model_in(fields),
            fields=fields,
            body_bytes=len(content),
            is_streamed=flag_in(fields, "stream"),
            asks_for_usage=True,
            output_tokens_asked=tokens_in(fields, "max_output_tokens", least=1),
            messages_count=len(items_of(fields)),
            tools_count=found.tools_count,
            images=tuple(found.images),
            opening=_opening(fields),
            facts=_facts(messages, instructions, has_tools=found.tools_count > 0),
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
        fields: dict[str, Any] = {**request.fields, "model": tier.model, "max_output_tokens": cap}
        if note is not None:
            told = fields.get("instructions")
            fields["instructions"] = f"{told}\n\n{note}" if told else note
        return payload_of(request, tier, fields, output_tokens=cap)

    def served(self, content: bytes, payload: Payload, *, keeps_text: bool = False) -> Served:
        """Return what a whole answer with status 200 means."""
        body = object_of(content)
        if body is None:
            return Served(fault="the provider's answer is not a JSON object")
        output = body.get("output")
        reported = openai_usage(body.get("usage"))
        if body.get("error") or not isinstance(output, list):
            return served_instead(body, of="response", wanted="a response", reported=reported)
        if body.get("status") not in _ENDED:
            return Served(reported=reported, fault="the provider's response has not ended")
        return Served(reported=reported, produced=_produced(output, keeps_text=keeps_text))

    def meter(self, payload: Payload, *, keeps_text: bool = False) -> ResponsesMeter:
        """Return what hears the stream that answers `payload`."""
        return ResponsesMeter(model=payload.model, keeps_text=keeps_text)


def _opening(fields: Object) -> str:
    said: list[str] = []
    for item in items_of(fields):
        if not is_message(item):
            break
        if item.get("role") == "user":
            said.extend(texts_of(item))
        elif item.get("role") not in _INSTRUCTIONS:
            break
    return "\n".join(said)


def _facts(
    messages: list[Mapping[str, object]], instructions: str | None, *, has_tools: bool
) -> PromptFacts:
    texts = [(message.get("role"), "\n".join(texts_of(message))) for message in messages]
    users = [text for role, text in texts if role == "user" and text]
    return PromptFacts(
        text=users[-1] if users else "",
        chars=len(instructions or "") + sum(len(text) for _, text in texts),
        has_tools=has_tools,
    )


def _produced(output: list[Any], *, keeps_text: bool) -> Produced:
    produced = Produced(pieces={} if keeps_text else None)
    for number, item in enumerate(output):
        if not isinstance(item, Mapping):
            continue
        produced.hides |= item.get("type") == REASONING
        for name in _ARGUMENTS:
            if isinstance(text := item.get(name), str):
                produced.calls += 1
                produced.note(f"{number}.name", str(item.get("name")))
                produced.note_arguments(f"{number}.tool", text)
        for kind in ("content", "summary"):
            for part, text in enumerate(_texts(item.get(kind))):
                produced.note(f"{number}.{kind}.{part}", text)
    return produced


def _texts(parts: object) -> list[str]:
    held = [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    return [
        text
        for part in held
        for name in ("text", "refusal")
        if isinstance(text := part.get(name), str)
    ]

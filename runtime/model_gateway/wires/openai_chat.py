"""OpenAI's chat completions, which most servers of models speak."""

from collections.abc import Mapping

import msgspec

from governor.tiers import ModelTier
from runtime.model_gateway.counting.belief import is_believable
from runtime.model_gateway.counting.reports import Reported, openai_usage
from runtime.model_gateway.measured import Produced
from runtime.model_gateway.model_request import ModelRequest, Payload, WireName
from runtime.model_gateway.notes import with_note
from runtime.model_gateway.strict_json import object_in
from runtime.model_gateway.wires.extras import refuse_extras
from runtime.model_gateway.wires.fields import encoded
from runtime.model_gateway.wires.holding import input_held
from runtime.model_gateway.wires.openai_chat_request import parse_chat
from runtime.model_gateway.wires.openai_chat_stream import ChatMeter
from runtime.model_gateway.wires.openai_chat_written import written_in
from runtime.model_gateway.wires.openai_usage import is_nothing, usage_in
from runtime.model_gateway.wires.openai_wire import OpenAIWire
from runtime.model_gateway.wires.output_caps import capped, without_caps
from runtime.model_gateway.wires.sse import object_of
from runtime.model_gateway.wires.wire import Served, StreamMeter, served_instead

_TOOLS = ("tools", "functions")
_NO_OBJECT = "the provider's answer is not a JSON object"
_NO_BOUND = 2**62


class _Completion(msgspec.Struct):
    choices: msgspec.Raw = msgspec.Raw(b"")
    usage: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


_completion = msgspec.json.Decoder(_Completion).decode


class OpenAIChat(OpenAIWire):
    """The wire of chat completions."""

    name = WireName.OPENAI_CHAT
    path = "/chat/completions"

    def parse(self, content: bytes, *, headers: Mapping[str, str]) -> ModelRequest:
        """Return the request in a body.

        Raises:
            InvalidRequestError: it is no chat completion that can be served.
        """
        return parse_chat(content)

    def payload(
        self,
        request: ModelRequest,
        tier: ModelTier,
        *,
        note: str | None = None,
        output_tokens_max: int | None = None,
    ) -> Payload:
        """Return a request as `tier` serves it: its model, and no more output than it allows.

        Raises:
            InvalidRequestError: the tier's price does not cover it, or it cannot be written.
        """
        refuse_extras(request, tier)
        bound = min(tier.output_tokens_max, output_tokens_max or _NO_BOUND)
        caps = capped(request.fields, tier, bound)
        # The tier's own model and caps stand at their places, whatever the client sent there.
        fields = {**without_caps(request.fields), "model": tier.model, **caps}
        if note is not None:
            fields["messages"] = with_note(fields["messages"], note)
        asks = request.is_streamed and not request.asks_for_usage and tier.asks_for_usage
        if asks:
            options = fields.get("stream_options") or {}
            fields["stream_options"] = {**options, "include_usage": True}
        content = encoded(fields)
        return Payload(
            request=request,
            model=tier.model,
            content=content,
            input_tokens_max=input_held(
                request,
                tier,
                content,
                messages=len(fields["messages"]),
                tools_json=tools_json(fields),
            ),
            output_tokens_max=max(caps.values()) * request.choices,
            strips_usage=asks,
            output_caps=tuple(caps),
        )

    def served(self, content: bytes, payload: Payload, *, keeps_text: bool = False) -> Served:
        """Return what a whole answer means."""
        try:
            body = _completion(content)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return _read_slowly(content)
        reported = usage_in(body.usage)
        if not is_nothing(body.error) or not bytes(body.choices).startswith(b"["):
            return _no_choices(object_of(content) or {}, reported)
        output_tokens = None if reported is None else reported.output_tokens
        if is_believable(output_tokens, text_bytes_max=len(body.choices), payload=payload):
            return Served(reported=reported)
        produced = written_in(body.choices, keeps_text=keeps_text)
        if produced is None and output_tokens is None:
            produced = Produced(text_bytes=len(body.choices))
        return Served(reported=reported, produced=produced)

    def meter(self, payload: Payload, *, keeps_text: bool = False) -> StreamMeter:
        """Return what hears the stream that answers `payload`."""
        return ChatMeter(payload, keeps_text=keeps_text)


def tools_json(fields: Mapping[str, object]) -> bytes:
    """Return the definitions of the tools as they are sent; b"" where there are none."""
    tools = [fields[name] for name in _TOOLS if fields.get(name)]
    return encoded({"tools": tools}) if tools else b""


def _no_choices(body: Mapping[str, object], reported: Reported | None) -> Served:
    return served_instead(body, of="chat.completion", wanted="choices", reported=reported)


def _read_slowly(content: bytes) -> Served:
    """Return what an answer means that only a more patient reader reads."""
    try:
        body = object_in(content)
    except ValueError:
        return Served(fault=_NO_OBJECT)
    reported = openai_usage(body.get("usage"))
    if body.get("error") or not isinstance(body.get("choices"), list):
        return _no_choices(body, reported)
    return Served(reported=reported, produced=Produced(text_bytes=len(content)))

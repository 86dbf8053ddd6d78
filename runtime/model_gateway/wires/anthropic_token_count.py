"""Anthropic's count of the tokens of a message that is not sent."""

from collections.abc import Mapping
from dataclasses import replace

from governor.tiers import ModelTier
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.model_request import ModelRequest, Payload, WireName
from runtime.model_gateway.wires.anthropic_messages import AnthropicMessages
from runtime.model_gateway.wires.fields import encoded, is_whole_number
from runtime.model_gateway.wires.sse import object_of
from runtime.model_gateway.wires.wire import Served, StreamMeter

_messages = AnthropicMessages()


class AnthropicTokenCount:
    """The wire of /v1/messages/count_tokens: a governed call that costs no tokens."""

    name = WireName.ANTHROPIC_MESSAGES
    path = "/messages/count_tokens"

    def parse(self, content: bytes, *, headers: Mapping[str, str]) -> ModelRequest:
        """Return the request in a body.

        Raises:
            InvalidRequestError: it is no message to be counted.
        """
        # Nothing is asked of a model, so nothing of it costs more, and nobody says anything.
        return replace(
            _messages.parse(content, headers=headers),
            is_streamed=False,
            output_tokens_asked=0,
            opening="",
            images=(),
            extras=(),
            uncounted=(),
            more_tokens=0,
            writes_cache=False,
        )

    def payload(
        self,
        request: ModelRequest,
        tier: ModelTier,
        *,
        note: str | None = None,
        output_tokens_max: int | None = None,
    ) -> Payload:
        """Return the request as `tier` serves it."""
        content = encoded({**request.fields, "model": tier.model})
        return Payload(
            request=request,
            model=tier.model,
            content=content,
            input_tokens_max=0,
            output_tokens_max=0,
        )

    def headers(self, api_key: str | None, request: ModelRequest) -> Mapping[str, str]:
        """Return the key, and what the client says of the version it speaks."""
        return _messages.headers(api_key, request)

    def served(
        self,
        content: bytes,
        payload: Payload,
        *,
        keeps_text: bool = False,
    ) -> Served:
        """Return what a whole answer with status 200 means."""
        body = object_of(content)
        if body is None or not is_whole_number(body.get("input_tokens")):
            return Served(fault="the provider's answer is no count of tokens")
        return Served()

    def meter(self, payload: Payload, *, keeps_text: bool = False) -> StreamMeter:
        """Say that there is no stream to hear: none is asked for."""
        message = "a count is not streamed"
        raise NotImplementedError(message)

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
        return _messages.error(status, message, kind=kind, code=code, param=param, headers=headers)

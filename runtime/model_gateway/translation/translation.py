"""Between which wires requests are translated, and everything that a pair of them needs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from runtime.model_gateway.model_request import ModelRequest, WireName
from runtime.model_gateway.strict_json import object_in
from runtime.model_gateway.translation.answers import (
    chat_answer,
    chat_error,
    messages_answer,
    messages_error,
)
from runtime.model_gateway.translation.request_to_chat import chat_request
from runtime.model_gateway.translation.request_to_messages import messages_request
from runtime.model_gateway.translation.stream_to_chat import ChatStream
from runtime.model_gateway.translation.stream_to_messages import MessagesStream

_OK = 200


class TranslatedStream(Protocol):
    """A stream of the provider's, told in the client's words."""

    def hear(self, event: bytes) -> bytes:
        """Return what the client gets for a whole event, b"" where that is nothing."""
        ...

    def end(self) -> bytes:
        """Return what is missing of a stream that was whole but for its last words."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A client's wire, and the wire that the provider speaks in its place."""

    client: WireName
    provider: WireName

    def request(
        self, request: ModelRequest, *, output_tokens_max: int, asks_for_usage: bool = True
    ) -> bytes:
        """Return the body that asks the provider for what the client asks for.

        `output_tokens_max` is told where the client leaves it open and the provider must know;
        a stream is asked for its usage unless `asks_for_usage` says that it cannot be.

        Raises:
            InvalidRequestError: a field cannot be said in the provider's words.
        """
        if self.provider is WireName.ANTHROPIC_MESSAGES:
            fields = messages_request(request.fields, output_tokens_max=output_tokens_max)
        else:
            fields = chat_request(
                request.fields,
                output_tokens_max=output_tokens_max,
                asks_for_usage=asks_for_usage,
            )
        # Escaped to ASCII; it is read and written once more by the provider's own wire.
        return json.dumps(fields).encode()

    def answer(self, content: bytes, *, status: int, now_s: int) -> bytes:
        """Return a provider's whole answer as the client's wire has it, a fault as a fault."""
        body = _object_in(content)
        return json.dumps(self._answer(body, status=status, now_s=now_s)).encode()

    def _answer(
        self, body: Mapping[str, Any] | None, *, status: int, now_s: int
    ) -> Mapping[str, Any]:
        is_to_chat = self.client is WireName.OPENAI_CHAT
        if status != _OK or body is None:
            return chat_error(body) if is_to_chat else messages_error(body, status=status)
        return chat_answer(body, now_s=now_s) if is_to_chat else messages_answer(body)

    def stream(self, request: ModelRequest, *, now_s: int) -> TranslatedStream:
        """Return what tells a stream of the provider's in the client's words."""
        if self.client is WireName.OPENAI_CHAT:
            return ChatStream(now_s=now_s, asks_for_usage=request.asks_for_usage)
        return MessagesStream()


_PAIRS = (
    Translation(client=WireName.OPENAI_CHAT, provider=WireName.ANTHROPIC_MESSAGES),
    Translation(client=WireName.ANTHROPIC_MESSAGES, provider=WireName.OPENAI_CHAT),
)


def translation_for(client: WireName, spoken: Iterable[WireName]) -> Translation | None:
    """Return how a client of one wire is served by a provider that speaks others, if at all."""
    wires = frozenset(spoken)
    for pair in _PAIRS:
        if pair.client is client and pair.provider in wires:
            return pair
    return None


def _object_in(content: bytes) -> dict[str, Any] | None:
    try:
        return object_in(content)
    except ValueError:
        return None

"""A stream of a chat completion, told as the events of Anthropic's messages."""

from collections.abc import Iterator, Mapping
from typing import Any

from runtime.model_gateway.translation.answers import listed, messages_error
from runtime.model_gateway.translation.events import is_done, object_of, written
from runtime.model_gateway.translation.stream_calls import StreamCalls
from runtime.model_gateway.translation.words import messages_usage, stop_reason

_BAD_GATEWAY = 502
_BACK_AGAIN = "The provider went back to a call of a tool after it had ended."
_CALL = "tool_use"

Told = dict[str, Any]


class MessagesStream:
    """Hears one chunk after the other, and keeps no more than what later ones need of it."""

    def __init__(self) -> None:
        """Begin with nothing heard."""
        self._has_begun = False
        self._has_failed = self._has_ended = False
        self._blocks = 0
        # What the open block is: a text or a call; None where none is open.
        self._open: str | None = None
        self._calls = StreamCalls()
        self._stop_reason: str | None = None
        self._usage: Mapping[str, Any] = {}

    def hear(self, event: bytes) -> bytes:
        """Return what the client gets for a whole event, b"" where that is nothing."""
        if self._has_failed or self._has_ended:
            return b""
        if is_done(event):
            return b"".join(self._ended())
        heard = object_of(event)
        return b"" if heard is None else b"".join(self._told(heard))

    def end(self) -> bytes:
        """Return what is missing of a stream that was whole but for its last words."""
        return b"" if self._stop_reason is None else b"".join(self._ended())

    def _told(self, heard: Mapping[str, Any]) -> Iterator[bytes]:
        if heard.get("error") is not None:
            yield self._failed(heard)
            return
        if not self._has_begun:
            self._has_begun = True
            yield _begun(heard)
        if isinstance(heard.get("usage"), Mapping):
            self._usage = heard["usage"]
        for choice in listed(heard.get("choices")):
            # Messages has one answer, so that no more than one was asked for.
            if not isinstance(choice, Mapping) or choice.get("index", 0) != 0:
                continue
            if isinstance(choice.get("delta"), Mapping):
                yield from self._grown(choice["delta"])
            if choice.get("finish_reason"):
                self._stop_reason = self._stop_reason or stop_reason(choice["finish_reason"])

    def _grown(self, delta: Mapping[str, Any]) -> Iterator[bytes]:
        if delta.get("refusal"):
            self._stop_reason = "refusal"
        for text in (delta.get("content"), delta.get("refusal")):
            if text and isinstance(text, str):
                yield from self._called(is_end=True)
                yield from self._opened("text", {"type": "text", "text": ""})
                yield self._more({"type": "text_delta", "text": text})
        for call in listed(delta.get("tool_calls")):
            if isinstance(call, Mapping) and not self._calls.hear(call):
                yield self._failed({"error": {"message": _BACK_AGAIN}})
                return
        yield from self._called(is_end=False)

    def _called(self, *, is_end: bool) -> Iterator[bytes]:
        """Return what can be told of the calls: all that is left of them at the end."""
        for told in self._calls.told(is_end=is_end):
            if told.begins:
                yield from self._closed()
                block = {"type": "tool_use", "id": told.call_id, "name": told.name, "input": {}}
                yield from self._opened(_CALL, block)
            if told.arguments:
                yield self._more({"type": "input_json_delta", "partial_json": told.arguments})
            if told.ends:
                yield from self._closed()

    def _opened(self, what: str, block: Told) -> Iterator[bytes]:
        """Open a block, unless it is open; blocks follow each other."""
        if self._open == what:
            return
        yield from self._closed()
        self._open = what
        start = {"type": "content_block_start", "index": self._blocks, "content_block": block}
        yield _event(start)

    def _closed(self) -> Iterator[bytes]:
        if self._open is None:
            return
        self._open = None
        yield _event({"type": "content_block_stop", "index": self._blocks})
        self._blocks += 1

    def _more(self, delta: Told) -> bytes:
        return _event({"type": "content_block_delta", "index": self._blocks, "delta": delta})

    def _ended(self) -> Iterator[bytes]:
        if not self._has_begun or self._has_ended or self._has_failed:
            return
        self._has_ended = True
        yield from self._called(is_end=True)
        yield from self._closed()
        delta = {"stop_reason": self._stop_reason or "end_turn", "stop_sequence": None}
        usage = messages_usage(self._usage)
        yield _event({"type": "message_delta", "delta": delta, "usage": usage})
        yield _event({"type": "message_stop"})

    def _failed(self, heard: Mapping[str, Any]) -> bytes:
        self._has_failed = True
        return _event(messages_error(heard, status=_BAD_GATEWAY))


def _begun(heard: Mapping[str, Any]) -> bytes:
    # Chat counts at the end only, so that the last event tells the input as well.
    message: Told = {
        "id": heard.get("id") or "",
        "type": "message",
        "role": "assistant",
        "model": heard.get("model") or "",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    return _event({"type": "message_start", "message": message})


def _event(told: Told) -> bytes:
    return written(told, name=told["type"])

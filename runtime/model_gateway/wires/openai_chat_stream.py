"""A streamed chat completion, heard event by event."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from runtime.model_gateway.counting.reports import Reported, openai_usage
from runtime.model_gateway.measured import Measured, Produced
from runtime.model_gateway.model_request import Payload
from runtime.model_gateway.wires.fields import is_whole_number
from runtime.model_gateway.wires.openai_chat_written import note_call
from runtime.model_gateway.wires.openai_errors import openai_error_event
from runtime.model_gateway.wires.openai_usage import is_nothing, usage_in
from runtime.model_gateway.wires.sse import data_of, object_of, texts_in

DONE = b"[DONE]"
_DONE_EVENT = b"data: [DONE]\n\n"
_MALFORMED = "the provider's stream holds an event that is not JSON of a chat completion"
_ERROR = "the provider ended the stream with an error"


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int | None = 0
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Named(msgspec.Struct):
    id: str = "chatcmpl-flyball"
    created: int = 0
    model: str = ""


_chunk = msgspec.json.Decoder(_Chunk).decode
_named = msgspec.json.Decoder(_Named).decode
_encode = msgspec.json.Encoder().encode


class ChatMeter:
    """Hears the events of one streamed chat completion."""

    __slots__ = ("_finished", "_last", "_payload", "fault", "is_finished", "produced", "reported")

    def __init__(self, payload: Payload, *, keeps_text: bool) -> None:
        """Take what is answered."""
        self._payload = payload
        self._finished: set[int] = set()
        self._last = b"{}"
        self.produced = Produced(pieces={} if keeps_text else None)
        self.reported: Reported | None = None
        self.is_finished = False
        self.fault = ""

    @property
    def is_whole(self) -> bool:
        """Tell whether every choice has ended."""
        return self.is_finished or len(self._finished) >= self._payload.request.choices

    def hear(self, event: bytes) -> bool:
        """Take a whole event; False: it is not to be relayed."""
        data = data_of(event)
        if not data:
            return True
        if data == DONE:
            self.is_finished = True
            return True
        try:
            chunk = _chunk(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self._hear_unusual(data)
        self._last = data
        if not is_nothing(chunk.error):
            self.fault = _ERROR
            return True
        choices = chunk.choices or ()
        for choice in choices:
            self._hear_choice(choice)
        return self._hear_usage(usage_in(chunk.usage), is_alone=not choices)

    def _hear_unusual(self, data: bytes) -> bool:
        """Take an event of another shape: every text in its choices counts as written."""
        chunk = object_of(data)
        if chunk is None:
            self.fault = _MALFORMED
            return False
        if chunk.get("error"):
            self.fault = _ERROR
            return True
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            self.produced.note("other", data.decode(errors="replace"))
            choices = []
        for text in texts_in(choices):
            self.produced.note("other", text)
        self._finished.update(_ended(choices))
        return self._hear_usage(openai_usage(chunk.get("usage")), is_alone=not choices)

    def _hear_usage(self, reported: Reported | None, *, is_alone: bool) -> bool:
        """Take what was reported, if anything; False: its event is not to be relayed."""
        if reported is None:
            return True
        self.reported = replace(reported, covered_bytes=self.produced.text_bytes)
        return not (self._payload.strips_usage and is_alone)

    def _hear_choice(self, choice: _Choice) -> None:
        # Some servers say "" until there is a reason.
        if choice.finish_reason:
            self._finished.add(choice.index)
        delta = choice.delta
        if delta is None:
            return
        if delta.content:
            self.produced.note(f"{choice.index}.content", delta.content)
        if delta.refusal or delta.reasoning_content or delta.reasoning:
            self._hear_beside(choice.index, delta)
        for call in delta.tool_calls or ():
            self._hear_call(f"{choice.index}.tool.{call.index or 0}", call.function)
        if delta.function_call is not None:
            self._hear_call(f"{choice.index}.function", delta.function_call)

    def _hear_beside(self, index: int, delta: _Delta) -> None:
        if delta.refusal:
            self.produced.note(f"{index}.refusal", delta.refusal)
        if shown := delta.reasoning_content or delta.reasoning:
            self.produced.note(f"{index}.reasoning", shown)

    def _hear_call(self, part: str, function: _Function | None) -> None:
        if function is None:
            return
        note_call(self.produced, part, function.name, function.arguments)

    def cut(self, usage: Measured | None) -> bytes:
        """Return the events that end the stream for reaching its length."""
        request = self._payload.request
        head = self._head(asks_for_usage=request.asks_for_usage)
        events = [
            _event({**head, "choices": [_cut_choice(index)]})
            for index in range(request.choices)
            if index not in self._finished
        ]
        if request.asks_for_usage and usage is not None:
            told = {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
            }
            events.append(_event({**head, "choices": [], "usage": told}))
        return b"".join((*events, _DONE_EVENT))

    def failure(self, message: str, *, code: str) -> bytes:
        """Return the error event of a stream that cannot go on."""
        return openai_error_event(message, code=code)

    def _head(self, *, asks_for_usage: bool) -> dict[str, object]:
        try:
            named = _named(self._last)
        except (msgspec.MsgspecError, UnicodeError):
            named = _Named()
        head: dict[str, object] = {
            "id": named.id,
            "object": "chat.completion.chunk",
            "created": named.created,
            "model": named.model or self._payload.model,
        }
        return {**head, "usage": None} if asks_for_usage else head


def _ended(choices: list[Any]) -> Iterator[int]:
    """Yield the choices of an unusual event that have a reason to end."""
    for choice in choices:
        if isinstance(choice, dict) and choice.get("finish_reason"):
            index = choice.get("index")
            yield index if is_whole_number(index) else 0


def _cut_choice(index: int) -> dict[str, object]:
    return {"index": index, "delta": {}, "logprobs": None, "finish_reason": "length"}


def _event(chunk: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % _encode(chunk)

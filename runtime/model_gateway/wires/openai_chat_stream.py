"""A streamed chat completion, heard event by event."""

from dataclasses import replace

import msgspec

from runtime.model_gateway.counting.reports import Reported
from runtime.model_gateway.measured import Measured, Produced
from runtime.model_gateway.model_request import Payload
from runtime.model_gateway.wires.openai_chat_written import note_call
from runtime.model_gateway.wires.openai_errors import openai_error_event
from runtime.model_gateway.wires.openai_usage import usage_in
from runtime.model_gateway.wires.sse import data_of, object_of

DONE = b"[DONE]"
_DONE_EVENT = b"data: [DONE]\n\n"
_MALFORMED = "the provider's stream holds an event that is not JSON of a chat completion"
_ERROR = "the provider ended the stream with an error"
_NONE = (b"", b"null")


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int = 0
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
        if bytes(chunk.error) not in _NONE:
            self.fault = _ERROR
            return True
        choices = chunk.choices or ()
        for choice in choices:
            self._hear_choice(choice)
        if (usage := bytes(chunk.usage)) not in _NONE:
            reported = usage_in(usage)
            assert reported is not None, "something stands there"
            self.reported = replace(reported, covered_bytes=self.produced.text_bytes)
            return not (self._payload.strips_usage and not choices)
        return True

    def _hear_unusual(self, data: bytes) -> bool:
        """Take an event of another shape: all of it counts as written."""
        if object_of(data) is None:
            self.fault = _MALFORMED
            return False
        self.produced.note("other", data.decode(errors="replace"))
        return True

    def _hear_choice(self, choice: _Choice) -> None:
        if choice.finish_reason is not None:
            self._finished.add(choice.index)
        delta = choice.delta
        if delta is None:
            return
        if delta.content:
            self.produced.note(f"{choice.index}.content", delta.content)
        if delta.refusal or delta.reasoning_content or delta.reasoning:
            self._hear_beside(choice.index, delta)
        for call in delta.tool_calls or ():
            self._hear_call(f"{choice.index}.tool.{call.index}", call.function)
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


def _cut_choice(index: int) -> dict[str, object]:
    return {"index": index, "delta": {}, "logprobs": None, "finish_reason": "length"}


def _event(chunk: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % _encode(chunk)

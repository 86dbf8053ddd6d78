"""What an answer says of itself: which model wrote it, and why it ended."""

import re

import msgspec

from runtime.model_gateway.wires.sse import data_of

_NAME_CHARS_MAX = 128


class _Named(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    # Where the events of a stream hold what is answered.
    message: "_Named | None" = None
    response: "_Named | None" = None


_named = msgspec.json.Decoder(_Named).decode
# Inside of a text the quotes would be escaped; the words are the wires' own, and no others.
_reasons = re.compile(rb'"(?:finish_reason|stop_reason|status)":\s*"([a-z_]{1,32})"').findall
_KNOWN_REASONS = frozenset(
    {
        *("stop", "length", "tool_calls", "content_filter", "function_call"),
        *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"),
        *("model_context_window_exceeded", "completed", "incomplete", "failed"),
    }
)


class Said:
    """What an answer says of itself, for a span: which model wrote it, and why it ended."""

    __slots__ = ("answer_id", "finish_reasons", "model")

    def __init__(self) -> None:
        """Begin with nothing known."""
        self.model: str | None = None
        self.answer_id: str | None = None
        self.finish_reasons: tuple[str, ...] = ()

    def hear(self, content: bytes) -> None:
        """Take a whole answer, or the events of a stream that came together."""
        if self.model is None:
            self._name(content if content.startswith(b"{") else data_of(_first(content)))
        if b"_reason" in content or b'"status"' in content:
            words = dict.fromkeys(word.decode() for word in _reasons(content))
            known = (word for word in words if word in _KNOWN_REASONS)
            self.finish_reasons = tuple(dict.fromkeys((*self.finish_reasons, *known)))

    def _name(self, data: bytes) -> None:
        try:
            named = _named(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        named = named.message or named.response or named
        self.model, self.answer_id = _cut(named.model), _cut(named.id)


def _first(events: bytes) -> bytes:
    return events.split(b"\n\n", 1)[0] + b"\n\n"


def _cut(name: str | None) -> str | None:
    return None if name is None else name[:_NAME_CHARS_MAX]

"""What hears a streamed answer in Anthropic's Messages format."""

from collections.abc import Mapping
from dataclasses import replace

from runtime.model_gateway.counting.reports import Reported, anthropic_usage
from runtime.model_gateway.measured import Measured, Produced
from runtime.model_gateway.wires.anthropic_errors import error_body
from runtime.model_gateway.wires.sse import data_of, event_of, object_of

THINKING = ("thinking", "redacted_thinking")
_OPEN_BLOCKS_MAX = 4_096


class MessagesMeter:
    """Hears the events of one answer."""

    def __init__(self, *, model: str, keeps_text: bool) -> None:
        """Expect an answer of `model`."""
        self._model = model
        self.produced = Produced(pieces={} if keeps_text else None)
        self._figures: dict[str, object] = {}
        # The first event names the whole input, and of the output only what had been begun.
        self.reported: Reported | None = None
        self._has_begun = False
        self._has_reason = False
        self._open: set[int] = set()
        self.is_finished = False
        self.fault = ""

    @property
    def is_whole(self) -> bool:
        """Tell whether the model has said why it stopped: what is missing then says nothing."""
        return self.is_finished or self._has_reason

    def hear(self, event: bytes) -> bool:
        """Take a whole event; what cannot be read is not relayed, for a client would break."""
        data = data_of(event)
        if not data:
            return True
        value = object_of(data)
        if value is None:
            self.fault = "the provider's stream holds an event that is no JSON object"
            return False
        match value.get("type"):
            case "message_start":
                self._start(value.get("message"))
            case "content_block_start":
                self._open_block(value)
            case "content_block_delta":
                self._write(value)
            case "content_block_stop":
                self._open.discard(_index(value))
            case "message_delta":
                self._end(value)
            case "message_stop":
                self.is_finished = True
            case "error":
                self.fault = "the provider's stream ended in an error"
            case _:
                # A ping, or something newer than this.
                pass
        return True

    def cut(self, usage: Measured | None) -> bytes:
        """Return the events that end the message for reaching its length."""
        events = [] if self._has_begun else [self._own_start()]
        if not self._has_reason:
            events += [
                event_of({"type": "content_block_stop", "index": index})
                for index in sorted(self._open)
            ]
            delta = {"stop_reason": "max_tokens", "stop_sequence": None}
            figures = {"output_tokens": 0 if usage is None else usage.output_tokens}
            events.append(event_of({"type": "message_delta", "delta": delta, "usage": figures}))
        if not self.is_finished:
            events.append(event_of({"type": "message_stop"}))
        return b"".join(events)

    def failure(self, message: str, *, code: str) -> bytes:
        """Return an error event, which an official client raises."""
        return event_of(error_body(502, message, code=code))

    def _start(self, message: object) -> None:
        self._has_begun = True
        if isinstance(message, Mapping):
            self._take_usage(message.get("usage"))

    def _open_block(self, value: Mapping[str, object]) -> None:
        if len(self._open) >= _OPEN_BLOCKS_MAX:
            self.fault = "the provider's stream opens more blocks than it closes"
            return
        index = _index(value)
        self._open.add(index)
        block = value.get("content_block")
        if not isinstance(block, Mapping):
            return
        self.produced.hides |= block.get("type") in THINKING
        # Usually empty here; what a block already holds was written too.
        for name in ("text", "thinking"):
            if isinstance(text := block.get(name), str) and text:
                self.produced.note(f"{index}.{name}", text)
        if isinstance(tool := block.get("name"), str):
            self.produced.calls += 1
            self.produced.note(f"{index}.name", tool)

    def _write(self, value: Mapping[str, object]) -> None:
        delta, index = value.get("delta"), _index(value)
        if not isinstance(delta, Mapping):
            return
        kind = delta.get("type")
        if kind == "text_delta" and isinstance(text := delta.get("text"), str) and text:
            self.produced.note(f"{index}.text", text)
        elif kind == "input_json_delta" and isinstance(part := delta.get("partial_json"), str):
            self.produced.note_arguments(f"{index}.tool", part)
        elif kind == "thinking_delta" and isinstance(shown := delta.get("thinking"), str):
            self.produced.note(f"{index}.thinking", shown)

    def _end(self, value: Mapping[str, object]) -> None:
        delta = value.get("delta")
        if isinstance(delta, Mapping) and delta.get("stop_reason") is not None:
            self._has_reason = True
        self._take_usage(value.get("usage"))

    def _take_usage(self, usage: object) -> None:
        """Take figures that are totals so far: a later one takes the place of an earlier."""
        if usage is None:
            return
        said = usage if isinstance(usage, Mapping) else {"usage": usage}
        self._figures |= {name: value for name, value in said.items() if value is not None}
        found = anthropic_usage(self._figures)
        if found is not None:
            self.reported = replace(found, covered_bytes=self.produced.text_bytes)

    def _own_start(self) -> bytes:
        message: dict[str, object] = {
            "id": "msg_flyball",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return event_of({"type": "message_start", "message": message})


def _index(value: Mapping[str, object]) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else 0

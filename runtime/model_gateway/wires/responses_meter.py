"""What hears a streamed answer in OpenAI's Responses format."""

from collections.abc import Iterator, Mapping
from typing import Any

from runtime.model_gateway.counting.reports import Reported, openai_usage
from runtime.model_gateway.measured import Measured, Produced
from runtime.model_gateway.wires.responses_items import OpenItems
from runtime.model_gateway.wires.sse import data_of, event_of, object_of

_ENDS = ("response.completed", "response.incomplete", "response.failed")
_DELTA = ".delta"
REASONING = "reasoning"
_OPENED = "response.output_item.added"
# A summary of hidden reasoning may have more events than the reasoning has tokens.
_ARGUMENTS = ("arguments", "input", "code", "command")


class ResponsesMeter:
    """Hears the events of one answer."""

    def __init__(self, *, model: str, keeps_text: bool) -> None:
        """Expect an answer of `model`."""
        self._model = model
        self.produced = Produced(pieces={} if keeps_text else None)
        self.reported: Reported | None = None
        self._response: dict[str, Any] | None = None
        self._items = OpenItems()
        self._sequence = -1
        self.is_finished = False
        self.fault = ""

    @property
    def is_whole(self) -> bool:
        """Tell whether nothing is missing."""
        return self.is_finished

    def hear(self, event: bytes) -> bool:
        """Take a whole event; what cannot be read is not relayed, for a client would break."""
        data = data_of(event)
        if not data or data == b"[DONE]":
            return True
        value = object_of(data)
        if value is None:
            self.fault = "the provider's stream holds an event that is no JSON object"
            return False
        self._sequence = max(self._sequence, _number(value, "sequence_number"))
        kind = str(value.get("type"))
        if kind in _ENDS:
            self._end(kind, value.get("response"))
        elif kind == "response.created":
            response = value.get("response")
            self._response = response if isinstance(response, dict) else None
        elif kind == "error" or value.get("error") is not None:
            self.fault = "the provider ended the stream with an error"
        elif not self._items.take(kind, value):
            self.fault = "the provider's stream opens more items than are served"
        elif kind.endswith(_DELTA):
            self._write(kind, value)
        elif kind == _OPENED:
            self._open(value)
        return True

    def cut(self, usage: Measured | None) -> bytes:
        """Return the events that end the response for reaching its length."""
        if self.is_finished:
            return b""
        return b"".join(event_of(event) for event in self._numbered(self._ending(usage)))

    def failure(self, message: str, *, code: str) -> bytes:
        """Return an error event; its member `error` makes an official client raise it."""
        error = {"type": "provider_error", "code": code, "message": message, "param": None}
        event = {"type": "error", "code": code, "message": message, "param": None, "error": error}
        return b"".join(event_of(one) for one in self._numbered([event]))

    def _open(self, value: Mapping[str, object]) -> None:
        item = value.get("item")
        if not isinstance(item, Mapping):
            return
        self.produced.hides |= item.get("type") == REASONING
        if isinstance(name := item.get("name"), str):
            self.produced.calls += 1
            self.produced.note(f"{_number(value, 'output_index')}.name", name)

    def _write(self, kind: str, value: Mapping[str, object]) -> None:
        delta = value.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        index = _number(value, "output_index")
        name = kind.removesuffix(_DELTA).removeprefix("response.")
        if any(word in name for word in _ARGUMENTS):
            self.produced.note_arguments(f"{index}.{name}", delta)
        else:
            part = max(_number(value, "content_index"), _number(value, "summary_index"), 0)
            self.produced.note(f"{index}.{part}.{name}", delta)

    def _end(self, kind: str, response: object) -> None:
        self.is_finished = True
        usage = response.get("usage") if isinstance(response, Mapping) else None
        if usage is not None:
            self.reported = openai_usage(usage)
        if kind == "response.failed":
            self.fault = "the provider says that the response failed"

    def _ending(self, usage: Measured | None) -> Iterator[dict[str, Any]]:
        response = self._response
        if response is None:
            response = _own_response(self._model)
            yield {"type": "response.created", "response": response}
        yield from self._items.closing()
        yield {
            "type": "response.incomplete",
            "response": {
                **response,
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "output": self._items.output(),
                "usage": None if usage is None else _usage(usage),
            },
        }

    def _numbered(self, events: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> Any:
        for number, event in enumerate(events, start=self._sequence + 1):
            yield {**event, "sequence_number": number}


def _number(value: Mapping[str, object], name: str) -> int:
    number = value.get(name)
    return number if isinstance(number, int) else -1


def _usage(usage: Measured) -> dict[str, object]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _own_response(model: str) -> dict[str, Any]:
    """Return a response for a stream that was cut before it began."""
    return {
        "id": "resp_flyball",
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }

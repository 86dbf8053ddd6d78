"""A stream of Anthropic's messages, told as chunks of a chat completion."""

from collections.abc import Iterator, Mapping
from typing import Any

from runtime.model_gateway.translation.answers import chat_error
from runtime.model_gateway.translation.events import DONE, object_of, written
from runtime.model_gateway.translation.tools import written_arguments
from runtime.model_gateway.translation.words import chat_usage, finish_reason

Delta = dict[str, Any]


class ChatStream:
    """Hears one event after the other, and keeps no more than what later ones need of it."""

    def __init__(self, *, now_s: int, asks_for_usage: bool) -> None:
        """Take when the answer began, and whether the client asked for its usage."""
        self._head: Delta = {
            "id": "",
            "object": "chat.completion.chunk",
            "created": now_s,
            "model": "",
        }
        self._asks_for_usage = asks_for_usage
        self._usage: dict[str, Any] = {}
        self._calls = 0
        self._has_finished = self._has_ended = False
        # The block of a call that is being written, and whether it has arguments yet.
        self._calling: int | None = None
        self._has_arguments = False

    def hear(self, event: bytes) -> bytes:
        """Return what the client gets for a whole event, b"" where that is nothing."""
        heard = object_of(event)
        return b"" if heard is None else b"".join(self._told(heard))

    def end(self) -> bytes:
        """Return what is missing of a stream that was whole but for its last words."""
        return b"".join(self._ended()) if self._has_finished else b""

    def _told(self, heard: Mapping[str, Any]) -> Iterator[bytes]:
        match heard:
            case {"type": "message_start", "message": dict(message)}:
                self._head |= {"id": message.get("id", ""), "model": message.get("model", "")}
                self._note(message.get("usage"))
                yield self._chunk({"role": "assistant", "content": ""})
            case {"type": "content_block_start", "content_block": dict(block)}:
                yield from self._started(block, heard.get("index"))
            case {"type": "content_block_delta", "delta": dict(delta)}:
                yield from self._grown(delta)
            case {"type": "content_block_stop"}:
                yield from self._stopped(heard.get("index"))
            case {"type": "message_delta", "delta": dict(delta)}:
                self._note(heard.get("usage"))
                self._has_finished = True
                yield self._chunk({}, finish_reason(delta.get("stop_reason")))
            case {"type": "message_stop"}:
                yield from self._ended()
            case {"type": "error"}:
                yield written(chat_error(heard))
            case _:
                pass  # a ping, and what is not known yet, is nothing to say

    def _ended(self) -> Iterator[bytes]:
        if self._has_ended:
            return
        self._has_ended = True
        if self._asks_for_usage:
            yield written({**self._head, "choices": [], "usage": chat_usage(self._usage)})
        yield DONE

    def _started(self, block: Mapping[str, Any], index: object) -> Iterator[bytes]:
        match block:
            case {"type": "text", "text": str(text)} if text:
                yield self._chunk({"content": text})
            case {"type": "tool_use", "id": call_id, "name": name}:
                # Some servers have the whole input here, and no deltas after it.
                given = block.get("input")
                arguments = written_arguments(given) if given else ""
                self._calling = index if isinstance(index, int) else -1
                self._has_arguments = bool(arguments)
                self._calls += 1
                function = {"name": name, "arguments": arguments}
                yield self._call({"id": call_id, "type": "function", "function": function})
            case _:
                pass  # a thought has no beginning in chat

    def _grown(self, delta: Mapping[str, Any]) -> Iterator[bytes]:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                yield self._chunk({"content": text})
            case {"type": "thinking_delta", "thinking": str(text)}:
                yield self._chunk({"reasoning_content": text})
            case {"type": "input_json_delta", "partial_json": str(text)} if text and self._calls:
                self._has_arguments = True
                yield self._call({"function": {"arguments": text}})
            case _:
                pass  # signatures and citations have no words in chat

    def _stopped(self, index: object) -> Iterator[bytes]:
        if self._calling is None or index != self._calling:
            return
        self._calling = None
        if not self._has_arguments:
            # Clients of chat parse the arguments of a call without any, too.
            yield self._call({"function": {"arguments": "{}"}})

    def _call(self, told: Delta) -> bytes:
        return self._chunk({"tool_calls": [{"index": self._calls - 1, **told}]})

    def _note(self, usage: object) -> None:
        if isinstance(usage, Mapping):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _chunk(self, delta: Delta, why: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": why}
        return written({**self._head, "choices": [choice]})

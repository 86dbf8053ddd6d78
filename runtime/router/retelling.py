"""A whole answer as the stream that its client asked for, in the order of each wire's own."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from runtime.model_gateway.model_request import ModelRequest, WireName
from runtime.model_gateway.strict_json import object_in

_DONE = b"data: [DONE]\n\n"
# What an item is before anything of it was written.
_BEGUN = {"status": "in_progress"}
_UNWRITTEN: dict[str, object] = {"content": [], "arguments": ""}


def events_of(request: ModelRequest, content: bytes) -> Iterator[bytes]:
    """Yield the events by which an official client reads `content` from a stream."""
    answer = object_in(content)
    match request.wire:
        case WireName.OPENAI_CHAT:
            return _chat(answer, with_usage=request.asks_for_usage)
        case WireName.ANTHROPIC_MESSAGES:
            return _messages(answer)
        case _:
            return _responses(answer)


def _chat(answer: Mapping[str, Any], *, with_usage: bool) -> Iterator[bytes]:
    kept = ("id", "created", "model", "service_tier", "system_fingerprint")
    about: dict[str, Any] = {name: answer[name] for name in kept if name in answer}
    about["object"] = "chat.completion.chunk"
    # Where the usage is asked for, every chunk before its own says that it has none.
    usage = {"usage": None} if with_usage else {}

    def chunk(
        index: int, delta: Mapping[str, Any], finish: object = None, logprobs: object = None
    ) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return _data({**about, "choices": [choice], **usage})

    for choice in _objects(answer.get("choices")):
        index, message = choice.get("index", 0), _object(choice.get("message"))
        rest = {
            name: value
            for name, value in message.items()
            if name not in ("role", "content", "tool_calls") and value is not None
        }
        yield chunk(index, {"role": message.get("role", "assistant"), "content": "", **rest})
        if message.get("content"):
            said = {"content": message["content"]}
            yield chunk(index, said, logprobs=choice.get("logprobs"))
        for place, call in enumerate(_objects(message.get("tool_calls"))):
            yield chunk(index, {"tool_calls": [{"index": place, **call}]})
        yield chunk(index, {}, choice.get("finish_reason") or "stop")
    if with_usage:
        yield _data({**about, "choices": [], "usage": answer.get("usage")})
    yield _DONE


def _messages(answer: Mapping[str, Any]) -> Iterator[bytes]:
    usage = _object(answer.get("usage"))
    begun = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    begun["usage"] = {**usage, "output_tokens": 1 if usage.get("output_tokens") else 0}
    yield _event("message_start", {"message": begun})
    for index, block in enumerate(_objects(answer.get("content"))):
        empty, deltas = _block(block)
        yield _event("content_block_start", {"index": index, "content_block": empty})
        for delta in deltas:
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
    ended = {name: answer.get(name) for name in ("stop_reason", "stop_sequence")}
    yield _event("message_delta", {"delta": ended, "usage": usage})
    yield _event("message_stop", {})


def _block(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a block before anything of it was written, and what then is written."""
    match block.get("type"):
        case "text":
            empty = {**block, "text": ""}
            return empty, [{"type": "text_delta", "text": block.get("text", "")}]
        case "thinking":
            empty = {**block, "thinking": "", "signature": ""}
            return empty, [
                {"type": "thinking_delta", "thinking": block.get("thinking", "")},
                {"type": "signature_delta", "signature": block.get("signature", "")},
            ]
        case "tool_use":
            written = msgspec.json.encode(block.get("input", {})).decode()
            empty = {**block, "input": {}}
            return empty, [{"type": "input_json_delta", "partial_json": written}]
        case _:
            return dict(block), []


def _responses(answer: Mapping[str, Any]) -> Iterator[bytes]:
    numbers = iter(range(1 << 31))

    def event(kind: str, said: Mapping[str, Any]) -> bytes:
        return _event(kind, {"sequence_number": next(numbers), **said})

    begun = {**answer, **_BEGUN, "output": [], "usage": None}
    yield event("response.created", {"response": begun})
    yield event("response.in_progress", {"response": begun})
    for place, item in enumerate(_objects(answer.get("output"))):
        where = {"output_index": place, "item_id": item.get("id")}
        empty = {**item, **_BEGUN}
        empty |= {name: value for name, value in _UNWRITTEN.items() if name in item}
        yield event("response.output_item.added", {"output_index": place, "item": empty})
        for kind, said in _written(item):
            yield event(kind, {**where, **said})
        yield event("response.output_item.done", {"output_index": place, "item": item})
    status = answer.get("status")
    ended = status if status in ("incomplete", "failed") else "completed"
    yield event(f"response.{ended}", {"response": answer})


def _written(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is written of one item of a response, each with the kind of its event."""
    if item.get("type") == "function_call":
        arguments = item.get("arguments", "")
        yield "response.function_call_arguments.delta", {"delta": arguments}
        done = {"arguments": arguments, "name": item.get("name")}
        yield "response.function_call_arguments.done", done
        return
    for index, part in enumerate(_objects(item.get("content"))):
        if part.get("type") != "output_text":
            continue
        at, text = {"content_index": index}, part.get("text", "")
        yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
        yield "response.output_text.delta", {**at, "delta": text, "logprobs": []}
        yield "response.output_text.done", {**at, "text": text, "logprobs": []}
        yield "response.content_part.done", {**at, "part": part}


def _data(value: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(value)


def _event(kind: str, said: Mapping[str, Any]) -> bytes:
    body = msgspec.json.encode({"type": kind, **said})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

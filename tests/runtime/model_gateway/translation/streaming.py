"""Streams as providers send them, and what clients make of one."""

import json
from typing import Any

from tests.runtime.model_gateway.translation.conversations import Fields, compact

PIECE = 3


def named(told: Fields) -> bytes:
    """Return an event of messages."""
    return f"event: {told['type']}\ndata: {json.dumps(told)}\n\n".encode()


def unnamed(told: Fields) -> bytes:
    """Return an event of chat."""
    return f"data: {json.dumps(told)}\n\n".encode()


def pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def events_of(message: Fields) -> list[bytes]:
    """Return the events in which a provider of messages streams a message."""
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for at, block in enumerate(message["content"]):
        if block["type"] == "text":
            start, kind, parts = {**block, "text": ""}, "text", pieces(block["text"])
            deltas = [{"type": "text_delta", kind: part} for part in parts]
        else:
            start = {**block, "input": {}}
            text = compact(block["input"]) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in pieces(text)]
        events.append({"type": "content_block_start", "index": at, "content_block": start})
        events += [{"type": "content_block_delta", "index": at, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": at})
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    grown = {"output_tokens": usage["output_tokens"]}
    events.append({"type": "message_delta", "delta": ending, "usage": grown})
    events.append({"type": "message_stop"})
    return [named(event) for event in events]


def chunks_of(completion: Fields) -> list[bytes]:
    """Return the events in which a provider of chat streams a completion."""
    head = {name: completion[name] for name in ("id", "created", "model")}
    message = completion["choices"][0]["message"]
    deltas: list[Fields] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": part} for part in pieces(message["content"] or "")]
    for at, call in enumerate(message.get("tool_calls") or ()):
        begun = {**call, "index": at, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        for part in pieces(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
    why = completion["choices"][0]["finish_reason"]
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": why}])
    told: list[Fields] = [{**head, "choices": one, "usage": None} for one in choices]
    told.append({**head, "choices": [], "usage": completion["usage"]})
    return [*map(unnamed, told), b"data: [DONE]\n\n"]


def heard(stream: Any, events: list[bytes]) -> list[Fields]:
    """Return the objects that a client gets; the end of a stream of chat is {}."""
    content = b"".join(stream.hear(event) for event in events).decode()
    told = []
    for event in content.split("\n\n")[:-1]:
        data = event[event.index("data: ") + 6 :]
        told.append({} if data == "[DONE]" else json.loads(data))
    return told


def completion_from(chunks: list[Fields]) -> Fields:
    """Return the completion that a client of chat puts together."""
    assert chunks[-1] == {}
    message: Fields = {"role": "assistant", "content": None, "refusal": None}
    calls: list[Fields] = []
    found: Fields = {"finish_reason": None}
    for chunk in chunks[:-1]:
        found |= {name: chunk[name] for name in ("id", "created", "model")}
        found["usage"] = chunk.get("usage")
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if delta.get("content"):
                message["content"] = (message["content"] or "") + delta["content"]
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(calls):
                    calls.append({name: call[name] for name in ("id", "type", "function")})
                else:
                    function = calls[call["index"]]["function"]
                    function["arguments"] += call["function"]["arguments"]
            found["finish_reason"] = choice["finish_reason"] or found["finish_reason"]
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None}
    choice["finish_reason"] = found.pop("finish_reason")
    return {**found, "object": "chat.completion", "choices": [choice]}


def message_from(events: list[Fields]) -> Fields:
    """Return the message that a client of messages puts together."""
    message: Fields = {}
    parts: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
                parts[event["index"]] = ""
            case "content_block_delta":
                delta = event["delta"]
                parts[event["index"]] += delta.get("text", delta.get("partial_json"))
            case "content_block_stop":
                block, text = message["content"][event["index"]], parts.pop(event["index"])
                if block["type"] == "text":
                    block["text"] = text
                else:
                    block["input"] = json.loads(text or "{}")
            case "message_delta":
                message |= event["delta"]
                message["usage"] = event["usage"]
    assert events[-1]["type"] == "message_stop"
    assert not parts, "every block is closed"
    return message

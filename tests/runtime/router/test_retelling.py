"""A whole answer told as a stream says the same as the answer."""

import json
from typing import Any

import pytest

from runtime.model_gateway.model_request import WireName
from runtime.router.retelling import events_of
from tests.runtime.router.rounds_bench import request

CALL = {
    "id": "t1",
    "type": "function",
    "function": {"name": "count", "arguments": '{"legs":8}'},
}
CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "eight", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "legs…", "signature": "sig"},
        {"type": "text", "text": "eight"},
        {"type": "tool_use", "id": "t1", "name": "count", "input": {"legs": 8}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 5},
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "eight", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "f1",
            "call_id": "t1",
            "name": "count",
            "arguments": '{"legs":8}',
            "status": "completed",
        },
    ],
    "usage": {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8},
}


def streamed(wire: WireName, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the data of each event; every event is one whole block of lines."""
    events = list(events_of(request(wire=wire), json.dumps(answer).encode()))
    assert all(event.endswith(b"\n\n") and event.count(b"\n\n") == 1 for event in events)
    data = [event.split(b"data: ", 1)[1].strip() for event in events]
    for event, held in zip(events, data, strict=True):
        if event.startswith(b"event: "):
            kind = event.split(b"\n", 1)[0].removeprefix(b"event: ").decode()
            assert json.loads(held)["type"] == kind
    return [json.loads(held) for held in data if held != b"[DONE]"]


@pytest.mark.requirement("model.rounds-stream-as-one-answer")
def test_a_chat_is_told_in_chunks_that_add_up_to_it() -> None:
    chunks = streamed(WireName.OPENAI_CHAT, CHAT)

    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content", "") for delta in deltas) == "eight"
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert calls == [{"index": 0, **CALL}]
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert (chunks[-1]["choices"], chunks[-1]["usage"]) == ([], CHAT["usage"])
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


def test_a_message_is_told_block_by_block() -> None:
    events = streamed(WireName.ANTHROPIC_MESSAGES, MESSAGE)

    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3
    assert events[0]["message"]["content"] == []
    written: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_delta":
            delta = event["delta"]
            said = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            written[event["index"]] = written.get(event["index"], "") + said
    assert written == {0: "legs…", 1: "eight", 2: '{"legs":8}'}
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"] == MESSAGE["usage"]


def test_a_response_is_told_item_by_item_and_numbered() -> None:
    events = streamed(WireName.OPENAI_RESPONSES, RESPONSE)

    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (
        "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        == "eight"
    )
    assert events[-1]["response"] == RESPONSE
    assert events[0]["response"]["output"] == []


def test_a_response_that_is_incomplete_ends_as_one() -> None:
    events = streamed(WireName.OPENAI_RESPONSES, {**RESPONSE, "status": "incomplete"})

    assert events[-1]["type"] == "response.incomplete"

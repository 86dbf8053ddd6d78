"""Streams of one wire in the other's words, event by event."""

import json
from typing import Any

import pytest
from hypothesis import given

from runtime.model_gateway.translation.answers import chat_answer, messages_answer
from runtime.model_gateway.translation.stream_to_chat import ChatStream
from runtime.model_gateway.translation.stream_to_messages import MessagesStream
from tests.runtime.model_gateway.translation.streaming import (
    chunks_of,
    completion_from,
    events_of,
    heard,
    message_from,
    named,
    unnamed,
)
from tests.runtime.model_gateway.translation.test_translated_answers import NOW_S, messages

HEAD = {"id": "c", "created": NOW_S, "model": "m"}


def to_chat(*, asks_for_usage: bool = True) -> ChatStream:
    return ChatStream(now_s=NOW_S, asks_for_usage=asks_for_usage)


def chunk(delta: dict[str, Any], why: str | None = None) -> bytes:
    return unnamed({**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": why}]})


def call(index: int, arguments: str, **more: str) -> dict[str, Any]:
    told = {"index": index, "function": {"arguments": arguments}}
    if more:
        told |= {"id": more["id"], "type": "function"}
        told["function"] = {"name": more["name"], "arguments": arguments}
    return {"tool_calls": [told]}


@pytest.mark.requirement("model.translation-streams-the-same")
@given(messages())
def test_a_stream_of_messages_says_to_chat_what_the_whole_answer_says(
    message: dict[str, Any],
) -> None:
    told = completion_from(heard(to_chat(), events_of(message)))

    assert told == chat_answer(message, now_s=NOW_S)


@pytest.mark.requirement("model.translation-streams-the-same")
@given(messages())
def test_a_stream_of_chat_says_to_messages_what_the_whole_answer_says(
    message: dict[str, Any],
) -> None:
    completion = chat_answer(message, now_s=NOW_S)

    told = message_from(heard(MessagesStream(), chunks_of(completion)))

    assert told == messages_answer(completion) == message


def test_what_an_event_says_is_said_at_once() -> None:
    chat, anthropic = to_chat(), MessagesStream()
    message = {"id": "m", "model": "m", "usage": {}}
    started = {"type": "message_start", "message": message}
    grown = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "now"}}
    chat.hear(named(started))
    anthropic.hear(chunk({"role": "assistant", "content": ""}))

    assert b'"content":"now"' in chat.hear(named({**grown, "index": 0}))
    assert b'"text":"now"' in anthropic.hear(chunk({"content": "now"}))
    assert b'"partial_json":"{"' in anthropic.hear(chunk(call(0, "{", id="a", name="look")))


def test_usage_is_told_to_chat_only_where_it_was_asked_for() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2}
    message = {"id": "m", "model": "m", "content": [], "stop_reason": "end_turn", "usage": usage}

    asked = heard(to_chat(), events_of(message))
    unasked = heard(to_chat(asks_for_usage=False), events_of(message))

    assert asked[-2]["usage"]["total_tokens"] == 5
    assert asked[-2]["choices"] == []
    assert not [told for told in unasked if "usage" in told]
    assert unasked[-1] == {}


def test_a_call_without_arguments_has_an_empty_object_of_them_in_chat() -> None:
    block = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    message = {"id": "m", "model": "m", "stop_reason": "tool_use", "content": [block]}
    message["usage"] = {"input_tokens": 3, "output_tokens": 2}

    told = completion_from(heard(to_chat(), events_of(message)))

    [made] = told["choices"][0]["message"]["tool_calls"]
    assert made["function"] == {"name": "look", "arguments": "{}"}


def test_an_input_that_comes_whole_is_told_once() -> None:
    block = {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}}
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]

    told = completion_from(heard(to_chat(), [named(event) for event in events]))

    [made] = told["choices"][0]["message"]["tool_calls"]
    assert made["function"]["arguments"] == '{"at":1}'


def test_thoughts_in_the_open_are_shown_to_chat_and_not_to_messages() -> None:
    delta = {"type": "thinking_delta", "thinking": "hm"}

    shown = to_chat().hear(named({"type": "content_block_delta", "index": 0, "delta": delta}))
    kept = MessagesStream()
    kept.hear(chunk({"role": "assistant"}))

    assert b'"reasoning_content":"hm"' in shown
    assert kept.hear(chunk({"reasoning_content": "hm"})) == b""


def test_a_refusal_in_a_stream_of_chat_ends_as_one() -> None:
    events = [chunk({"refusal": "I will "}), chunk({"refusal": "not."}), chunk({}, "stop")]

    told = message_from(heard(MessagesStream(), [*events, b"data: [DONE]\n\n"]))

    assert told["content"] == [{"type": "text", "text": "I will not."}]
    assert told["stop_reason"] == "refusal"


def test_a_call_that_is_gone_back_to_ends_the_stream_with_an_error() -> None:
    stream = MessagesStream()
    stream.hear(chunk(call(0, "{}", id="a", name="look")))
    stream.hear(chunk(call(1, "{", id="b", name="look")))

    back = stream.hear(chunk(call(0, "}")))

    assert back.startswith(b"event: error\n")
    assert stream.hear(chunk({"content": "more"})) == b""
    assert stream.hear(b"data: [DONE]\n\n") == b""


def calls_of(*deltas: dict[str, Any]) -> list[tuple[str, str, object]]:
    """Return the calls that a client reads of a stream of chat, after looking at its order."""
    events = heard(
        MessagesStream(),
        [*(chunk(delta) for delta in deltas), chunk({}, "tool_calls"), b"data: [DONE]\n\n"],
    )
    is_open = None
    for event in events:
        if event["type"] == "content_block_start":
            assert is_open is None
            is_open = event["index"]
        elif event["type"].startswith("content_block"):
            assert event["index"] == is_open
            is_open = None if event["type"].endswith("stop") else is_open
    content = message_from(events)["content"]
    return [(block["id"], block["name"], block["input"]) for block in content]


def unnumbered(delta: dict[str, Any]) -> dict[str, Any]:
    [told] = delta["tool_calls"]
    return {"tool_calls": [{name: value for name, value in told.items() if name != "index"}]}


def test_calls_that_are_written_by_turns_follow_each_other() -> None:
    begun = [call(0, "", id="a", name="look"), call(1, "", id="b", name="find")]
    by_turns = [call(0, '{"x"'), call(1, '{"y":'), call(0, ":1}"), call(1, "2}")]

    told = calls_of(*begun, *by_turns)

    assert told == [("a", "look", {"x": 1}), ("b", "find", {"y": 2})]


def test_calls_without_numbers_are_told_apart_by_their_ids() -> None:
    first, second = call(0, '{"x":', id="a", name="look"), call(0, "{}", id="b", name="find")

    told = calls_of(unnumbered(first), unnumbered(call(0, "1}")), unnumbered(second))

    assert told == [("a", "look", {"x": 1}), ("b", "find", {})]


def test_calls_that_all_have_one_number_are_told_apart_by_their_ids() -> None:
    first, second = call(0, "{}", id="a", name="look"), call(0, '{"y":2}', id="b", name="look")

    assert calls_of(first, second) == [("a", "look", {}), ("b", "look", {"y": 2})]


def test_a_call_whose_name_comes_late_waits_for_it() -> None:
    assert calls_of(call(0, "{}"), call(0, "", id="a", name="look")) == [("a", "look", {})]


def test_an_error_in_a_stream_keeps_its_words() -> None:
    theirs = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    [told] = heard(to_chat(), [named(theirs)])
    [ours] = heard(MessagesStream(), [unnamed({"error": {"message": "Broken", "code": 500}})])

    assert told["error"]["message"] == "Overloaded"
    assert ours == {"type": "error", "error": {"type": "api_error", "message": "Broken"}}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_of_a_stream_end_as_they_may(newline: str) -> None:
    delta = {"type": "text_delta", "text": "now"}
    told = json.dumps({"type": "content_block_delta", "index": 0, "delta": delta})
    lines = [": a comment", "event: content_block_delta", *(f"data:{told}",), "", ""]

    assert b'"content":"now"' in to_chat().hear(newline.join(lines).encode())


@pytest.mark.parametrize(
    "event",
    [
        b"\n\n",
        b": ping\n\n",
        b"data: {\n\n",
        b"data: []\n\n",
        b'data: {"choices": [7, {"delta": 7}, {"delta": {"tool_calls": [7, {}]}}]}\n\n',
        b'data: {"type": "content_block_delta", "delta": {"type": "input_json_delta"}}\n\n',
        b'data: {"type": "content_block_start", "index": [], "content_block": {}}\n\n',
        b'data: {"type": "message_delta", "delta": {}, "usage": 7}\n\n',
        b"data: \xff\n\n",
    ],
)
def test_an_event_of_any_shape_never_breaks_the_translation(event: bytes) -> None:
    for stream in (to_chat(), MessagesStream()):
        for _ in range(2):
            stream.hear(event)

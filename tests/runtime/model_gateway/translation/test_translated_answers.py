"""Whole answers and faults of one wire in the other's words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.model_gateway.model_request import WireName
from runtime.model_gateway.translation.answers import chat_answer, messages_answer
from runtime.model_gateway.translation.translation import translation_for
from tests.runtime.model_gateway.translation.conversations import arguments, texts

NOW_S = 1_700_000_000
TO_CHAT = translation_for(WireName.OPENAI_CHAT, {WireName.ANTHROPIC_MESSAGES})
TO_MESSAGES = translation_for(WireName.ANTHROPIC_MESSAGES, {WireName.OPENAI_CHAT})
ENDS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """Return a message that chat can say."""
    said = [{"type": "text", "text": text} for text in draw(st.lists(texts, max_size=1))]
    calls = [
        {"type": "tool_use", "id": f"call_{at}", "name": "look", "input": given}
        for at, given in enumerate(draw(st.lists(arguments, max_size=2)))
    ]
    counts = st.integers(0, 10_000)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "small-1",
        "content": said + calls,
        "stop_reason": draw(st.sampled_from(sorted(ENDS))),
        "stop_sequence": None,
        "usage": {
            "input_tokens": draw(counts),
            "output_tokens": draw(counts),
            "cache_read_input_tokens": draw(counts),
            "cache_creation_input_tokens": draw(counts),
        },
    }


@pytest.mark.requirement("model.translation-keeps-what-both-say")
@given(messages())
def test_an_answer_survives_the_way_there_and_back(message: dict[str, Any]) -> None:
    completion = chat_answer(message, now_s=NOW_S)

    assert messages_answer(completion) == message
    assert completion["choices"][0]["finish_reason"] == ENDS[message["stop_reason"]]


def test_cached_input_is_input_in_chat_and_apart_from_it_in_messages() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 4},
    }

    told = chat_answer({"content": [], "usage": usage}, now_s=NOW_S)

    assert told["usage"] == {
        "prompt_tokens": 240,
        "completion_tokens": 5,
        "total_tokens": 245,
        "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    assert messages_answer(told)["usage"] == usage


def test_more_cached_input_than_input_is_not_told_on() -> None:
    details = {"cached_tokens": 99, "cache_write_tokens": 99}
    usage = {"prompt_tokens": 10, "completion_tokens": True, "prompt_tokens_details": details}

    told = messages_answer({"choices": [], "usage": usage})["usage"]

    assert told["input_tokens"] == told["cache_creation_input_tokens"] == 0
    assert (told["cache_read_input_tokens"], told["output_tokens"]) == (10, 0)


def test_what_was_thought_in_the_open_stands_beside_the_answer_of_chat() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}

    told = chat_answer({"content": [thought, {"type": "text", "text": "yes"}]}, now_s=NOW_S)

    said = told["choices"][0]["message"]
    assert (said["content"], said["reasoning_content"]) == ("yes", "hm")


def test_a_refusal_of_chat_is_a_text_that_ends_as_one() -> None:
    choice = {"message": {"content": None, "refusal": "I will not."}, "finish_reason": "stop"}

    told = messages_answer({"choices": [choice]})

    assert told["content"] == [{"type": "text", "text": "I will not."}]
    assert told["stop_reason"] == "refusal"


def test_a_fault_keeps_its_words_and_takes_the_clients_envelope() -> None:
    assert TO_CHAT is not None
    assert TO_MESSAGES is not None
    theirs = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    ours = {"error": {"message": "Slow down", "type": "requests", "param": None, "code": None}}

    to_chat = TO_CHAT.answer(json.dumps(theirs).encode(), status=529, now_s=NOW_S)
    to_messages = TO_MESSAGES.answer(json.dumps(ours).encode(), status=429, now_s=NOW_S)

    assert json.loads(to_chat)["error"] == {
        "message": "Overloaded",
        "type": "server_error",
        "param": None,
        "code": "overloaded_error",
    }
    assert json.loads(to_messages) == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "Slow down"},
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>", b"[]", b"{}", b'{"error": "words"}', b'{"choices": 5}', b'{"content": [7]}'],
)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_answer_of_any_shape_is_translated_to_something(content: bytes, status: int) -> None:
    for translation in (TO_CHAT, TO_MESSAGES):
        assert translation is not None
        assert json.loads(translation.answer(content, status=status, now_s=NOW_S))


def test_only_chat_and_messages_are_translated_into_each_other() -> None:
    everything = set(WireName)

    assert translation_for(WireName.OPENAI_RESPONSES, everything) is None
    assert translation_for(WireName.OPENAI_EMBEDDINGS, everything) is None
    assert translation_for(WireName.OPENAI_CHAT, {WireName.OPENAI_RESPONSES}) is None

"""Requests of one wire in the other's words: nothing that both can say is lost, or refused."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.translation import request_to_chat, request_to_messages
from runtime.model_gateway.translation.request_to_chat import chat_request
from runtime.model_gateway.translation.request_to_messages import messages_request
from tests.runtime.model_gateway.translation.conversations import (
    Fields,
    messages_requests,
    texts,
)

HI = [{"role": "user", "content": "hi"}]


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}


def to_messages(**fields: Any) -> Fields:
    return messages_request({"model": "m", "messages": HI, **fields}, output_tokens_max=100)


def to_chat(**fields: Any) -> Fields:
    asked = {"model": "m", "max_tokens": 7, "messages": HI, **fields}
    return chat_request(asked, output_tokens_max=100)


@pytest.mark.requirement("model.translation-keeps-what-both-say")
@given(messages_requests())
def test_what_both_wires_can_say_survives_the_way_there_and_back(asked: Fields) -> None:
    once = chat_request(asked, output_tokens_max=1)
    back = messages_request(once, output_tokens_max=1)

    assert back == asked
    assert chat_request(back, output_tokens_max=1) == once


def test_instructions_before_the_conversation_are_its_system_and_later_ones_keep_their_place() -> (
    None
):
    told = to_messages(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            *HI,
            {"role": "system", "content": "Now in French."},
            {"role": "user", "content": "again"},
        ]
    )

    assert [block["text"] for block in told["system"]] == ["Be brief.", "Be kind."]
    assert [turn["role"] for turn in told["messages"]] == ["user", "system", "user"]


def test_results_of_several_tools_are_one_turn_of_the_user() -> None:
    calls = [
        {"id": name, "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
        for name in ("a", "b")
    ]

    told = to_messages(
        messages=[
            *HI,
            {"role": "assistant", "content": "", "tool_calls": calls, "annotations": []},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": ""},
            {"role": "user", "content": "and?"},
        ]
    )

    _, asked, heard = told["messages"]
    assert asked["content"] == [
        {"type": "tool_use", "id": name, "name": "look", "input": {"at": 1}} for name in ("a", "b")
    ]
    assert heard == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "a",
                "content": [{"type": "text", "text": "one"}],
            },
            {"type": "tool_result", "tool_use_id": "b"},
            {"type": "text", "text": "and?"},
        ],
    }


def test_arguments_that_are_no_object_are_told_as_they_are_and_come_back_so() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": '}}
    asked = [
        *HI,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "not JSON"},
    ]

    told = to_messages(messages=asked)

    assert told["messages"][1]["content"][0]["input"] == {"unparsed_arguments": '{"at": '}
    assert chat_request(told, output_tokens_max=1)["messages"] == asked


def test_a_cap_that_chat_leaves_open_is_the_tiers_own() -> None:
    assert to_messages()["max_tokens"] == 100
    assert to_messages(max_tokens=5)["max_tokens"] == 5
    assert to_messages(max_completion_tokens=6, max_tokens=5)["max_tokens"] == 6


def test_a_cap_that_messages_leaves_open_is_the_tiers_own() -> None:
    assert to_chat(max_tokens=None)["max_completion_tokens"] == 100
    open_ended = chat_request({"model": "m", "messages": HI}, output_tokens_max=100)
    assert open_ended["max_completion_tokens"] == 100


def test_a_failed_tool_is_told_to_chat_in_words() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": "no such file"}

    told = to_chat(messages=[{"role": "user", "content": [{**result, "is_error": True}]}])

    assert told["messages"] == [
        {"role": "tool", "tool_call_id": "a", "content": "The tool failed: no such file"}
    ]


def test_what_tools_show_follows_in_a_message_of_the_user() -> None:
    url = "https://example.org/cat.png"
    image = {"type": "image", "source": {"type": "url", "url": url}}
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": [_text("a cat"), image]},
        {"type": "tool_result", "tool_use_id": "b", "content": "nothing"},
    ]
    told = to_chat(messages=[{"role": "user", "content": [*results, _text("and?")]}])["messages"]

    assert [(one["role"], one.get("tool_call_id")) for one in told] == [
        ("tool", "a"),
        ("tool", "b"),
        ("user", None),
    ]
    assert told[0]["content"][0] == _text("a cat")
    assert told[1]["content"] == "nothing"
    assert told[2]["content"] == [
        _text("Shown by the tool call a:"),
        {"type": "image_url", "image_url": {"url": url}},
        _text("and?"),
    ]


def test_tools_that_would_be_searched_for_are_told_from_the_start() -> None:
    found = {"type": "tool_reference", "tool_name": "look"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [found]}
    told = to_chat(
        tools=[{"name": "look", "input_schema": {}, "defer_loading": True}],
        messages=[{"role": "user", "content": [result]}],
    )

    assert [tool["function"]["name"] for tool in told["tools"]] == ["look"]
    assert told["messages"][0]["content"] == "Found the tool look"


def test_a_tool_that_names_itself_is_told_without_its_name() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": ""}}
    told = to_messages(
        messages=[
            *HI,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "name": "look", "tool_call_id": "a", "content": "one"},
        ]
    )

    assert told["messages"][-1]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": [_text("one")],
    }


def test_a_conversation_in_which_nobody_says_anything_is_refused_for_that() -> None:
    with pytest.raises(InvalidRequestError, match=r"say something") as refused:
        to_messages(messages=[{"role": "user", "content": ""}])

    assert refused.value.param == "messages"


def test_what_is_turned_off_is_not_asked_for() -> None:
    off = {"enable_search": False, "plugins": [], "models": [], "mcp_servers": []}

    assert to_messages(**off) == to_messages()


def test_thoughts_are_not_told_to_another_provider() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "yes"}]}

    told = to_chat(messages=[*HI, said, *HI])

    assert told["messages"][1] == {"role": "assistant", "content": "yes"}


@pytest.mark.parametrize(
    ("budget", "effort"), [(1_024, "low"), (4_096, "medium"), (32_000, "high")]
)
def test_tokens_to_think_with_are_an_effort(budget: int, effort: str) -> None:
    thinking = {"type": "enabled", "budget_tokens": budget}

    assert to_chat(thinking=thinking)["reasoning_effort"] == effort
    assert "reasoning_effort" not in to_chat(thinking={"type": "disabled"})


def test_a_stream_of_chat_is_always_asked_for_its_usage() -> None:
    assert to_chat(stream=True)["stream_options"] == {"include_usage": True}


def test_hints_that_change_no_answer_are_left_out() -> None:
    told = to_messages(
        store=True, metadata={"a": "b"}, prompt_cache_key="k", n=1, logit_bias={}, seed=None
    )
    assert told.keys() == {"model", "max_tokens", "messages"}

    tool = {"name": "look", "input_schema": {}, "cache_control": {"type": "ephemeral"}}
    asked = to_chat(tools=[tool], cache_control={"type": "ephemeral"}, service_tier="auto")
    assert asked["tools"][0]["function"] == {"name": "look", "parameters": {}}
    assert "cache_control" not in asked


USER = "user"


@pytest.mark.requirement("model.translation-refuses-by-name")
@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("n", {"n": 2}),
        ("seed", {"seed": 7}),
        ("logprobs", {"logprobs": True}),
        ("frequency_penalty", {"frequency_penalty": 0.5}),
        ("temperature", {"temperature": 1.5}),
        ("service_tier", {"service_tier": "priority"}),
        ("response_format", {"response_format": {"type": "json_object"}}),
        ("reasoning_effort", {"reasoning_effort": "utmost"}),
        ("web_search_options", {"web_search_options": {}}),
        ("tool_choice", {"tools": [], "tool_choice": {"type": "allowed_tools"}}),
        ("tools.0", {"tools": [{"type": "custom", "custom": {"name": "x"}}]}),
        ("messages.0.name", {"messages": [{"role": USER, "content": "hi", "name": "Ada"}]}),
        ("messages.0.role", {"messages": [{"role": "function", "content": "hi"}]}),
        (
            "messages.0.content",
            {"messages": [{"role": USER, "content": [{"type": "input_audio"}]}]},
        ),
        ("messages", {"messages": [*HI, {"role": "assistant", "content": "The answer is"}]}),
    ],
)
def test_what_messages_cannot_be_told_is_refused_by_name(param: str, fields: Fields) -> None:
    tools = [{"type": "function", "function": {"name": "look"}}]
    if fields.get("tools") == []:
        fields = {**fields, "tools": tools}

    with pytest.raises(InvalidRequestError, match=r"cannot be said") as refused:
        to_messages(**fields)

    assert refused.value.param == param
    assert str(refused.value).startswith(f"{param}: ")


@pytest.mark.requirement("model.translation-refuses-by-name")
@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("top_k", {"top_k": 5}),
        ("container", {"container": "c"}),
        ("speed", {"speed": "fast"}),
        ("inference_geo", {"inference_geo": "us"}),
        ("context_management", {"context_management": {"edits": [{"type": "clear_tool_uses"}]}}),
        ("output_config.task_budget", {"output_config": {"task_budget": {}}}),
        ("tools.0", {"tools": [{"type": "web_search_20260209", "name": "web_search"}]}),
        ("tool_choice", {"tools": [{"name": "x"}], "tool_choice": {"type": "some"}}),
        ("messages.0.content", {"messages": [{"role": USER, "content": [{"type": "odd"}]}]}),
        ("messages", {"messages": [*HI, {"role": "assistant", "content": "The answer is"}]}),
    ],
)
def test_what_chat_cannot_be_told_is_refused_by_name(param: str, fields: Fields) -> None:
    with pytest.raises(InvalidRequestError, match=r"cannot be said") as refused:
        to_chat(**fields)

    assert refused.value.param == param


@pytest.mark.parametrize("odd", [7, "text", None, [], {"type": []}, {"type": "image"}])
def test_blocks_of_any_shape_are_refused_and_never_break_the_translation(odd: object) -> None:
    for role in ("user", "assistant"):
        with pytest.raises(InvalidRequestError):
            to_chat(messages=[{"role": role, "content": [odd]}, *HI])
        with pytest.raises(InvalidRequestError):
            to_messages(messages=[{"role": role, "content": [odd]}, *HI])


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "content", "role", "name"]) | texts, inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(request_to_messages._TOLD - {"model"})), anything)
def test_a_field_of_chat_of_any_shape_is_translated_or_refused(name: str, value: object) -> None:
    with suppress(InvalidRequestError):
        to_messages(**{name: value})


@given(st.sampled_from(sorted(request_to_chat._TOLD - {"model"})), anything)
def test_a_field_of_messages_of_any_shape_is_translated_or_refused(
    name: str, value: object
) -> None:
    with suppress(InvalidRequestError):
        to_chat(**{name: value})

"""Requests, streams and answers in which something is not what the format says."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from governor.tiers import Extra
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.measured import Measured
from runtime.model_gateway.metering import heard_of
from runtime.model_gateway.wires.sse import data_of, object_of
from tests.model_upstream.chat_goldens import completion
from tests.model_upstream.embeddings_goldens import embeddings
from tests.model_upstream.golden import Golden, compact
from tests.model_upstream.messages_goldens import message
from tests.model_upstream.responses_goldens import whole
from tests.runtime.model_gateway.wires.makers import (
    GOLDENS,
    WIRES,
    a_tier,
    parsed,
    payload_of,
    sent,
)

ODD = (None, True, -1, 0, 3, 2**70, 1.5, "", "x" * 50, "\ud83d", [], [None], [[]], {}, {"": {}})
ANSWERS: dict[str, Any] = {
    "openai_chat": completion(),
    "anthropic_messages": message(),
    "openai_responses": whole(),
    "openai_embeddings": embeddings([0.5]),
}
SIMPLE: dict[str, dict[str, object]] = {
    "openai_chat": {"messages": [{"role": "user", "content": "x"}]},
    "anthropic_messages": {"messages": [{"role": "user", "content": "x"}]},
    "openai_responses": {"input": "x"},
    "openai_embeddings": {"input": "x"},
}
NOTES = (None, "Be quick.")
PNG = "data:image/png;base64,iVBORw0KGgo="
ASKED: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": [
            {"role": "system", "content": "x"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "max_tokens": 9,
        "n": 2,
        "stream_options": {"include_usage": True},
    },
    "anthropic_messages": {
        "max_tokens": 9,
        "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "f", "input_schema": {}}],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "context_management": {"edits": [{"type": "clear_x"}]},
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo="}},
                    {"type": "document", "source": {"type": "content", "content": []}},
                    {"type": "tool_result", "content": [{"type": "tool_reference"}]},
                    {"type": "web_fetch_tool_result", "content": {"content": {"type": "text"}}},
                ],
            }
        ],
    },
    "openai_responses": {
        "input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": PNG}]},
            {"type": "computer_call_output", "output": {"type": "computer_screenshot"}},
            {"type": "reasoning", "encrypted_content": "x"},
        ],
        "tools": [{"type": "namespace", "tools": [{"type": "shell", "environment": {}}]}],
        "prompt_cache_options": {"ttl": "30m"},
        "text": {"format": {}},
        "instructions": "x",
    },
    "openai_embeddings": {"input": ["a", [1, 2]]},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything within a value."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


def made_odd(value: Any, data: st.DataObject) -> Any:
    """Return a value with one thing in it replaced, or taken out."""
    odd = copy.deepcopy(value)
    *path, last = data.draw(st.sampled_from(sorted(places(value), key=repr)))
    holder = odd
    for key in path:
        holder = holder[key]
    if isinstance(holder, dict) and data.draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = data.draw(st.sampled_from(ODD))
    return odd


def written(value: Any) -> bytes:
    try:
        return compact(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


@given(st.data())
def test_a_request_however_odd_is_sent_on_or_refused_by_the_name_of_its_field(
    data: st.DataObject,
) -> None:
    name = data.draw(st.sampled_from(sorted(ASKED)))
    wire, fields = WIRES[name], made_odd({"model": "low", **ASKED[name]}, data)
    extras = data.draw(st.sampled_from([frozenset[Extra](), frozenset(Extra)]))
    tier = a_tier(extras=extras, context_tokens_max=data.draw(st.sampled_from([None, 9_999])))

    refused = payload = None
    try:
        payload = wire.payload(parsed(wire, fields), tier, note=data.draw(st.sampled_from(NOTES)))
    except InvalidRequestError as error:
        refused = error

    if refused is not None:
        assert refused.param is not None or "surrogate" in str(refused)
    if payload is not None:
        assert payload.input_tokens_max > 0
        assert isinstance(sent(payload), dict)


@given(st.data())
def test_no_event_however_odd_breaks_a_meter_or_what_it_says_last(data: st.DataObject) -> None:
    golden: Golden = data.draw(st.sampled_from(GOLDENS))
    payload = payload_of(golden)
    meter = WIRES[golden.wire].meter(payload, keeps_text=data.draw(st.booleans()))
    at = data.draw(st.integers(0, len(golden.events) - 1))
    value = object_of(data_of(golden.events[at]))
    for number, event in enumerate(golden.events):
        heard = event
        if number == at and value is not None:
            heard = b"event: x\ndata: " + written(made_odd(value, data)) + b"\n\n"
        meter.hear(heard)
        tokens = heard_of(meter, payload, a_tier(), why="")
        ending = meter.cut(tokens if isinstance(tokens, Measured) else None)

        for last in (ending, meter.failure("It broke.", code="broke")):
            for said in last.split(b"\n\n"):
                shown = data_of(said)
                assert shown in (b"", b"[DONE]") or object_of(shown) is not None


@given(st.data())
def test_no_answer_however_odd_breaks_a_wire(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ANSWERS)))
    wire = WIRES[name]
    payload = wire.payload(parsed(wire, {"model": "low", **SIMPLE[name]}), a_tier())
    content = written(made_odd(ANSWERS[name], data))

    served = wire.served(content, payload, keeps_text=data.draw(st.booleans()))

    assert isinstance(served.fault, str)

"""Requests that cannot be served: each answer names the field and the way out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import AMOUNT_MAX, Unit
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.metering import estimate_of
from runtime.model_gateway.request import (
    CHOICES_MAX,
    MESSAGES_MAX,
    TOOLS_MAX,
    parse_chat,
    payload_for,
)
from tests.runtime.model_gateway.bench import CHAT, House, price, tier

USER = {"role": "user", "content": "hi"}
TEXT = {"type": "text", "text": "hi"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://images.test/1.png"}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"stream": True}, "stream", "not served yet"),
        ({"model": None}, "model", "string"),
        ({"model": ""}, "model", "at least 1"),
        ({"model": "m" * 201}, "model", "at most 200"),
        ({"messages": None}, "messages", "list"),
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [USER] * (MESSAGES_MAX + 1)}, "messages", f"at most {MESSAGES_MAX}"),
        ({"messages": ["hi"]}, "messages.0", "dictionary"),
        ({"messages": [{"content": "hi"}]}, "messages.0.role", "required"),
        ({"messages": [{**USER, "content": 7}]}, "messages.0.content", "string"),
        ({"messages": [{**USER, "content": [IMAGE]}]}, "messages.0.content", "only text"),
        ({"tools": {}}, "tools", "list"),
        ({"tools": [{}] * (TOOLS_MAX + 1)}, "tools", f"at most {TOOLS_MAX}"),
        ({"n": 0}, "n", "greater"),
        ({"n": CHOICES_MAX + 1}, "n", "less"),
        ({"n": True}, "n", "integer"),
        ({"max_tokens": 1.0}, "max_tokens", "integer"),
        ({"max_completion_tokens": -1}, "max_completion_tokens", "greater"),
        ({"audio": {"voice": "x"}}, "audio", "price"),
        ({"prediction": {"type": "content"}}, "prediction", "price"),
        ({"web_search_options": {}}, "web_search_options", "price"),
        ({"models": ["dearer"]}, "models", "price"),
        ({"plugins": [{"id": "web"}]}, "plugins", "price"),
        ({"provider": {"order": ["x"]}}, "provider", "price"),
        ({"future": 0}, "future", "price"),
        ({"tools": [{"type": "web_search"}]}, "tools", 'of type "function"'),
        ({"tools": [{"type": "function", "cache_control": {}}]}, "tools", "cache_control"),
        ({"messages": [{**USER, "cache_control": {}}]}, "messages.0", "cache_control"),
        ({"messages": [{**USER, "audio": {"id": "a"}}]}, "messages.0", "audio"),
        (
            {"messages": [{**USER, "content": [{**TEXT, "cache_control": {}}]}]},
            "messages.0.content",
            "cache_control",
        ),
        ({"modalities": ["text", "audio"]}, "modalities", "text"),
        ({"service_tier": "priority"}, "service_tier", "cost more"),
        ({"service_tier": ["x"]}, "service_tier", "cost more"),
    ],
)
async def test_a_field_that_cannot_be_served_is_named(
    house: House, fields: dict[str, object], param: str, says: str
) -> None:
    response = await house.chat(**fields)

    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert says in error["message"]
    assert house.requests == []
    assert house.ledger.records == []


@pytest.mark.anyio
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff\xfe\xfa"])
async def test_a_body_that_is_no_json_object_is_a_400(house: House, body: bytes) -> None:
    response = await house.client.post(CHAT, content=body)

    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "value",
    [
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"9" * 5000,
        b'"\\ud800"',
        b"[" * 101 + b"]" * 101,
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
async def test_a_value_that_not_every_json_reader_takes_is_a_400(
    house: House, value: bytes
) -> None:
    rest = json.dumps({"model": "low", "messages": [USER]}).encode()
    response = await house.client.post(CHAT, content=b'{"user": ' + value + b", " + rest[1:])

    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert house.requests == []
    assert house.ledger.records == []


@pytest.mark.anyio
@pytest.mark.parametrize("header", ["Flyball-Session", "Flyball-Turn", "Idempotency-Key"])
async def test_a_context_that_is_too_long_is_a_400(house: House, header: str) -> None:
    response = await house.chat(headers={header: "x" * 201})

    assert response.status_code == 400
    assert header.lower() in response.json()["error"]["message"]


@pytest.mark.anyio
async def test_what_costs_no_more_is_let_through(house: House) -> None:
    response = await house.chat(
        stream=False, service_tier="flex", modalities=["text"], audio=None, stop=["x"]
    )

    assert response.status_code == 200
    assert house.sent["service_tier"] == "flex"


def test_an_estimate_that_no_budget_could_hold_is_still_a_number() -> None:
    dear = tier(priced=price(input_usd=1, output_usd=1_000_000), output_tokens_max=AMOUNT_MAX)
    request = parse_chat(json.dumps({"model": "low", "messages": [USER], "n": 128}).encode())

    estimate = estimate_of(payload_for(request, dear), dear, timeout_ms=1)

    assert estimate.of(Unit.COST_MICROUSD) == AMOUNT_MAX


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(fields=st.dictionaries(st.sampled_from(["n", "tools", "max_tokens", "x", "user"]), JSON))
def test_any_body_is_either_refused_or_bounded(fields: dict[str, Any]) -> None:
    body = {"model": "low", "messages": [USER], **fields}
    try:
        payload = payload_for(parse_chat(json.dumps(body).encode()), tier())
    except InvalidRequestError:
        return

    sent = json.loads(payload.content)
    caps = [sent[name] for name in ("max_tokens", "max_completion_tokens") if name in sent]
    assert caps
    assert all(1 <= cap <= 100 for cap in caps)
    assert payload.output_tokens_max == max(caps) * (sent.get("n") or 1)
    assert payload.input_tokens_max > len(payload.content)

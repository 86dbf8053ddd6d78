"""Requests that cannot be served: each answer names the field and the way out."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import AMOUNT_MAX, Unit
from governor.ids import TierName
from governor.tiers import Extra
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.metering import estimate_of
from runtime.model_gateway.wires.openai_chat import OpenAIChat
from runtime.model_gateway.wires.openai_chat_request import (
    CHOICES_MAX,
    MESSAGES_MAX,
    TOOLS_MAX,
    parse_chat,
)
from tests.runtime.model_gateway.bench import CHAT, House, open_house, price, tier

USER = {"role": "user", "content": "hi"}
SOUND = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
FILE = {"type": "file", "file": {"file_id": "file-1"}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"stream": "yes"}, "stream", "true or false"),
        ({"stream_options": []}, "stream_options", "object"),
        ({"model": None}, "model", "1 to 200 characters"),
        ({"model": ""}, "model", "1 to 200 characters"),
        ({"model": "m" * 201}, "model", "1 to 200 characters"),
        ({"messages": None}, "messages", "at least one"),
        ({"messages": {}}, "messages", "list"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": [USER] * (MESSAGES_MAX + 1)}, "messages", f"at most {MESSAGES_MAX}"),
        ({"messages": ["hi"]}, "messages.0", "object"),
        ({"messages": [{"content": "hi"}]}, "messages.0.role", "required"),
        ({"messages": [{**USER, "role": "r" * 33}]}, "messages.0.role", "short"),
        ({"messages": [{**USER, "content": 7}]}, "messages.0.content", "string"),
        ({"messages": [{**USER, "content": ["hi"]}]}, "messages.0.content", "object"),
        ({"messages": [{**USER, "content": [SOUND]}]}, "messages.0.content", "sound has a price"),
        ({"messages": [{**USER, "content": [FILE]}]}, "messages.0.content", "bounded"),
        ({"messages": [{**USER, "content": [{"type": "image_url"}]}]}, "messages.0.content", "url"),
        ({"tools": {}}, "tools", "list"),
        ({"tools": [7]}, "tools.0", "object"),
        ({"tools": [{}] * (TOOLS_MAX + 1)}, "tools", f"at most {TOOLS_MAX}"),
        ({"n": 0}, "n", "from 1"),
        ({"n": CHOICES_MAX + 1}, "n", f"at most {CHOICES_MAX}"),
        ({"n": True}, "n", "whole number"),
        ({"max_tokens": 1.0}, "max_tokens", "whole number"),
        ({"max_completion_tokens": -2}, "max_completion_tokens", "from 1"),
        ({"audio": {"voice": "x"}}, "audio", "price"),
        ({"prediction": {"type": "content"}}, "prediction", "billed besides"),
        ({"web_search_options": {}}, "web_search_options", "bills"),
        ({"models": ["dearer"]}, "models", "price"),
        ({"plugins": [{"id": "web"}]}, "plugins", "bills"),
        ({"provider": {"order": ["x"]}}, "provider", "price"),
        ({"tools": [{"type": "web_search"}]}, "tools", "provider runs this itself"),
        ({"messages": [{**USER, "audio": {"id": "a"}}]}, "messages.0", "price"),
        ({"modalities": ["text", "audio"]}, "modalities", "price"),
        ({"service_tier": "priority"}, "service_tier", "charges more"),
        ({"service_tier": ["x"]}, "service_tier", "charges more"),
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
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_no_limit_of_the_clients_leaves_the_tiers_own(house: House, name: str) -> None:
    response = await house.chat(**{name: -1})

    assert response.status_code == 200
    assert house.sent["max_completion_tokens"] == 100
    assert "max_tokens" not in house.sent


@pytest.mark.anyio
async def test_what_is_turned_off_costs_nothing_more(house: House) -> None:
    response = await house.chat(enable_search=False, plugins=[], models=[], mcp_servers=[])

    assert response.status_code == 200


@pytest.mark.anyio
async def test_sound_is_served_where_the_tier_says_so_and_not_where_its_window_is_known() -> None:
    silent = replace(tier(), context_tokens_max=1_000)
    hearing = replace(silent, name=TierName("ear"), extras=frozenset({Extra.AUDIO}))
    async with open_house(tiers=(silent, hearing)) as house:
        body = {"messages": [{**USER, "content": [SOUND]}]}
        refused, served = await house.chat(**body), await house.chat(model="ear", **body)

    assert (refused.status_code, served.status_code) == (400, 200)
    assert "sound has a price" in refused.json()["error"]["message"]


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
    image = {"type": "image_url", "image_url": {"url": "https://images.test/1.png"}}
    tool = {"type": "custom", "custom": {"name": "t"}, "strict": True}
    response = await house.chat(
        messages=[{**USER, "content": [image], "name": "ada", "future": [1]}],
        tools=[tool],
        stream=False,
        service_tier="flex",
        modalities=["text"],
        audio=None,
        stop=["x"],
        invented={"by": ["the", "provider"], "at": 1.5},
    )

    assert response.status_code == 200
    sent = house.sent
    assert sent["service_tier"] == "flex"
    assert sent["invented"] == {"by": ["the", "provider"], "at": 1.5}
    assert sent["messages"] == [{**USER, "content": [image], "name": "ada", "future": [1]}]
    assert sent["tools"] == [tool]
    # An image takes more than its address does.
    assert house.record.estimate.of(Unit.INPUT_TOKENS) > len(house.requests[-1].content) + 1_000


def test_an_estimate_that_no_budget_could_hold_is_still_a_number() -> None:
    dear = tier(priced=price(input_usd=1, output_usd=1_000_000), output_tokens_max=AMOUNT_MAX)
    request = parse_chat(json.dumps({"model": "low", "messages": [USER], "n": 128}).encode())

    estimate = estimate_of(OpenAIChat().payload(request, dear), dear, timeout_ms=1)

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
        payload = OpenAIChat().payload(parse_chat(json.dumps(body).encode()), tier())
    except InvalidRequestError:
        return

    sent = json.loads(payload.content)
    caps = [sent[name] for name in ("max_tokens", "max_completion_tokens") if name in sent]
    assert caps
    assert all(1 <= cap <= 100 for cap in caps)
    assert payload.output_tokens_max == max(caps) * (sent.get("n") or 1)
    assert payload.input_tokens_max > len(payload.content)

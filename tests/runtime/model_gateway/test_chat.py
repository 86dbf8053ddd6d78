"""Chats that are served: what goes out, what comes back, what is charged and kept."""

import json
from dataclasses import replace

import anyio
import httpx
import pytest

from governor.amounts import Unit
from governor.call import CallStatus
from governor.fairness.adaptive import Concurrency
from governor.fairness.gate import GateBounds
from governor.ids import TierName
from governor.pricing import ModelPrice
from governor.target import CallKind
from governor.tiers import TierRule
from governor.window import Fixed
from tests.runtime.model_gateway.bench import (
    CHAT,
    CLIENT_TOKEN,
    KEY,
    House,
    completion,
    open_house,
    tier,
)
from tool_gateway.contention import Contention
from tool_gateway.redaction import ArgumentsKept

pytestmark = pytest.mark.anyio

# Every call costs a small part of a micro-dollar.
TINY = ModelPrice(input_microusd_per_mtok=1, output_microusd_per_mtok=1)


async def test_a_chat_is_relayed_with_what_it_cost_and_what_remains(house: House) -> None:
    response = await house.chat()

    assert response.status_code == 200
    body = response.json()
    flyball = body.pop("flyball")
    assert body == completion()
    # Ten tokens in at one micro-dollar, five out at two.
    assert flyball["usage"]["cost_microusd"] == 20
    assert flyball["usage"]["input_tokens"] == 10
    assert flyball["usage"]["output_tokens"] == 5
    assert (flyball["tier"], flyball["why"]) == ("low", "named by the request")
    assert flyball["budget"][0]["remaining"] == 1_000_000 - 20
    assert response.headers["flyball-call"] == flyball["call_id"] == house.record.call_id
    assert response.headers["flyball-tier"] == "low"
    assert await house.ledger.spent() == (20, 0)


async def test_the_record_says_what_was_called_and_never_what_was_said(house: House) -> None:
    await house.chat("my diagnosis is private", tools=[{"type": "function"}], n=2)

    record = house.record
    assert (record.kind, record.status) == (CallKind.MODEL, CallStatus.OK)
    assert (record.name, record.backend) == ("small-1", "lab")
    assert record.rule == "tier low: named by the request"
    assert record.policy_version == "v1"
    assert record.price_version == "list-1"
    assert "diagnosis" not in repr(record)
    kept = json.loads(record.arguments)
    assert (kept["messages"], kept["tools"], kept["n"]) == (1, 1, 2)
    assert kept["body_bytes"] > 0


@pytest.mark.parametrize(
    ("kept", "shows"), [(ArgumentsKept.FULL, True), (ArgumentsKept.HASH, False)]
)
async def test_a_record_keeps_the_body_only_where_the_operator_wants_it(
    kept: ArgumentsKept, *, shows: bool
) -> None:
    async with open_house(kept=kept) as house:
        await house.chat("tell me about otters")

    assert ("otters" in house.record.arguments) is shows


async def test_the_provider_gets_the_tiers_model_and_every_field_that_is_served(
    house: House,
) -> None:
    await house.chat("ünïcode", temperature=0.5, seed=7, metadata={"a": "1"}, future=None)

    sent = house.sent
    assert sent["model"] == "small-1"
    assert sent["messages"] == [{"role": "user", "content": "ünïcode"}]
    assert (sent["temperature"], sent["seed"], sent["metadata"]) == (0.5, 7, {"a": "1"})
    assert sent["future"] is None
    assert house.requests[-1].url.path == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, {"max_completion_tokens": 100}),
        ({"max_completion_tokens": None}, {"max_completion_tokens": 100}),
        ({"max_completion_tokens": 7}, {"max_completion_tokens": 7}),
        ({"max_completion_tokens": 5000}, {"max_completion_tokens": 100}),
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"max_tokens": 5000}, {"max_tokens": 100}),
        (
            {"max_tokens": 5, "max_completion_tokens": 5000},
            {"max_tokens": 5, "max_completion_tokens": 100},
        ),
    ],
)
async def test_the_output_is_capped_by_the_tier(
    house: House, asked: dict[str, object], sent: dict[str, int]
) -> None:
    await house.chat(**asked)

    caps = {name: house.sent[name] for name in house.sent if name.startswith("max_")}
    assert caps == sent
    assert house.record.estimate.of(Unit.OUTPUT_TOKENS) == max(sent.values())


async def test_each_choice_is_held_for(house: House) -> None:
    await house.chat(n=3, max_tokens=10)

    assert house.record.estimate.of(Unit.OUTPUT_TOKENS) == 30


async def test_the_hold_covers_every_byte_that_is_sent_and_the_dearest_output(
    house: House,
) -> None:
    await house.chat("語" * 1000, response_format={"type": "json_schema", "schema": "x" * 500})

    estimate = house.record.estimate
    bytes_sent = len(house.requests[-1].content)
    assert bytes_sent > 3 * 1000 + 500
    assert estimate.of(Unit.INPUT_TOKENS) > bytes_sent
    assert estimate.of(Unit.COST_MICROUSD) == estimate.of(Unit.INPUT_TOKENS) + 2 * 100
    assert estimate.of(Unit.WALL_MS) == 60_000


async def test_a_cost_is_rounded_up_to_a_whole_micro_dollar() -> None:
    async with open_house(tiers=(tier(priced=TINY),)) as house:
        house.budget(cost_microusd=1000)
        await house.chat()
        await house.chat()

        assert await house.ledger.spent() == (2, 0)


async def test_the_clients_authorization_stays_here_and_the_key_goes_only_to_the_provider(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)

    async def echo(request: httpx.Request) -> httpx.Response:
        seen = request.headers["authorization"]
        return httpx.Response(200, json=completion(echoed=seen))

    house.handler = echo
    response = await house.chat(headers={"X-Api-Key": CLIENT_TOKEN, "Cookie": "a=b"})

    request = house.requests[-1]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert CLIENT_TOKEN not in repr(request.headers.raw)
    assert "cookie" not in request.headers
    for place in (response.text, repr(response.headers), caplog.text, repr(house.ledger.records)):
        assert KEY not in place
    assert response.json()["echoed"] == "Bearer [redacted]"


async def test_a_key_in_a_refusal_is_not_passed_on(house: House) -> None:
    house.provider_answers(400, json={"error": {"message": f"what is {KEY}?"}})

    response = await house.chat()

    assert response.json()["error"]["message"] == "what is [redacted]?"
    assert KEY not in repr(house.ledger.records)


async def test_one_callers_cookie_does_not_ride_on_the_next_call(house: House) -> None:
    house.provider_answers(json=completion(), headers={"Set-Cookie": "who=first; Path=/"})

    await house.chat()
    await house.chat()

    assert "cookie" not in house.requests[-1].headers


async def test_a_turn_that_is_named_is_charged_once(house: House) -> None:
    house.budget(turns=2)

    for _ in range(3):
        assert (await house.chat(headers={"Flyball-Turn": "t1"})).status_code == 200

    assert await house.ledger.spent(Unit.TURNS) == (1, 0)
    assert house.record.turn == "t1"


async def test_a_request_that_names_no_turn_starts_one_of_its_own(house: House) -> None:
    house.budget(turns=2)

    answers = [await house.chat() for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert house.ledger.records[0].turn == house.ledger.records[0].call_id


async def test_auto_goes_by_the_rules_and_says_which_one() -> None:
    tiers = (tier(), tier("high", model="large-1"))
    rules = (
        TierRule(tier=TierName("high"), keywords=("prove",)),
        TierRule(tier=TierName("high"), has_tools=True),
    )
    async with open_house(tiers=tiers, rules=rules) as house:
        plain = (await house.chat(model="auto")).json()["flyball"]
        word = (await house.chat("PROVE it", model="auto")).json()["flyball"]
        tools = (await house.chat(model="auto", tools=[{"type": "function"}])).json()["flyball"]
        named = (await house.chat(model="large-1")).json()["flyball"]

    assert (plain["tier"], plain["why"]) == ("low", "default tier")
    assert (word["tier"], word["why"]) == ("high", "rule 1")
    assert (tools["tier"], tools["why"]) == ("high", "rule 2")
    assert (named["tier"], named["why"]) == ("high", "model named by the request")
    assert house.sent["model"] == "large-1"


async def test_auto_reads_the_last_user_message_in_parts_and_measures_all() -> None:
    rules = (
        TierRule(tier=TierName("high"), keywords=("sonnet",), prompt_chars_min=500),
        TierRule(tier=TierName("low"), keywords=("sonnet",)),
    )
    system = {"role": "system", "content": "x" * 500}
    last = {"role": "user", "content": [{"type": "text", "text": "A Sonnet"}]}
    async with open_house(tiers=(tier("low"), tier("high")), rules=rules) as house:
        short = await house.chat(model="auto", messages=[last])
        long = await house.chat(model="auto", messages=[system, last])

    assert short.json()["flyball"]["tier"] == "low"
    assert long.json()["flyball"]["tier"] == "high"


async def test_the_models_are_the_tiers_auto_and_what_stands_behind_them() -> None:
    tiers = (tier(), tier("high", model="large-1", priced=None), tier("alias", model="large-1"))
    async with open_house(tiers=tiers) as house:
        body = (await house.client.get("/v1/models")).json()

    listed = {entry["id"]: entry["flyball"] for entry in body["data"]}
    assert list(listed) == ["low", "high", "alias", "auto", "small-1", "large-1"]
    assert listed["low"]["price"]["output_microusd_per_mtok"] == 2_000_000
    assert listed["high"]["price"] is None
    assert listed["large-1"]["tier"] == "high"


async def test_each_of_the_models_is_told_of_alone() -> None:
    tiers = (tier(), tier("high", model="makers/large-1"))
    async with open_house(tiers=tiers) as house:
        listed = (await house.client.get("/v1/models")).json()["data"]
        names = [entry["id"] for entry in listed]
        alone = [(await house.client.get(f"/v1/models/{name}")).json() for name in names]

        unknown = await house.client.get("/v1/models/gpt-9")

    assert unknown.status_code == 404
    assert unknown.json()["error"]["code"] == "model_not_found"
    assert "makers/large-1" in names
    assert alone == listed


async def test_without_tiers_nothing_is_listed_and_nothing_is_served() -> None:
    async with open_house(tiers=()) as house:
        assert (await house.client.get("/v1/models")).json()["data"] == []
        assert (await house.chat(model="auto")).status_code == 404


async def test_a_short_budget_is_a_429_that_names_it_and_sends_nothing(house: House) -> None:
    house.budget(cost_microusd=50)

    response = await house.chat()

    assert response.status_code == 429
    body = response.json()
    assert body["error"]["type"] == "flyball_denied"
    assert body["error"]["code"] == "budget_exhausted"
    assert body["error"]["param"] is None
    denial = body["flyball"]["denial"]
    assert (denial["budget_id"], denial["limit"], denial["used"]) == ("money", 50, 0)
    assert denial["remedy"]["text"] == body["error"]["message"]
    assert "retry-after" not in response.headers
    assert response.headers["x-should-retry"] == "false"
    assert house.requests == []
    assert house.record.status is CallStatus.DENIED
    assert house.record.call_id == body["flyball"]["call_id"]


async def test_a_denial_that_resets_says_when_to_come_back(house: House) -> None:
    house.budget(Fixed(60_000), turns=1)
    await house.chat()

    response = await house.chat()

    assert 0 < int(response.headers["retry-after"]) <= 60
    assert "x-should-retry" not in response.headers


async def test_a_tier_without_a_price_is_denied_and_never_free() -> None:
    async with open_house(tiers=(tier(priced=None),)) as house:
        response = await house.chat()

    assert response.status_code == 429
    assert response.json()["error"]["code"] == "unpriced"
    assert response.json()["flyball"]["denial"]["reason"] == "unpriced"
    assert house.requests == []
    assert house.record.status is CallStatus.DENIED


async def test_a_closed_session_is_denied(house: House) -> None:
    await house.chat(headers={"Flyball-Session": "one"})
    house.ledger.close_session(house.record.chain.session)

    response = await house.chat(headers={"Flyball-Session": "one"})

    assert response.status_code == 429
    assert response.json()["error"]["code"] == "session_closed"


async def test_a_key_of_a_count_is_none_of_the_message_that_was_counted() -> None:
    body = {"model": "low", "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
    tiers = (replace(tier(), wires=("anthropic_messages",)),)
    async with open_house(tiers=tiers) as house:
        house.provider_answers(json={"input_tokens": 3})
        key = {"Idempotency-Key": "k1"}
        counted = await house.client.post("/v1/messages/count_tokens", json=body, headers=key)
        asked = await house.client.post("/v1/messages", json=body, headers=key)

    assert counted.status_code == 200
    assert asked.status_code == 409
    assert "used before with another request" in asked.json()["error"]["message"]


async def test_the_same_key_and_request_are_not_run_twice(house: House) -> None:
    first = await house.chat("a", headers={"Idempotency-Key": "k1"})
    again = await house.chat("a", headers={"Idempotency-Key": "k1"})
    other = await house.chat("b", headers={"Idempotency-Key": "k1"})

    assert (first.status_code, again.status_code, other.status_code) == (200, 409, 409)
    assert again.json()["error"]["code"] == "idempotency_outcome_not_kept"
    assert again.json()["flyball"]["call_id"] == first.headers["flyball-call"]
    assert other.json()["error"]["code"] == "idempotency_key_reused"
    # The official clients would try a 409 again.
    assert again.headers["x-should-retry"] == other.headers["x-should-retry"] == "false"
    assert len(house.requests) == 1


async def test_an_unknown_model_is_a_404_in_the_clients_own_words(house: House) -> None:
    response = await house.chat(model="gpt-9")

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert response.json()["error"]["param"] == "model"
    assert house.requests == []


@pytest.mark.requirement("model.nothing-beside-the-budget")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", CHAT, 405, "method_not_allowed"),
        ("OPTIONS", CHAT, 405, "method_not_allowed"),
        ("TRACE", CHAT, 405, "method_not_allowed"),
        ("POST", f"{CHAT}/", 404, "not_found"),
        ("POST", f"{CHAT}/chatcmpl-1", 404, "not_found"),
        ("POST", "/v1//chat/completions", 404, "not_found"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/v1/audio/speech", 404, "not_found"),
        ("POST", "/v1/images/generations", 404, "not_found"),
        ("POST", "/v1/batches", 404, "not_found"),
        ("POST", "/v1/responses/resp_1/cancel", 404, "not_found"),
        ("GET", "/v1/embeddings", 405, "method_not_allowed"),
        ("DELETE", "/v1/files/f", 404, "not_found"),
    ],
)
async def test_what_is_not_served_under_v1_is_told_in_openais_envelope(
    house: House, method: str, path: str, status: int, code: str
) -> None:
    response = await house.client.request(method, path)

    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert "POST /v1/chat/completions" in response.json()["error"]["message"]
    assert house.requests == []


@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/messages"])
async def test_what_is_not_served_below_messages_is_told_in_anthropics_envelope(
    house: House, path: str
) -> None:
    response = await house.client.get(path)

    assert response.status_code in (404, 405)
    assert response.json()["type"] == "error"
    assert response.json()["error"]["type"] in ("not_found_error", "invalid_request_error")


@pytest.mark.requirement("contention.no-hold-waits")
async def test_a_chat_waits_for_its_provider_without_a_hold_and_is_refused_past_its_deadline() -> (
    None
):
    one = Concurrency(start=1, lowest=1, highest=1)
    terms = Contention(gate=GateBounds(concurrency=one))
    asked, may_answer = anyio.Event(), anyio.Event()

    async def answer_late(_request: httpx.Request) -> httpx.Response:
        asked.set()
        await may_answer.wait()
        return httpx.Response(200, json=completion())

    async with open_house(contention=terms) as house:
        house.budget(tool_calls=10, cost_microusd=1_000_000)
        house.handler = answer_late
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(house.chat, "first")
                await asked.wait()
                _, held_by_one = await house.ledger.spent()
                late = await house.chat("late", headers={"Flyball-Deadline-Ms": "5"})
                _, held_then = await house.ledger.spent()
                may_answer.set()

    assert held_by_one == held_then > 0
    assert late.status_code == 429
    assert late.json()["flyball"]["denial"]["reason"] == "overloaded"
    assert late.headers["Retry-After"] == "1"


async def test_a_provider_that_refuses_for_its_rate_gets_fewer_calls_at_once(
    house: House,
) -> None:
    house.provider_answers(429, json={"error": {"message": "slow down"}})

    assert house.turnstile.limit_of(CallKind.MODEL, "lab") is None
    await house.chat()

    assert house.turnstile.limit_of(CallKind.MODEL, "lab") == 57

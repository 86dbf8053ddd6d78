"""Model calls that go on at another tier: admitted anew, and said to the client."""

from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from governor.amounts import Unit
from governor.breaker import BreakerTerms
from governor.call import CallStatus
from governor.ids import TierName
from governor.retrying import RetryTerms
from governor.tiers import ModelTier, TierRule, TierTimes
from runtime.model_gateway.attempts.care import CareTerms
from runtime.model_gateway.providers.spec import Timeouts
from tests.model_upstream.upstream import (
    Break,
    Play,
    Stall,
    an_upstream,
    answering,
    failing,
    streaming,
)
from tests.runtime.model_gateway.bench import (
    CHAT,
    House,
    Treated,
    open_house,
    price,
    tier,
)
from tests.runtime.model_gateway.troubled import (
    AT_ONCE,
    BROKEN,
    LIMITED,
    OVERLOADED,
    REFUSED,
    WELL,
    high,
    low,
    two_labs,
)

pytestmark = pytest.mark.anyio

COST = Unit.COST_MICROUSD
TOO_LONG = failing(400, {"error": {"code": "context_length_exceeded", "message": "too long"}})
ERROR_IN_200 = answering({"error": {"message": "upstream", "code": 502}})
MALFORMED = failing(200, b"<html>")
# What the second tier charges for ten tokens in and five out.
HIGH_COST = 10 * 5 + 5 * 10


def content(text: str) -> bytes:
    return (
        b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'
        % text.encode()
    )


ENDING = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}\n\n',
    b"data: [DONE]\n\n",
)
ANTHROPIC_ERROR = b'data: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'
ERROR_EVENT = b'data: {"error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
STREAM = streaming([content("well"), *ENDING])


async def stream(house: House, **more: object) -> httpx.Response:
    body = {"model": "low", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    return await house.client.post(CHAT, json={**body, **more})


@pytest.mark.requirement("model.fallback-is-admitted-anew")
@pytest.mark.parametrize(
    ("play", "cause", "is_charged"),
    [
        (LIMITED, "rate_limited", False),
        (REFUSED, "key_refused", False),
        (failing(404, {"error": {"message": "no such model"}}), "not_served", False),
        (BROKEN, "failed", True),
        (ERROR_IN_200, "failed", True),
        (MALFORMED, "failed", True),
        (Play(steps=(b'{"choices"', Break())), "failed", True),
    ],
)
async def test_a_call_goes_on_at_the_tier_that_is_named_for_it(
    play: Play, cause: str, *, is_charged: bool
) -> None:
    with anyio.fail_after(60):
        async with two_labs(play) as (house, lab, other):
            response = await house.chat()
            first, second = house.ledger.records
            charged = first.estimate.of(COST) if is_charged else 0

            assert await house.ledger.spent() == (charged + HIGH_COST, 0)

    flyball = response.json()["flyball"]
    assert response.status_code == 200
    assert (len(lab.received), len(other.received)) == (1, 1)
    assert other.received[0].body["model"] == "big-1"
    assert flyball["tier"] == "high"
    assert flyball["why"] == f"fallback from low ({cause}); named by the request"
    assert flyball["fallback_after"] == [{"call_id": first.call_id, "tier": "low", "why": cause}]
    assert response.headers["flyball-fallback-after"] == f"low; {cause}"
    assert response.headers["flyball-call"] == second.call_id
    assert second.rule == f"tier high: fallback from low ({cause}); named by the request"
    assert first.turn == second.turn


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_clients_own_mistake_is_taken_to_nobody_else(status: int) -> None:
    mistaken = failing(status, {"error": {"message": "what is this?"}})

    with anyio.fail_after(60):
        async with two_labs(mistaken) as (house, _, other):
            response = await house.chat()

            assert await house.ledger.spent() == (0, 0)

    assert response.status_code == status
    assert other.received == []


@pytest.mark.parametrize(("window", "status"), [(200_000, 200), (8_000, 400), (None, 400)])
async def test_a_prompt_that_is_too_long_goes_to_a_larger_window_alone(
    window: int | None, status: int
) -> None:
    tiers = (low("high", context_tokens_max=8_000), high(context_tokens_max=window))

    with anyio.fail_after(60):
        async with two_labs(TOO_LONG, tiers=tiers) as (house, _, other):
            response = await house.chat()

    assert response.status_code == status
    assert len(other.received) == (1 if status == 200 else 0)


@pytest.mark.requirement("model.fallback-is-admitted-anew")
async def test_a_fallback_that_no_budget_pays_for_gives_the_first_error_and_the_denial() -> None:
    with anyio.fail_after(60):
        async with two_labs(LIMITED, output_tokens_min=100) as (house, _, other):
            # Enough for the first tier, and not for one that is five times as dear.
            house.budget(cost_microusd=1_000)
            response = await house.chat()

            assert await house.ledger.spent() == (0, 0)

    assert response.status_code == 429
    assert response.json()["error"]["message"] == "slow down"
    assert response.headers["retry-after"] == "30"
    denial = response.json()["flyball"]["fallback_denial"]
    assert (denial["reason"], denial["unit"]) == ("budget_exhausted", "cost_microusd")
    assert other.received == []
    assert [record.status for record in house.ledger.records] == [
        CallStatus.UPSTREAM_FAILED,
        CallStatus.DENIED,
    ]


async def test_after_a_denied_fallback_the_next_one_is_asked() -> None:
    beyond = price(input_usd=5, output_usd=10_000)
    dear = replace(tier("dear", priced=beyond), provider="other")
    tiers = (low("dear", "high"), dear, high())

    with anyio.fail_after(60):
        async with two_labs(LIMITED, tiers=tiers, output_tokens_min=100) as (house, _, _other):
            house.budget(cost_microusd=10_000)
            response = await house.chat()

            assert await house.ledger.spent() == (HIGH_COST, 0)

    assert response.json()["flyball"]["tier"] == "high"
    assert response.headers["flyball-fallback-after"] == (
        "low; rate_limited, dear; budget_exhausted"
    )


async def test_when_everything_fails_the_client_has_the_last_failure_and_the_whole_way() -> None:
    with anyio.fail_after(60):
        async with two_labs(BROKEN, second=(LIMITED,)) as (house, lab, other):
            response = await house.chat()
            _, held = await house.ledger.spent()

    assert response.status_code == 429
    assert [leg["tier"] for leg in response.json()["flyball"]["fallback_after"]] == ["low"]
    assert (len(lab.received), len(other.received), held) == (1, 1, 0)


@pytest.mark.requirement("model.no-fallback-after-the-first-byte")
async def test_no_tier_takes_over_a_stream_that_the_client_has_a_part_of() -> None:
    broken = streaming([content("he")], Break())

    with anyio.fail_after(60):
        async with two_labs(broken) as (house, _, other):
            response = await stream(house)
            _, held = await house.ledger.spent()

    assert response.status_code == 200
    assert response.content.startswith(content("he"))
    assert b'"provider_failed"' in response.content
    assert other.received == []
    assert held == 0


@pytest.mark.parametrize(
    "play",
    [
        streaming([ERROR_EVENT]),
        streaming([], Break()),
        streaming([b"data: {nonsense\n\n"]),
        OVERLOADED,
        BROKEN,
    ],
)
async def test_a_stream_that_fails_before_its_first_event_is_taken_over(play: Play) -> None:
    once = CareTerms(retry=RetryTerms(retries=0))

    with anyio.fail_after(60):
        async with two_labs(play, second=(STREAM,), care=once) as (house, _, _other):
            response = await stream(house)
            _, held = await house.ledger.spent()

    assert response.status_code == 200
    assert response.headers["flyball-tier"] == "high"
    assert response.headers["flyball-fallback-after"].startswith("low; ")
    assert response.content == content("well") + ENDING[0] + ENDING[2]
    assert held == 0


async def test_an_error_as_the_first_event_is_an_error_where_there_is_no_other_tier() -> None:
    with anyio.fail_after(60):
        async with two_labs(streaming([ERROR_EVENT]), tiers=(low(),)) as (house, _, _other):
            response = await stream(house)

    assert response.status_code == 502
    assert response.json()["error"]["code"] == "provider_failed"


MESSAGE = answering(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "big-1",
        "content": [{"type": "text", "text": "well"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
)


async def test_a_call_goes_on_at_a_provider_of_another_wire_which_is_translated() -> None:
    tiers = (low("high"), high(wires=("anthropic_messages",)))

    with anyio.fail_after(60):
        async with two_labs(BROKEN, second=(MESSAGE,), tiers=tiers) as (house, _, other):
            response = await house.chat()
            held = house.ledger.records[0].estimate.of(COST)

            assert await house.ledger.spent() == (held + HIGH_COST, 0)

    assert response.json()["choices"][0]["message"]["content"] == "well"
    assert response.json()["flyball"]["why"].startswith("fallback from low (failed)")
    assert other.received[0].path == "/v1/messages"
    assert other.received[0].headers["x-api-key"].startswith("sk-other")


@pytest.mark.parametrize(
    "play",
    [
        failing(529, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
        streaming([b"event: error\n" + ANTHROPIC_ERROR]),
    ],
)
async def test_a_stream_goes_on_from_a_provider_of_another_wire(play: Play) -> None:
    tiers = (
        replace(low("high"), wires=("anthropic_messages",)),
        high(),
    )
    once = CareTerms(retry=RetryTerms(retries=0))

    with anyio.fail_after(60):
        async with two_labs(play, second=(STREAM,), tiers=tiers, care=once) as (house, _, _other):
            response = await stream(house)
            _, held = await house.ledger.spent()

    assert response.headers["flyball-fallback-after"] == "low; overloaded"
    assert response.content == content("well") + ENDING[0] + ENDING[2]
    assert held == 0


@pytest.mark.requirement("model.time-is-bounded")
async def test_a_first_token_is_waited_for_no_longer_than_the_tier_says() -> None:
    never = anyio.Event()
    impatient = low("high", times=TierTimes(first_ms=50))

    with anyio.fail_after(60):
        async with two_labs(
            streaming([], Stall(never)), second=(STREAM,), tiers=(impatient, high())
        ) as (house, _, _other):
            response = await stream(house)
            first = house.ledger.records[0]

            # Whether it was billed nobody knows, so it is charged what may have been written.
            used, held = await house.ledger.spent()
            assert HIGH_COST < used <= first.estimate.of(COST) + HIGH_COST
            assert held == 0

    assert response.headers["flyball-fallback-after"] == "low; timed_out"
    assert first.status is CallStatus.TIMED_OUT


@pytest.mark.requirement("model.time-is-bounded")
async def test_a_stream_that_stands_still_is_ended_between_two_tokens() -> None:
    never = anyio.Event()
    times = Timeouts(whole_ms=60_000, between_ms=50)

    with anyio.fail_after(60):
        async with two_labs(streaming([content("he")], Stall(never)), timeouts=times) as (
            house,
            _,
            other,
        ):
            response = await stream(house)
            _, held = await house.ledger.spent()

    assert b'"provider_timed_out"' in response.content
    assert house.record.status is CallStatus.TIMED_OUT
    assert (other.received, held) == ([], 0)


async def test_a_whole_answer_has_no_first_token_to_wait_for() -> None:
    impatient = low("high", times=TierTimes(first_ms=1))

    with anyio.fail_after(60):
        async with two_labs(*[WELL] * 9, tiers=(impatient, high())) as (house, _, _other):
            tiers = {(await house.chat()).headers["flyball-tier"] for _ in range(9)}

    assert tiers == {"low"}


@pytest.mark.requirement("model.breaker-leaves-a-provider-alone")
async def test_a_provider_that_is_left_alone_is_passed_over_by_fallbacks_and_by_auto() -> None:
    soon = BreakerTerms(calls_min=2, open_ms=60_000)
    rules = (TierRule(tier=TierName("low")),)

    with anyio.fail_after(60):
        async with two_labs(BROKEN, BROKEN, breaker=soon, rules=rules) as (house, lab, _):
            for _attempt in range(2):
                await house.chat()
            named = await house.chat()
            chosen = await house.chat(model="auto")

    assert len(lab.received) == 2
    assert named.json()["flyball"]["why"] == (
        "fallback from low (upstream_unavailable); named by the request"
    )
    assert chosen.json()["flyball"]["tier"] == "high"
    assert "fallback_after" not in chosen.json()["flyball"]


async def test_a_request_keeps_its_idempotency_key_where_nothing_was_consumed() -> None:
    headers = {"Idempotency-Key": "once"}

    with anyio.fail_after(60):
        async with (
            an_upstream(always=WELL) as other,
            open_house(
                base_url="http://127.0.0.1:1/v1",  # where nobody listens
                treated=Treated(others={"other": other.base_url}),
                tiers=(low("high"), high()),
            ) as house,
        ):
            house.budget(cost_microusd=1_000_000)
            first = await house.chat(headers=headers)
            again = await house.chat(headers=headers)

            assert await house.ledger.spent() == (HIGH_COST, 0)

    assert first.json()["flyball"]["why"].startswith("fallback from low (unreached)")
    assert again.status_code == 409
    assert again.json()["flyball"]["call_id"] == first.headers["flyball-call"]
    assert len(other.received) == 1


async def test_a_key_stays_with_the_call_that_may_have_been_billed() -> None:
    headers = {"Idempotency-Key": "once"}

    with anyio.fail_after(60):
        async with two_labs(BROKEN) as (house, lab, other):
            first = await house.chat(headers=headers)
            again = await house.chat(headers=headers)

    assert first.headers["flyball-tier"] == "high"
    assert again.status_code == 409
    assert again.json()["flyball"]["call_id"] == house.ledger.records[0].call_id
    assert (len(lab.received), len(other.received)) == (1, 1)


PLAYS = st.sampled_from(
    [
        WELL,
        LIMITED,
        REFUSED,
        OVERLOADED,
        BROKEN,
        ERROR_IN_200,
        MALFORMED,
        TOO_LONG,
        STREAM,
        failing(400, {"error": {"message": "no"}}),
        failing(402, {"error": {}}),
        failing(503, b"", Retry_After="0"),
        Play(steps=(b'{"choices"', Break())),
        streaming([ERROR_EVENT]),
        streaming([content("he")], Break()),
        streaming([content("he"), ERROR_EVENT]),
    ]
)


@pytest.mark.requirement("model.fallback-is-admitted-anew")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    first=st.lists(PLAYS, max_size=6),
    second=st.lists(PLAYS, max_size=6),
    asked=st.lists(st.sampled_from(["low", "high", "auto"]), min_size=1, max_size=4),
    limit=st.sampled_from([500, 2_000, 1_000_000]),
    terms=st.fixed_dictionaries(
        {
            "is_streamed": st.booleans(),
            "is_repeatable": st.booleans(),
            # After how many steps of the loop every client leaves; None stays to the end.
            "leaves_after": st.none() | st.integers(min_value=0, max_value=200),
        }
    ),
)
def test_whatever_fails_in_whatever_order_each_hold_ends_once_and_nothing_is_overrun(
    first: list[Play],
    second: list[Play],
    asked: list[str],
    limit: int,
    terms: dict[str, Any],
) -> None:
    anyio.run(_play, first, second, asked, limit, terms)


async def _play(
    first: list[Play],
    second: list[Play],
    asked: list[str],
    limit: int,
    terms: dict[str, Any],
) -> None:
    care = CareTerms(retry=AT_ONCE.retry, is_repeatable=terms["is_repeatable"])
    tiers: tuple[ModelTier, ...] = (low("high"), replace(high(), fallback=(TierName("low"),)))
    with anyio.fail_after(60):
        async with two_labs(*first, second=tuple(second), tiers=tiers, care=care) as (
            house,
            lab,
            other,
        ):
            house.budget(cost_microusd=limit)
            send = partial(stream, house) if terms["is_streamed"] else house.chat
            statuses: list[int] = []

            async def ask(model: str) -> None:
                statuses.append((await send(model=model)).status_code)

            async with anyio.create_task_group() as tasks:
                for model in asked:
                    tasks.start_soon(ask, model)
                if terms["leaves_after"] is not None:
                    for _step in range(terms["leaves_after"]):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
            used, held = await house.ledger.spent()
            ended = [record for record in house.ledger.records if record.denial is None]

    assert all(status in {200, 400, 404, 429, 502, 503, 504, 529} for status in statuses)
    assert held == 0
    assert used <= limit
    # Each tier is asked three times at the most for one request.
    assert len(lab.received) + len(other.received) <= 6 * len(asked)
    assert len({record.call_id for record in house.ledger.records}) == len(house.ledger.records)
    assert all(record.usage is not None or record.status is not CallStatus.OK for record in ended)

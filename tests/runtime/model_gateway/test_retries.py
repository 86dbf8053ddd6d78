"""Model calls that are sent again: only where nothing can have been billed, and once charged."""

import anyio
import httpx
import pytest

from governor.amounts import Unit
from governor.breaker import BreakerTerms
from governor.call import CallStatus
from governor.retrying import RetryTerms
from runtime.model_gateway.attempts.care import CareTerms
from tests.model_upstream.upstream import Break, Play, failing, streaming
from tests.runtime.model_gateway.bench import CHAT, House, Treated, completion, open_house
from tests.runtime.model_gateway.troubled import (
    AT_ONCE,
    BROKEN,
    LIMITED,
    OVERLOADED,
    REFUSED,
    WELL,
    low,
    two_labs,
)

pytestmark = pytest.mark.anyio

ALONE = (low(),)


@pytest.mark.requirement("model.retried-only-where-safe")
async def test_a_refusal_for_load_is_tried_again_and_charged_once() -> None:
    with anyio.fail_after(60):
        async with two_labs(OVERLOADED, OVERLOADED, WELL, tiers=ALONE) as (house, lab, _):
            response = await house.chat()

            assert await house.ledger.spent() == (20, 0)

    assert response.status_code == 200
    assert len(lab.received) == 3
    assert len(house.ledger.records) == 1
    assert house.record.status is CallStatus.OK
    assert "asked 3 times" in house.record.detail


@pytest.mark.parametrize("play", [BROKEN, failing(503, b"down"), failing(408, b"late")])
async def test_what_may_have_been_billed_is_not_sent_again(play: Play) -> None:
    with anyio.fail_after(60):
        async with two_labs(play, WELL, tiers=ALONE) as (house, lab, _):
            response = await house.chat()

            assert response.status_code == 502
            assert len(lab.received) == 1
            held = house.record.estimate.of(Unit.COST_MICROUSD)
            assert await house.ledger.spent() == (held, 0)


@pytest.mark.requirement("model.retries-are-bounded")
async def test_retries_end_after_a_number_of_them() -> None:
    with anyio.fail_after(60):
        async with two_labs(*[OVERLOADED] * 9, tiers=ALONE) as (house, lab, _):
            response = await house.chat()

            assert await house.ledger.spent() == (0, 0)

    assert response.status_code == 529
    assert len(lab.received) == 3


@pytest.mark.requirement("model.retries-are-bounded")
async def test_a_storm_of_refusals_is_answered_with_few_more_requests_than_calls() -> None:
    with anyio.fail_after(60):
        async with two_labs(*[OVERLOADED] * 200, tiers=ALONE) as (house, lab, _):
            for _ in range(40):
                await house.chat()

            assert await house.ledger.spent() == (0, 0)

    # Ten retries to begin with, one for five calls, and what the ticking clock brought.
    assert len(lab.received) <= 40 + 10 + 8 + 4


async def test_a_provider_that_comes_up_between_two_attempts_is_reached() -> None:
    calls = 0

    async def second_time(_request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if calls == 1:
            return httpx.Response(529, json={"error": {}})
        return httpx.Response(200, json=completion())

    with anyio.fail_after(60):
        async with open_house(treated=Treated(care=AT_ONCE)) as house:
            house.budget(cost_microusd=1_000_000)
            house.handler = second_time
            response = await house.chat()

    assert response.status_code == 200
    assert calls == 2


async def test_a_client_that_leaves_during_a_pause_has_used_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = CareTerms(retry=RetryTerms(retries=2, pause_ms=40_000, pause_ms_max=40_000))
    is_drawn = anyio.Event()

    def longest(bound: int) -> int:
        is_drawn.set()
        return bound - 1

    with anyio.fail_after(60):
        async with two_labs(OVERLOADED, tiers=ALONE, care=long) as (house, _, _other):
            monkeypatch.setattr(house.clock, "below", longest)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(house.chat)
                await is_drawn.wait()
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()

            assert await house.ledger.spent() == (0, 0)
            assert house.record.status is CallStatus.CANCELLED


async def test_what_may_have_been_billed_is_repeated_where_the_file_says_so_in_its_own_hold() -> (
    None
):
    told = CareTerms(retry=AT_ONCE.retry, is_repeatable=True)

    with anyio.fail_after(60):
        async with two_labs(BROKEN, WELL, tiers=ALONE, care=told) as (house, lab, _):
            response = await house.chat()
            first, second = house.ledger.records
            held = first.estimate.of(Unit.COST_MICROUSD)

            assert await house.ledger.spent() == (held + 20, 0)

    assert response.status_code == 200
    assert len(lab.received) == 2
    assert (first.status, second.status) == (CallStatus.UPSTREAM_FAILED, CallStatus.OK)
    assert first.turn == second.turn
    assert second.rule == "tier low: repeated after low (failed); named by the request"


async def test_repeated_calls_are_bounded_too() -> None:
    told = CareTerms(retry=AT_ONCE.retry, is_repeatable=True)

    with anyio.fail_after(60):
        async with two_labs(*[BROKEN] * 9, tiers=ALONE, care=told) as (house, lab, _):
            response = await house.chat()
            _, held = await house.ledger.spent()

    assert response.status_code == 502
    assert (len(lab.received), held) == (3, 0)


@pytest.mark.requirement("model.keys-rest")
async def test_a_key_that_is_limited_gives_way_to_the_next() -> None:
    with anyio.fail_after(60):
        async with two_labs(LIMITED, WELL, WELL, tiers=ALONE, keys=("key-a" * 4, "key-b" * 4)) as (
            house,
            lab,
            _,
        ):
            statuses = [(await house.chat()).status_code for _ in range(2)]

    sent = [request.headers["authorization"] for request in lab.received]
    assert statuses == [200, 200]
    assert sent == [f"Bearer {key * 4}" for key in ("key-a", "key-b", "key-b")]


@pytest.mark.requirement("model.keys-rest")
async def test_when_every_key_rests_the_client_is_told_when_to_come_back() -> None:
    with anyio.fail_after(60):
        async with two_labs(LIMITED, LIMITED, tiers=ALONE, keys=("a" * 20, "b" * 20)) as (
            house,
            lab,
            _,
        ):
            await house.chat()
            response = await house.chat()

            assert await house.ledger.spent() == (0, 0)

    assert len(lab.received) == 2
    assert response.status_code == 429
    assert response.json()["error"]["code"] == "provider_rate_limited"
    assert response.headers["retry-after"] == "30"
    assert house.record.status is CallStatus.RELEASED


@pytest.mark.requirement("model.refused-key-is-out")
async def test_a_refused_key_is_left_out_and_shown_and_taken_in_again() -> None:
    with anyio.fail_after(60):
        async with two_labs(REFUSED, WELL, WELL, WELL, tiers=ALONE, keys=("a" * 20, "b" * 20)) as (
            house,
            lab,
            _,
        ):
            for _ in range(2):
                assert (await house.chat()).status_code == 200
            shown = house.cares.of("lab").shown()["keys"]
            house.cares.readmit_keys()
            await house.chat()

    assert [(key["from"], key["state"]) for key in shown] == [("KEY_0", "out"), ("KEY_1", "ready")]
    used = [request.headers["authorization"][-1] for request in lab.received]
    assert used == ["a", "b", "b", "a"]


async def test_a_provider_that_refuses_its_only_key_is_not_asked_by_each_call() -> None:
    with anyio.fail_after(60):
        async with two_labs(*[REFUSED] * 9, tiers=ALONE) as (house, lab, _):
            answers = [await house.chat() for _ in range(5)]

    codes = {answer.json()["error"]["code"] for answer in answers}
    assert codes == {"provider_refused_credentials"}
    assert len(lab.received) == 2  # the first, and the one trial of this half minute


@pytest.mark.requirement("model.keys-are-never-shown")
async def test_no_key_of_a_pool_is_quoted_to_a_client() -> None:
    one, two = "sk-one-0123456789abcdef", "sk-two-0123456789abcdef"
    quoted = failing(400, {"error": {"message": f"not {one}, nor {two}"}})

    with anyio.fail_after(60):
        async with two_labs(quoted, tiers=ALONE, keys=(one, two)) as (house, _, _other):
            response = await house.chat()
            shown = str(house.cares.shown())

    assert response.json()["error"]["message"] == "not [redacted], nor [redacted]"
    assert one not in shown + house.record.detail
    assert two not in shown + house.record.detail


async def test_a_session_stays_with_the_key_that_knows_its_prompt() -> None:
    usage = {
        "prompt_tokens": 2_000,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1_920},
    }
    long = "x" * 4_000
    play = failing(200, completion(usage))

    with anyio.fail_after(60):
        async with two_labs(*[play] * 6, tiers=ALONE, keys=("a" * 20, "b" * 20)) as (
            house,
            lab,
            _,
        ):
            for name in ("ann", "bob", "bob", "ann", "ann", "bob"):
                headers = {"Flyball-Session": name}
                assert (await house.chat(long, headers=headers)).status_code == 200

    used = "".join(request.headers["authorization"][-1] for request in lab.received)
    assert used == "abbaab"


@pytest.mark.requirement("model.breaker-leaves-a-provider-alone")
async def test_a_provider_that_keeps_failing_is_left_alone_at_nobodys_cost() -> None:
    soon = BreakerTerms(calls_min=2, open_ms=60_000)

    with anyio.fail_after(60):
        async with two_labs(*[BROKEN] * 9, tiers=ALONE, breaker=soon) as (house, lab, _):
            for _ in range(2):
                await house.chat()
            spent = await house.ledger.spent()
            response = await house.chat()

            assert await house.ledger.spent() == spent

    assert len(lab.received) == 2
    assert response.status_code == 429
    assert response.json()["flyball"]["denial"]["reason"] == "upstream_unavailable"
    assert int(response.headers["retry-after"]) > 0


async def test_a_clients_own_mistakes_open_no_breaker() -> None:
    soon = BreakerTerms(calls_min=2)
    mistaken = failing(400, {"error": {"message": "no"}})

    with anyio.fail_after(60):
        async with two_labs(*[mistaken] * 6, WELL, tiers=ALONE, breaker=soon) as (house, _, _other):
            for _ in range(6):
                await house.chat()
            response = await house.chat()

    assert response.status_code == 200


async def stream(house: House, **more: object) -> httpx.Response:
    body = {"model": "low", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    return await house.client.post(CHAT, json={**body, **more})


def text_stream(*steps: Break) -> Play:
    events = [
        b'data: {"choices":[{"index":0,"delta":{"content":"he"},"finish_reason":null}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        b"data: [DONE]\n\n",
    ]
    return streaming(events[:1] if steps else events, *steps)


async def test_a_server_that_refuses_to_report_a_streams_usage_is_not_asked_for_it_again() -> None:
    refusal = failing(400, {"error": {"message": "Unknown field: stream_options"}})

    with anyio.fail_after(60):
        async with two_labs(refusal, text_stream(), text_stream(), tiers=ALONE) as (house, lab, _):
            responses = [await stream(house) for _ in range(2)]
            _, held = await house.ledger.spent()

    assert [response.status_code for response in responses] == [200, 200]
    asked = ["stream_options" in request.body for request in lab.received]
    assert asked == [True, False, False]
    assert held == 0


async def test_a_prompt_that_speaks_of_stream_options_teaches_nothing() -> None:
    quoting = failing(400, {"error": {"message": "bad message: 'stream_options'"}})

    with anyio.fail_after(60):
        async with two_labs(quoting, quoting, text_stream(), tiers=ALONE) as (house, lab, _):
            first, second = await stream(house), await stream(house)

    assert (first.status_code, second.status_code) == (400, 200)
    assert ["stream_options" in request.body for request in lab.received] == [True, False, True]


LAST_WORDS = [
    {"error": {"message": "Unsupported parameter: 'max_completion_tokens'. Use 'max_tokens'."}},
    {"detail": [{"loc": ["body", "max_completion_tokens"], "msg": "Extra inputs not permitted"}]},
]


@pytest.mark.parametrize("said", LAST_WORDS)
async def test_a_server_that_refuses_one_bound_of_the_output_is_sent_the_other(
    said: dict[str, object],
) -> None:
    with anyio.fail_after(60):
        async with two_labs(failing(422, said), WELL, WELL, tiers=ALONE) as (house, lab, _):
            answered = [await house.chat(max_completion_tokens=50) for _ in range(2)]
            _, held = await house.ledger.spent()

    assert [response.status_code for response in answered] == [200, 200]
    bounds = [
        {name: value for name, value in request.body.items() if name.startswith("max_")}
        for request in lab.received
    ]
    assert bounds == [{"max_completion_tokens": 50}, {"max_tokens": 50}, {"max_tokens": 50}]
    assert held == 0


async def test_a_bound_that_is_refused_for_its_value_is_not_sent_by_another_name() -> None:
    said = {"error": {"message": "max_completion_tokens is too large: 50"}}
    with anyio.fail_after(60):
        async with two_labs(failing(400, said), WELL, tiers=ALONE) as (house, lab, _):
            response = await house.chat(max_completion_tokens=50)

    assert response.status_code == 400
    assert len(lab.received) == 1

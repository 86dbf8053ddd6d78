"""Chats that go wrong: what is charged, what is kept, what the client is told."""

from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest

from governor.amounts import Unit
from governor.call import CallRecord, CallStatus
from governor.events import Settled
from governor.ids import ReservationId
from governor.usage import Usage
from runtime.model_gateway import persisting
from runtime.model_gateway.providers import pool
from tests.runtime.model_gateway.bench import House, answer_well, completion, open_house, tier

pytestmark = pytest.mark.anyio

COST = Unit.COST_MICROUSD


async def expect_charged_as_held(house: House, *, why: str) -> None:
    held = house.record.estimate
    assert held.of(COST) > 200
    assert await house.ledger.spent() == (held.of(COST), 0)
    assert house.record.usage is not None
    assert COST not in house.record.usage.measured
    assert why in house.record.usage.unmeasured[COST]


async def expect_bounded(house: House, *, why: str) -> None:
    """Expect the charge of the bytes that were sent and came: at most what was held."""
    record = house.record
    used, held = await house.ledger.spent()
    assert record.usage is not None
    assert held == 0
    assert len("hello") * 2 < used == record.usage.measured.of(COST) < record.estimate.of(COST)
    assert record.usage_source == "bound"
    assert why in record.detail


@pytest.mark.requirement("count.usage-that-lies")
@pytest.mark.parametrize(
    "usage",
    [
        "none of your business",
        [],
        {},
        {"prompt_tokens": 10},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 10, "completion_tokens": -5},
        {"prompt_tokens": 10.5, "completion_tokens": 5},
        {"prompt_tokens": "10", "completion_tokens": 5},
        {"prompt_tokens": True, "completion_tokens": 5},
        {"prompt_tokens": 10, "completion_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 5},
        {"prompt_tokens": 1_000_000, "completion_tokens": 5},
        {"prompt_tokens": 10**400, "completion_tokens": 5},
        {"prompt_tokens": 10, "completion_tokens": 10**400},
    ],
)
async def test_usage_that_cannot_be_true_is_bounded_by_the_bytes(
    house: House, usage: object
) -> None:
    house.provider_answers(json=completion(usage))

    response = await house.chat()

    assert response.status_code == 200
    assert house.record.status is CallStatus.OK
    assert response.json()["flyball"]["usage_source"] == "bound"
    await expect_bounded(house, why="the provider")


@pytest.mark.parametrize("total", ["15", -1, 10**30, 7.5])
async def test_a_total_that_cannot_be_true_takes_nothing_from_what_can(
    house: House, total: object
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": total}
    house.provider_answers(json=completion(usage))

    await house.chat()

    assert await house.ledger.spent() == (10 + 2 * 5, 0)
    assert house.record.usage_source == "provider"
    assert "total_tokens" in house.record.detail


async def test_an_answer_without_usage_is_bounded_by_its_bytes(house: House) -> None:
    answer = completion()
    del answer["usage"]
    house.provider_answers(json=answer)

    response = await house.chat()

    assert response.status_code == 200
    await expect_bounded(house, why="the provider reported no usage")


async def test_more_output_than_was_allowed_is_an_overrun_that_is_charged(house: House) -> None:
    house.provider_answers(json=completion({"prompt_tokens": 10, "completion_tokens": 9_000}))

    response = await house.chat()

    assert response.status_code == 200
    assert await house.ledger.spent() == (10 + 2 * 9_000, 0)
    assert house.record.detail == "the provider reported 9000 output tokens for 5 bytes"


@pytest.mark.requirement("count.usage-that-lies")
async def test_more_output_than_its_bytes_is_not_believed_where_nothing_is_hidden() -> None:
    honest = replace(tier(), hidden_reasoning=False)
    async with open_house(tiers=(honest,)) as house:
        house.budget(cost_microusd=1_000_000)
        house.provider_answers(json=completion({"prompt_tokens": 10, "completion_tokens": 9_000}))
        response = await house.chat()

        assert await house.ledger.spent() == (10 + 2 * 100, 0)
    assert response.json()["flyball"]["usage_source"] == "held"
    assert "9000 output tokens" in house.record.detail


async def test_reasoning_that_only_the_total_counts_is_charged_as_output(house: House) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 45}
    house.provider_answers(json=completion(usage))

    await house.chat()

    assert await house.ledger.spent() == (10 + 2 * 35, 0)


async def test_a_provider_that_is_not_reached_costs_nothing(house: House) -> None:
    await house.server.leave()

    response = await house.chat()

    assert response.status_code == 502
    assert response.json()["error"]["code"] == "provider_unreachable"
    assert response.json()["flyball"]["usage"] is None
    assert house.record.status is CallStatus.RELEASED
    assert await house.ledger.spent() == (0, 0)


async def test_a_connection_that_breaks_after_the_request_left_is_charged_as_held(
    house: House,
) -> None:
    house.provider_raises(httpx.ReadError("x"))

    response = await house.chat()

    assert response.status_code == 502
    assert response.json()["error"]["code"] == "provider_failed"
    assert house.record.status is CallStatus.UPSTREAM_FAILED
    await expect_charged_as_held(house, why="failed after the request was sent")


async def test_an_answer_that_never_ends_is_given_up_at_the_providers_timeout() -> None:
    async def never(_request: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    async with open_house(timeout_ms=300) as house:
        house.budget(cost_microusd=1_000_000)
        house.handler = never
        with anyio.fail_after(60):
            response = await house.chat()

        assert response.status_code == 504
        assert response.json()["error"]["code"] == "provider_timed_out"
        assert house.record.status is CallStatus.TIMED_OUT
        await expect_charged_as_held(house, why="timed out")


@pytest.mark.parametrize("status", [400, 404, 413, 422, 429])
async def test_a_request_that_the_provider_refuses_is_relayed_and_costs_nothing(
    house: House, status: int
) -> None:
    error = {"message": "no", "type": "their_error", "param": None, "code": "their_code"}
    house.provider_answers(status, json={"error": error}, headers={"Retry-After": "7"})

    response = await house.chat("do not quote me")

    assert response.status_code == status
    assert response.json()["error"] == error
    assert response.json()["flyball"]["usage"]["cost_microusd"] == 0
    assert response.headers["retry-after"] == "7"
    assert house.record.status is CallStatus.UPSTREAM_FAILED
    assert house.record.detail == f"the provider answered {status}"
    assert await house.ledger.spent() == (0, 0)


async def test_a_refusal_that_reports_usage_is_charged_for_it(house: House) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 0}
    house.provider_answers(400, json={"error": {"message": "filtered"}, "usage": usage})

    await house.chat()

    assert await house.ledger.spent() == (10, 0)


@pytest.mark.parametrize("retry_after", ["soon", "-1", "٣"])
async def test_a_retry_after_that_nobody_can_read_is_left_out(
    house: House, retry_after: str
) -> None:
    headers = httpx.Headers([(b"retry-after", retry_after.encode())])
    house.provider_answers(429, content=b"slow down", headers=headers)

    response = await house.chat()

    assert response.status_code == 429
    assert response.json()["error"]["code"] == "provider_refused"
    assert "retry-after" not in response.headers


@pytest.mark.parametrize("retry_after", ["Wed, 21 Oct 2026 07:28:00 GMT", "9999999"])
async def test_no_client_is_sent_away_for_longer_than_an_hour(
    house: House, retry_after: str
) -> None:
    house.provider_answers(429, content=b"slow down", headers={"Retry-After": retry_after})

    response = await house.chat()

    assert response.headers["retry-after"] == "3600"


@pytest.mark.parametrize("status", [401, 403, 407])
async def test_our_own_bad_credentials_are_not_blamed_on_the_client(
    house: House, status: int
) -> None:
    error = {"message": "Incorrect API key", "code": "invalid_api_key"}
    house.provider_answers(status, json={"error": error})

    response = await house.chat()

    assert response.status_code == 502
    assert response.json()["error"]["code"] == "provider_refused_credentials"
    assert "Incorrect" not in response.text
    assert await house.ledger.spent() == (0, 0)


@pytest.mark.requirement("model.refused-prompt-keeps-the-key")
@pytest.mark.parametrize(
    "said",
    [
        {"json": {"error": {"code": 403, "message": 'Your input was flagged for "violence".'}}},
        {"json": {"code": "no permission", "error": "Content violates usage guidelines."}},
        {"content": b"<!DOCTYPE html><title>Attention Required!</title>"},
    ],
)
async def test_a_prompt_that_is_refused_takes_the_key_from_nobody(
    house: House, said: dict[str, Any]
) -> None:
    house.provider_answers(403, **said)
    flagged = await house.chat("something else")
    house.handler = answer_well

    assert flagged.status_code == 403
    assert ("json" in said) == ("provider_refused" not in flagged.text)
    assert (await house.chat()).status_code == 200
    assert house.record.detail == ""


@pytest.mark.parametrize("status", [204, 301, 307, 408, 499, 500, 503])
async def test_a_status_that_proves_nothing_is_charged_as_held(house: House, status: int) -> None:
    house.provider_answers(status, json={"error": {}}, headers={"Location": "http://evil.test/"})

    response = await house.chat()

    assert response.status_code == 502
    assert response.json()["error"]["code"] == "provider_failed"
    assert len(house.requests) == 1
    await expect_charged_as_held(house, why=str(status))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"choices": [NaN]}',
        b'{"choices": 1}',
        b'{"error": {"message": "overloaded"}}',
        b'{"choices": [], "error": {"message": "overloaded"}}',
        b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
async def test_a_200_without_a_readable_answer_is_charged_as_held(
    house: House, content: bytes
) -> None:
    house.provider_answers(200, content=content)

    response = await house.chat()

    assert response.status_code == 502
    assert house.record.result_bytes == len(content)
    await expect_charged_as_held(house, why="the provider's answer")


async def test_half_a_surrogate_pair_in_an_answer_is_relayed(house: House) -> None:
    content = b'{"choices": ["\\ud800"], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
    house.provider_answers(200, content=content)

    response = await house.chat()

    assert response.status_code == 200
    assert b'"\\ud800"' in response.content
    assert await house.ledger.spent() == (3, 0)


async def test_an_answer_that_is_too_large_is_given_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ANSWER_BYTES_MAX", 1000)
    house.provider_answers(200, json=completion(padding="x" * 1000))

    response = await house.chat()

    assert response.status_code == 502
    await expect_charged_as_held(house, why="larger than 1000 bytes")


async def test_ending_a_session_stops_its_chat_and_charges_what_was_held(house: House) -> None:
    arrived = anyio.Event()

    async def hang(_request: httpx.Request) -> httpx.Response:
        arrived.set()
        await anyio.sleep_forever()
        raise AssertionError

    house.handler = hang
    responses: list[httpx.Response] = []

    async def ask() -> None:
        responses.append(await house.chat())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await arrived.wait()
            [session] = house.ledger._sessions
            assert house.running.stop_session(session, why="an administrator ended it") == 1

    [response] = responses
    assert response.status_code == 403
    assert response.json()["error"]["type"] == "flyball_stopped"
    assert "an administrator ended it" in response.json()["error"]["message"]
    assert house.record.status is CallStatus.CANCELLED
    assert house.record.detail == "an administrator ended it"
    await expect_charged_as_held(house, why="ended before it was measured")
    assert len(house.running) == 0


async def test_a_cancelled_chat_is_settled_even_while_the_ledger_is_slow(house: House) -> None:
    arrived, settling, go = anyio.Event(), anyio.Event(), anyio.Event()
    settle = house.ledger.settle

    async def hang(_request: httpx.Request) -> httpx.Response:
        arrived.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def slow_settle(
        reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        settling.set()
        await go.wait()
        return await settle(reservation_id, usage, record)

    house.handler = hang
    house.ledger.settle = slow_settle  # type: ignore[method-assign]  # the slow ledger
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.chat)
            await arrived.wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await settling.wait()
                go.set()

    assert house.record.status is CallStatus.CANCELLED
    assert house.record.detail == "the client went away"
    await expect_charged_as_held(house, why="ended before it was measured")


async def test_a_key_whose_call_still_runs_is_in_progress(house: House) -> None:
    arrived, go = anyio.Event(), anyio.Event()

    async def wait(request: httpx.Request) -> httpx.Response:
        arrived.set()
        await go.wait()
        return await answer_well(request)

    async def ask() -> None:
        await house.chat(headers={"Idempotency-Key": "k1"})

    house.handler = wait
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await arrived.wait()
            again = await house.chat(headers={"Idempotency-Key": "k1"})
            go.set()

    assert again.status_code == 409
    assert again.json()["error"]["code"] == "idempotency_in_progress"
    assert len(house.requests) == 1


async def test_twice_as_many_chats_as_a_budget_pays_for_never_overspend_it(house: House) -> None:
    paid_for = 10
    await house.chat()
    held = house.record.estimate.of(COST)
    house.requests.clear()
    house.budget(cost_microusd=20 + held * paid_for)
    full, statuses = anyio.Event(), []

    async def hold_all(_request: httpx.Request) -> httpx.Response:
        # Nobody is answered until every admission is decided, so all holds stand at once.
        await full.wait()
        usage = {"prompt_tokens": held - 200, "completion_tokens": 100}
        return httpx.Response(200, json=completion(usage))

    async def ask() -> None:
        statuses.append((await house.chat()).status_code)
        if statuses.count(429) == paid_for:
            full.set()

    house.handler = hold_all
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(2 * paid_for):
                tasks.start_soon(ask)

    assert sorted(statuses) == [200] * paid_for + [429] * paid_for
    assert len(house.requests) == paid_for
    assert await house.ledger.spent() == (20 + held * paid_for, 0)


async def test_a_fault_of_the_sidecars_own_is_recorded_as_one_and_charged_as_held(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(persisting, "ask", fail)
    response = await house.chat()

    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    assert house.record.status is CallStatus.UPSTREAM_FAILED
    assert house.record.detail == "the sidecar failed: ZeroDivisionError"
    await expect_charged_as_held(house, why="before it was measured")


async def test_a_denial_says_what_remains(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def standing(*_: object, **__: object) -> tuple[dict[str, object], ...]:
        return ({"budget_id": "money", "remaining": 50},)

    monkeypatch.setattr(house.ledger, "standing", standing)
    house.budget(cost_microusd=50)

    response = await house.chat()

    assert response.status_code == 429
    assert response.json()["flyball"]["budget"] == [{"budget_id": "money", "remaining": 50}]

"""Chats while the ledger fails, or their hold does not end: fail closed, charge once."""

import httpx
import pytest

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.denial import DenialReason
from governor.reservation import ReservationState
from runtime.model_gateway import asking
from tests.runtime.model_gateway.bench import House, answer_well
from tool_gateway.books import EXPIRY_GRACE_MS
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError

pytestmark = pytest.mark.anyio

COST = Unit.COST_MICROUSD


@pytest.mark.parametrize(
    ("error", "code", "retry_after"),
    [
        (LedgerUnavailableError, "ledger_unavailable", None),
        (LedgerOverloadedError, "overloaded", "1"),
    ],
)
async def test_without_the_ledger_nothing_is_started(
    house: House, error: type[Exception], code: str, retry_after: str | None
) -> None:
    async def down(*_: object, **__: object) -> None:
        raise error

    house.ledger.admit = house.ledger.record = down  # type: ignore[assignment]  # it is down
    response = await house.chat()

    assert response.status_code == 429
    assert response.json()["error"]["code"] == code
    assert response.headers.get("retry-after") == retry_after
    # It passes by itself, so clients may try again.
    assert "x-should-retry" not in response.headers
    assert house.requests == []


@pytest.mark.requirement("model.own-faults-in-the-clients-words")
@pytest.mark.parametrize(
    ("path", "kind"), [("chat/completions", "server_error"), ("messages", "api_error")]
)
async def test_what_nobody_foresaw_is_told_in_the_clients_own_envelope(
    house: House, path: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(asking, "verdict_on_served", broken)
    body = {"model": "low", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    response = await house.client.post(f"/v1/{path}", json=body)

    assert response.status_code == 500
    assert response.json()["error"]["type"] == kind
    assert "its log says why" in response.json()["error"]["message"]
    assert "secret" not in response.text
    # It was sent, so that what was held for it is charged.
    used, held = await house.ledger.spent()
    assert (used, held) == (house.record.estimate.of(COST), 0)
    assert house.record.detail == "the sidecar failed: KeyError"


async def test_a_chat_is_marked_as_forwarded_before_its_first_byte_leaves(house: House) -> None:
    states: list[ReservationState] = []

    async def look(request: httpx.Request) -> httpx.Response:
        states.extend(hold.reservation.state for hold in house.ledger._holds.values())
        return await answer_well(request)

    house.handler = look
    await house.chat()

    assert states == [ReservationState.FORWARDED]


@pytest.mark.requirement("session.closed-denies")
async def test_a_chat_whose_session_was_ended_before_it_left_is_denied(house: House) -> None:
    await house.chat()
    house.requests.clear()
    admit, spent = house.ledger.admit, await house.ledger.spent()

    async def admit_too_late(request: AdmissionRequest) -> object:
        house.ledger.close_session(request.chain.session)
        return await admit(request)

    house.ledger.admit = admit_too_late  # type: ignore[assignment]  # just before
    response = await house.chat()

    assert response.status_code == 429
    assert response.json()["error"]["code"] == "session_closed"
    assert house.requests == []
    assert house.record.denial is DenialReason.SESSION_CLOSED
    assert await house.ledger.spent() == spent


async def test_an_answer_stands_though_it_could_not_be_settled(house: House) -> None:
    async def down(*_: object, **__: object) -> None:
        raise LedgerUnavailableError

    house.ledger.settle = down  # type: ignore[method-assign]  # it is down
    response = await house.chat()

    assert response.status_code == 200
    used, reserved = await house.ledger.spent()
    assert used == 0
    # The hold stands until the reaper charges it.
    assert reserved > 0


async def test_a_hold_that_nobody_ends_outlives_the_providers_timeout_and_is_then_charged(
    house: House,
) -> None:
    async def down(*_: object, **__: object) -> None:
        raise LedgerUnavailableError

    house.ledger.settle = down  # type: ignore[method-assign]  # it is down
    await house.chat()
    [hold] = house.ledger._holds.values()
    may_take_ms = hold.created_at_ms + 60_000

    assert await house.ledger.expire_due(now_ms=may_take_ms) == ()
    assert len(await house.ledger.expire_due(now_ms=may_take_ms + EXPIRY_GRACE_MS)) == 1
    assert await house.ledger.spent() == (hold.amount.of(COST), 0)

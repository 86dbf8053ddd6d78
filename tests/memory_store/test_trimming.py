"""What is remembered is kept within bounds, and forgetting it loses no booking."""

import pytest
from contracts.builders import COST, TENANT, budget, record, request, used

from memory_store import live_accounts
from memory_store.audit import Actor
from memory_store.conservation import Conservation
from memory_store.errors import AlreadyExistsError
from memory_store.store import Store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")


async def test_a_failure_beside_a_call_does_not_hide_what_remains(store: Store) -> None:
    await store.budgets.create(budget({COST: 100}), by=ADMIN, now_ms=1)
    asked = request({COST: 10})
    await store.ledger.admit(asked)
    with pytest.raises(AlreadyExistsError):
        await store.budgets.create(budget({COST: 100}), by=ADMIN, now_ms=1)

    settled = await store.ledger.settle(asked.reservation_id, used({COST: 7}), record(asked))

    assert [balance.remaining for balance in settled.standing] == [93]


async def test_what_runs_while_accounts_are_forgotten_is_booked_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_accounts, "_KEPT_MAX", 0)
    await store.budgets.create(budget({COST: 100}, warn_at_permille=(100,)), by=ADMIN, now_ms=1)
    asked = [request({COST: 10}) for _ in range(3)]
    for one in asked:
        await store.ledger.admit(one)

    settled = [
        await store.ledger.settle(one.reservation_id, used({COST: 7}), record(one)) for one in asked
    ]

    assert await store.reader.run(Conservation().breaches) == []
    (view,) = await store.ledger.balances(tenant=TENANT, now_ms=1_000)
    assert (view.used, view.reserved) == (21, 0)
    # Nor is it forgotten how the accounts were described.
    assert [balance.settled for balance in settled[-1].standing] == [21]
    assert [len(one.warned) for one in settled] == [0, 1, 0]

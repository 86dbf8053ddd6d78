"""The books are added up while they are in use, and a breach stops admission."""

from dataclasses import replace

import pytest
from contracts.builders import COST, budget, record, request, used
from sqlalchemy import Connection, text

from governor.events import Reserved, Settled
from memory_store.audit import Actor
from memory_store.errors import LedgerBreachError
from memory_store.store import Store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")

BREAKS = {
    "a balance that was changed": "UPDATE balances SET settled = settled + 1",
    "a hold that was lost": "UPDATE balances SET reserved = 0",
    "an entry that was changed": "UPDATE journal SET entries = replace(entries, '30', '31')",
    "a row that was taken out": "DELETE FROM journal WHERE number = 1",
    "a hold that was ended behind the books": (
        "UPDATE reservations SET state = 'released', ended_at_ms = 1 WHERE ended_at_ms IS NULL"
    ),
}


async def _in_use(store: Store) -> Reserved:
    """Settle one call and leave another one running."""
    await store.budgets.create(budget({COST: 1_000}), by=ADMIN, now_ms=1)
    done = request({COST: 30})
    await store.ledger.admit(done)
    await store.ledger.settle(done.reservation_id, used({COST: 7}), record(done))
    running = await store.ledger.admit(request({COST: 30}))
    assert isinstance(running, Reserved)
    return running


@pytest.mark.requirement("ledger.conservation")
async def test_books_in_use_add_up_each_time_they_are_looked_at(store: Store) -> None:
    assert await store.breaches() == []
    await _in_use(store)
    assert await store.breaches() == []

    await store.ledger.expire_due(now_ms=99_000)

    assert await store.breaches() == []
    await store.check()


@pytest.mark.requirement("ledger.conservation")
@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS)
async def test_a_breach_stops_admission_and_lets_settlements_through(
    store: Store, change: str
) -> None:
    running = await _in_use(store)

    def tamper(connection: Connection) -> None:
        connection.execute(text(change))

    await store.writer.run(tamper)
    found = await store.breaches()

    assert found
    with pytest.raises(LedgerBreachError, match="do not add up"):
        await store.ledger.admit(request({COST: 1}))
    with pytest.raises(LedgerBreachError):
        await store.check()
    if "reservations" not in change:
        ending = record(request({COST: 30}))
        settled = await store.ledger.settle(
            running.reservation.reservation_id,
            used({COST: 30}),
            replace(ending, call_id=running.reservation.call_id),
        )
        assert isinstance(settled, Settled)


@pytest.mark.requirement("ledger.conservation")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE journal SET entries = replace(entries, '30', '31') WHERE number = 2",
        "DELETE FROM journal WHERE number = 2",
        "DELETE FROM journal WHERE number = (SELECT max(number) FROM journal)",
    ],
)
async def test_what_was_followed_before_is_looked_through_again(
    store: Store, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_store.conservation._JOURNAL_ROWS_AT_ONCE", 2)
    await _in_use(store)
    await store.ledger.expire_due(now_ms=99_000)
    assert await store.breaches() == []
    await store.writer.run(lambda connection: connection.execute(text(change)).close())

    found = [await store.breaches() for _ in range(6)]

    assert any("journal" in words for breaches in found for words in breaches)


async def test_a_breach_among_very_many_accounts_is_found_in_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_store.conservation._ROWS_AT_ONCE", 2)
    for number in range(7):
        await store.budgets.create(budget({COST: 100}, budget_id=f"b{number}"), by=ADMIN, now_ms=1)
    asked = request({COST: 5})
    await store.ledger.admit(asked)
    await store.ledger.settle(asked.reservation_id, used({COST: 5}), record(asked))
    assert await store.breaches() == []
    last = "UPDATE balances SET settled = 6 WHERE account_id = 7"
    await store.writer.run(lambda connection: connection.execute(text(last)).close())

    found = [await store.breaches() for _ in range(4)]

    assert any(found)

from dataclasses import replace

import pytest
from contracts.builders import (
    AGENT,
    COST,
    SESSION,
    TENANT,
    budget,
    chain,
    record,
    request,
    used,
)

from governor.amounts import Unit
from governor.call import CallStatus
from governor.ids import SessionId
from governor.scope import ScopeKind
from memory_store import lately as looking
from memory_store.audit import Actor
from memory_store.lately import Lately, Whose
from memory_store.store import Store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")
MINUTE_MS = 60_000


async def spend(store: Store, cost: int, *, at_ms: int, session: str = SESSION) -> None:
    asked = replace(request({COST: 100}, of=chain(session=session)), now_ms=at_ms)
    asked = replace(asked, expires_at_ms=at_ms + MINUTE_MS)
    await store.ledger.admit(asked)
    usage = used({COST: cost})
    ended = replace(record(asked, usage=usage), started_at_ms=at_ms, ended_at_ms=at_ms)
    await store.ledger.settle(asked.reservation_id, usage, ended)


async def look(store: Store, *, since_ms: int, whose: Whose | None = None) -> Lately:
    return await store.lately(
        whose or Whose(), since_ms=since_ms, now_ms=20 * MINUTE_MS, fullest=10
    )


async def test_what_accounts_were_charged_is_read_back_to_the_moment_asked_for(
    store: Store,
) -> None:
    await store.budgets.create(budget({COST: 1_000}, budget_id="cost"), by=ADMIN, now_ms=1)
    for at, cost in ((1, 5), (11, 7), (12, 20)):
        await spend(store, cost, at_ms=at * MINUTE_MS)

    found = await look(store, since_ms=10 * MINUTE_MS, whose=Whose(tenant=TENANT))
    of_all = await look(store, since_ms=0)

    ((account, charged),) = found.charged.items()
    assert (account[0], account[2]) == ("cost", Unit.COST_MICROUSD)
    assert (charged.amount, charged.first_at_ms) == (27, 11 * MINUTE_MS)
    assert [one.amount for one in of_all.charged.values()] == [32]
    assert found.statuses == {CallStatus.OK: 2}
    assert sum(minute.cost_microusd for minute in found.minutes) == 27


async def test_sessions_that_were_seen_lately_stand_beside_tenants_and_agents(
    store: Store,
) -> None:
    each = budget({COST: 100}, budget_id="each", scope=ScopeKind.SESSION)
    wide = budget({COST: 1_000}, budget_id="wide")
    for one in (each, wide):
        await store.budgets.create(one, by=ADMIN, now_ms=1)
    await spend(store, 10, at_ms=MINUTE_MS, session="ses_old")
    await spend(store, 90, at_ms=15 * MINUTE_MS, session="ses_new")

    found = await look(store, since_ms=10 * MINUTE_MS, whose=Whose(tenant=TENANT, agent=AGENT))

    assert [(view.budget_id, view.subject, view.used) for _, view in found.views] == [
        ("each", SessionId("ses_new"), 90),
        ("wide", TENANT, 100),
    ]


async def test_where_very_much_was_booked_the_latest_is_read_and_since_when_is_said(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_CHARGES_MAX", 2)
    await store.budgets.create(budget({COST: 1_000}, budget_id="cost"), by=ADMIN, now_ms=1)
    for minute in range(1, 7):
        await spend(store, 10, at_ms=minute * MINUTE_MS)

    found = await look(store, since_ms=0)

    assert sum(one.amount for one in found.charged.values()) == 20
    assert found.charges_since_ms > 3 * MINUTE_MS

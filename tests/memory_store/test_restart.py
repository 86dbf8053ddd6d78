from pathlib import Path

import anyio
import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, budget, record, request, used

from governor.denial import DenialReason, Denied
from governor.events import Replayed, Reserved
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import StoreUnavailableError
from memory_store.identities import Role
from memory_store.store import Store, open_store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")


async def _prepare(store: Store) -> None:
    await store.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
    await store.principals.create(
        AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=ADMIN, now_ms=1
    )
    await store.budgets.create(budget({COST: 100}), by=ADMIN, now_ms=1)


@pytest.mark.parametrize("durability", list(Durability))
async def test_everything_is_there_after_a_restart(state_dir: Path, durability: Durability) -> None:
    settled, held = request({COST: 30}, key=("k", "h")), request({COST: 50})
    async with open_store(state_dir, durability=durability) as store:
        await _prepare(store)
        token = await store.principals.issue_token(AGENT, expires_at_ms=None, by=ADMIN, now_ms=1)
        for asked in (settled, held):
            await store.ledger.admit(asked)
        await store.ledger.settle(settled.reservation_id, used({COST: 25}), record(settled))

    async with open_store(state_dir, durability=durability) as store:
        assert await store.principals.authenticate(token.secret, now_ms=2) is not None
        assert isinstance(await store.ledger.admit(request({COST: 1}, key=("k", "h"))), Replayed)
        (view,) = await store.ledger.balances(tenant=TENANT, now_ms=2)
        assert (view.used, view.reserved) == (25, 50)
        assert isinstance(await store.ledger.admit(request({COST: 26})), Denied)
        await store.ledger.settle(held.reservation_id, used({COST: 50}), record(held))
        assert isinstance(await store.ledger.admit(request({COST: 25})), Reserved)
        assert (await store.calls.get(settled.call_id)).charged.of(COST) == 25


async def test_a_closed_session_stays_closed_after_a_restart(state_dir: Path) -> None:
    async with open_store(state_dir) as store:
        await store.ledger.admit(request({COST: 1}))
        await store.sessions.close(SESSION, by=ADMIN, now_ms=2)

    async with open_store(state_dir) as store:
        decision = await store.ledger.admit(request({COST: 1}))

    assert isinstance(decision, Denied)
    assert decision.reason is DenialReason.SESSION_CLOSED


async def test_what_was_accepted_is_stored_when_the_store_closes(state_dir: Path) -> None:
    admitted: list[object] = []

    async def admit(store: Store) -> None:
        admitted.append(await store.ledger.admit(request({COST: 1})))

    async with (
        anyio.create_task_group() as group,
        open_store(state_dir, durability=Durability.PROCESS) as store,
    ):
        await _prepare(store)
        for _ in range(50):
            group.start_soon(admit, store)
        await anyio.wait_all_tasks_blocked()

    assert len(admitted) == 50
    async with open_store(state_dir) as store:
        (view,) = await store.ledger.balances(tenant=TENANT, now_ms=2)
    assert view.reserved == 50


async def test_a_closed_store_takes_nothing(state_dir: Path) -> None:
    async with open_store(state_dir) as store:
        await store.check()

    with pytest.raises(StoreUnavailableError):
        await store.check()
    with pytest.raises(StoreUnavailableError):
        await store.ledger.admit(request({COST: 1}))
    with pytest.raises(StoreUnavailableError):
        await store.tenants.page()

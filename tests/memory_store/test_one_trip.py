"""A batch on a shared database: it grows while it waits, and is written and stored at once."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import psycopg
import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, budget, chain, record, request, used
from postgresql_server import running_server

from governor.admission import AdmissionRequest
from governor.amounts import Amounts
from governor.errors import InvalidTransitionError
from governor.events import Reserved
from governor.ids import ReservationId, SessionId
from memory_store.audit import Actor
from memory_store.carves import SpawnRequest
from memory_store.engine import Durability
from memory_store.errors import AlreadyExistsError
from memory_store.store import Store, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ADMIN = Actor(name="root")


@pytest.fixture
async def stores(tmp_path: Path, database: str) -> AsyncIterator[tuple[Store, Store]]:
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(
                open_store(tmp_path / name, url=database, durability=Durability.PROCESS)
            )
            for name in ("one", "two")
        ]
        await one.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
        await one.budgets.create(budget({COST: 1_000}), by=ADMIN, now_ms=1)
        yield one, two


async def _settle(store: Store, asked: AdmissionRequest, cost: int) -> None:
    usage = used({COST: cost})
    await store.ledger.settle(asked.reservation_id, usage, record(asked, usage=usage))


async def _balance(store: Store) -> tuple[int, int]:
    view = (await store.ledger.balances(tenant=TENANT, now_ms=1_000))[0]
    return view.used, view.reserved


@pytest.mark.requirement("shared.one-budget")
async def test_a_hold_that_another_sidecar_ended_is_not_ended_twice(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    mine, running = request({COST: 30}), request({COST: 50}, expires_at_ms=90_000)
    await one.ledger.admit(mine)
    await one.ledger.admit(running)

    (expired,) = await two.ledger.expire_due(now_ms=20_000)
    assert expired.reservation.reservation_id == mine.reservation_id
    with pytest.raises(InvalidTransitionError):
        await _settle(one, mine, 30)
    await _settle(one, running, 4)

    assert await _balance(two) == (4, 0)
    assert await one.breaches() == []


@pytest.mark.requirement("shared.one-budget")
async def test_a_carve_that_several_sidecars_draw_on_adds_up(stores: tuple[Store, Store]) -> None:
    one, two = stores
    below = SessionId("ses_below")
    await one.ledger.spawn(
        SpawnRequest(
            tenant=TENANT,
            agent=AGENT,
            parent=SESSION,
            parent_name="one",
            session_id=below,
            name="below",
            reservation_id=ReservationId("res_carve"),
            limits=Amounts({COST: 100}),
            now_ms=1_000,
        )
    )
    asked = [request({COST: 10}, of=chain(session=below)) for _ in range(4)]
    for store, one_asked in zip((one, two, one, two), asked, strict=True):
        assert isinstance(await store.ledger.admit(one_asked), Reserved)
    for store, one_asked in zip((one, two, one), asked, strict=False):
        await _settle(store, one_asked, 7)

    await one.sessions.close(below, by=ADMIN, now_ms=2_000)
    await _settle(two, asked[3], 7)

    assert await _balance(one) == (28, 0)
    assert await one.breaches() == []


async def test_what_comes_while_a_sidecar_waits_for_its_turn_goes_with_it(
    stores: tuple[Store, Store], database: str
) -> None:
    one, _ = stores
    await one.ledger.admit(request({COST: 1}))

    with psycopg.connect(database) as other, psycopg.connect(database, autocommit=True) as looking:
        other.execute("SELECT 1 FROM turns_taken FOR UPDATE")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(one.ledger.admit, request({COST: 1}))
                waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                while looking.execute(waiting).fetchone() is None:
                    await anyio.lowlevel.checkpoint()
                for _ in range(5):
                    group.start_soon(one.ledger.admit, request({COST: 1}))
                await anyio.wait_all_tasks_blocked()
                other.rollback()
        row = looking.execute("SELECT entries FROM journal ORDER BY number DESC").fetchone()

    assert row is not None
    assert len(row[0].split("\n")) == 6
    assert await _balance(one) == (0, 7)


async def test_an_id_that_was_used_fails_its_own_piece_alone(stores: tuple[Store, Store]) -> None:
    one, two = stores
    stored = request({COST: 1})
    await two.ledger.admit(stored)
    failed: list[ReservationId] = []

    async def admit(asked: AdmissionRequest) -> None:
        try:
            await one.ledger.admit(asked)
        except AlreadyExistsError:
            failed.append(asked.reservation_id)

    async with anyio.create_task_group() as group:
        for asked in (request({COST: 1}), stored, request({COST: 1})):
            group.start_soon(admit, asked)

    assert failed == [stored.reservation_id]
    assert await _balance(one) == (0, 3)
    assert await one.breaches() == []


@pytest.mark.requirement("shared.acknowledged-on-disk")
async def test_what_is_acknowledged_survives_the_crash_of_the_server(tmp_path: Path) -> None:
    # The log is not written of its own accord before the server is gone.
    with running_server(fsync=True, wal_writer_delay="10s") as server, server.database() as url:
        async with open_store(tmp_path / "one", url=url) as store:
            await store.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
            await store.budgets.create(budget({COST: 1_000}), by=ADMIN, now_ms=1)
            asked = request({COST: 30})
            await store.ledger.admit(asked)
            await _settle(store, asked, 20)
            await store.ledger.admit(request({COST: 5}))
            server.restart()

        async with open_store(tmp_path / "one", url=url) as store:
            assert await _balance(store) == (20, 5)
            assert await store.breaches() == []

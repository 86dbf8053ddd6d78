"""Several sidecars on one database: what one does, the others see at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import psycopg
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

from governor.denial import DenialReason, Denied
from governor.events import Expired, Reserved
from governor.ids import CallId, SessionId
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import (
    AlreadyExistsError,
    ArchiveNotFoundError,
    StoreUnavailableError,
    UnstorableError,
    VersionConflictError,
)
from memory_store.identities import SHARED_PROOF_MS, Role
from memory_store.store import Store, open_store

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ADMIN = Actor(name="root")


@pytest.fixture
async def stores(tmp_path: Path, database: str) -> AsyncIterator[tuple[Store, Store]]:
    async with _store(tmp_path / "one", database) as one, _store(tmp_path / "two", database) as two:
        await one.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
        await one.principals.create(
            AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=ADMIN, now_ms=1
        )
        yield one, two


@asynccontextmanager
async def _store(state_dir: Path, url: str) -> AsyncIterator[Store]:
    async with open_store(state_dir, url=url, durability=Durability.PROCESS) as store:
        yield store


def _drop_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.mark.requirement("shared.one-budget")
async def test_what_one_holds_the_other_cannot(stores: tuple[Store, Store]) -> None:
    one, two = stores
    await one.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)

    first = await one.ledger.admit(request({COST: 6}))
    second = await two.ledger.admit(request({COST: 6}))

    assert isinstance(first, Reserved)
    assert isinstance(second, Denied)


@pytest.mark.requirement("shared.one-budget")
async def test_a_budget_changed_by_one_governs_the_next_admission_of_the_other(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    await one.budgets.create(budget({COST: 100}), by=ADMIN, now_ms=1)
    assert isinstance(await two.ledger.admit(request({COST: 6})), Reserved)

    await one.budgets.put(budget({COST: 10}), expected_version=1, by=ADMIN, now_ms=2)
    lowered = await two.ledger.admit(request({COST: 6}))
    await one.budgets.delete(budget({COST: 10}).budget_id, by=ADMIN, now_ms=3)
    ungoverned = await two.ledger.admit(request({COST: 6}))

    assert isinstance(lowered, Denied)
    assert isinstance(ungoverned, Reserved)
    assert ungoverned.reservation.lines == ()


async def test_one_settles_what_the_other_held(stores: tuple[Store, Store]) -> None:
    one, two = stores
    await one.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)
    asked = request({COST: 6})
    held = await one.ledger.admit(asked)
    assert isinstance(held, Reserved)

    usage = used({COST: 4})
    await two.ledger.settle(held.reservation.reservation_id, usage, record(asked, usage=usage))

    (view,) = await one.ledger.balances(tenant=TENANT, now_ms=1_000)
    assert (view.used, view.reserved) == (4, 0)


@pytest.mark.requirement("shared.holds-of-others")
async def test_of_two_that_expire_one_hold_one_does(stores: tuple[Store, Store]) -> None:
    one, two = stores
    await one.budgets.create(budget({COST: 100}), by=ADMIN, now_ms=1)
    for _ in range(40):
        assert isinstance(await one.ledger.admit(request({COST: 1}, expires_at_ms=50)), Reserved)
    expired: list[Expired] = []

    async def expire(store: Store) -> None:
        expired.extend(await store.ledger.expire_due(now_ms=60))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for store in (one, two, one, two):
                group.start_soon(expire, store)

    assert len(expired) == len({fact.reservation.reservation_id for fact in expired}) == 40
    (view,) = await one.ledger.balances(tenant=TENANT, now_ms=1_000)
    assert (view.used, view.reserved) == (0, 0)


@pytest.mark.requirement("shared.session-closed")
async def test_a_session_that_one_closes_the_other_denies(stores: tuple[Store, Store]) -> None:
    one, two = stores
    assert isinstance(await two.ledger.admit(request({})), Reserved)

    await one.sessions.close(SESSION, by=ADMIN, now_ms=5)
    denied = await two.ledger.admit(request({}))

    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.SESSION_CLOSED


@pytest.mark.requirement("shared.token-revoked")
async def test_a_token_that_one_revokes_the_other_refuses_within_its_bound(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    token = await one.principals.issue_token(AGENT, expires_at_ms=None, by=ADMIN, now_ms=10)
    assert await two.principals.authenticate(token.secret, now_ms=20) is not None

    await one.principals.revoke_token(token.token_id, by=ADMIN, now_ms=21)

    assert SHARED_PROOF_MS <= 2_000
    late = 20 + SHARED_PROOF_MS + 1
    assert await one.principals.authenticate(token.secret, now_ms=22) is None
    assert await two.principals.authenticate(token.secret, now_ms=late) is None


async def test_a_proof_does_not_last_because_the_clock_stepped_back(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    token = await one.principals.issue_token(AGENT, expires_at_ms=None, by=ADMIN, now_ms=10)
    now_ms = 10_000_000
    assert await two.principals.authenticate(token.secret, now_ms=now_ms) is not None

    await one.principals.revoke_token(token.token_id, by=ADMIN, now_ms=now_ms)

    earlier_ms = now_ms - 3_600_000
    assert await two.principals.authenticate(token.secret, now_ms=earlier_ms) is None


async def test_what_one_archives_the_other_reads_and_either_removes(
    stores: tuple[Store, Store],
) -> None:
    one, two = stores
    content = bytes(range(256)) * 300
    entry = await one.archive.put(
        content,
        tenant=TENANT,
        agent=AGENT,
        session=SESSION,
        call_id=CallId("call_1"),
        media_type="application/octet-stream",
        now_ms=5,
    )

    part = await two.archive.read(entry.archive_id, tenant=TENANT, agent=AGENT, offset=300)
    removed = await two.archive.remove(before_ms=6)

    assert part.content == content[300:]
    assert (part.total_bytes, removed) == (len(content), 1)
    with pytest.raises(ArchiveNotFoundError):
        await one.archive.read(entry.archive_id, tenant=TENANT, agent=AGENT)


@pytest.mark.requirement("shared.one-change-at-a-time")
async def test_of_changes_at_the_same_moment_one_wins(stores: tuple[Store, Store]) -> None:
    one, _ = stores
    await one.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)
    lost: list[Exception] = []

    async def change(store: Store, limit: int) -> None:
        try:
            await store.budgets.put(budget({COST: limit}), expected_version=1, by=ADMIN, now_ms=2)
        except VersionConflictError as error:
            lost.append(error)

    async def create(store: Store, number: int) -> None:
        try:
            await store.budgets.create(
                budget({COST: 1}, budget_id=f"b{2 + number % 4}"), by=ADMIN, now_ms=2
            )
        except AlreadyExistsError as error:
            lost.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(change, stores[number % 2], number)
                group.start_soon(create, stores[number // 4], number)

    assert len(lost) == 7 + 4
    assert [item.version for item in (await one.budgets.page()).items] == [2, 1, 1, 1, 1]


@pytest.mark.requirement("shared.housekeeping-once")
async def test_housekeeping_of_several_does_nothing_twice(stores: tuple[Store, Store]) -> None:
    one, two = stores
    for number in range(30):
        asked = request({COST: 1}, of=chain(session=f"ses_{number}"))
        held = await one.ledger.admit(asked)
        assert isinstance(held, Reserved)
        await one.ledger.settle(
            held.reservation.reservation_id, used({}), record(asked, usage=used({}))
        )
    closed: list[int] = []
    purged: list[int] = []

    async def keep_house(store: Store) -> None:
        closed.append(
            await store.sessions.close_idle(prefix="one", before_ms=5_000, by=ADMIN, now_ms=6_000)
        )
        purged.append((await store.retention.purge(before_ms=5_000, now_ms=6_000)).calls)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for store in (one, two, one, two):
                group.start_soon(keep_house, store)

    assert (sum(closed), sum(purged)) == (30, 30)
    entries = (await one.audit.page(limit=200)).items
    assert len([entry for entry in entries if entry.action == "session.close"]) == 30


@pytest.mark.requirement("shared.reconnects")
async def test_a_lost_connection_is_an_error_once_and_then_made_anew(
    stores: tuple[Store, Store], database: str
) -> None:
    one, _ = stores
    await one.budgets.create(budget({COST: 10}), by=ADMIN, now_ms=1)
    assert isinstance(await one.ledger.admit(request({COST: 1})), Reserved)

    await anyio.to_thread.run_sync(_drop_connections, database)
    with pytest.raises(StoreUnavailableError):
        await one.ledger.admit(request({COST: 1}))
    again = await one.ledger.admit(request({COST: 1}))

    assert isinstance(again, Reserved)
    with suppress(StoreUnavailableError):
        # What reads has a connection of its own, which is lost once as well if there was one.
        await one.ledger.balances(tenant=TENANT, now_ms=1_000)
    (view,) = await one.ledger.balances(tenant=TENANT, now_ms=1_000)
    assert view.reserved == 2


async def test_a_lost_reading_connection_is_made_anew(
    stores: tuple[Store, Store], database: str
) -> None:
    one, _ = stores
    await one.tenants.get(TENANT)

    await anyio.to_thread.run_sync(_drop_connections, database)
    with pytest.raises(StoreUnavailableError):
        await one.tenants.get(TENANT)

    assert (await one.tenants.get(TENANT)).name == "Acme"


async def test_a_nul_in_a_name_is_refused_naming_where(stores: tuple[Store, Store]) -> None:
    one, _ = stores

    with pytest.raises(UnstorableError) as in_core:
        await one.tenants.put(TENANT, name="a\0b", expected_version=None, by=ADMIN, now_ms=2)
    with pytest.raises(UnstorableError) as in_ledger:
        await one.ledger.admit(request({COST: 1}, key=("k\0", "h")))

    assert in_core.value.names == ("name",)
    assert "idempotency_key" in in_ledger.value.names
    assert (await one.tenants.get(TENANT)).version == 1


@pytest.mark.parametrize("number", [2**63, 2**80, -(2**63) - 1])
async def test_an_integer_above_64_bits_is_refused_naming_where(
    stores: tuple[Store, Store], number: int
) -> None:
    one, _ = stores

    with pytest.raises(UnstorableError) as refused:
        await one.tenants.put(TENANT, name="Acme", expected_version=None, by=ADMIN, now_ms=number)

    assert refused.value.names == ("updated_at_ms",)


async def test_half_a_surrogate_pair_is_refused(stores: tuple[Store, Store]) -> None:
    one, _ = stores

    with pytest.raises(UnstorableError):
        await one.tenants.put(TENANT, name="\ud800", expected_version=None, by=ADMIN, now_ms=2)


async def test_sessions_are_those_that_were_seen(stores: tuple[Store, Store]) -> None:
    one, two = stores
    for session in ("ses_b", "ses_a"):
        await one.ledger.admit(request({}, of=chain(session=session)))

    page = await two.sessions.page()

    assert [view.session_id for view in page.items] == [SessionId("ses_b"), SessionId("ses_a")]

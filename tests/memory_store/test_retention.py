"""What is old goes, a little at a time; what is live, and what balances rest on, stays."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from begun import begun_for_one
from contracts.builders import (
    AGENT,
    COST,
    IN_FILES,
    SESSION,
    TENANT,
    budget,
    chain,
    record,
    request,
    used,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Table, func, select

from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.call import CallStatus
from governor.denial import DenialReason
from governor.events import Replayed, Reserved
from governor.ids import ArchiveId, CallId
from governor.reservation import ReservationState
from memory_store import archive_rows, retention
from memory_store.archive import ArchiveEntry
from memory_store.audit import Actor
from memory_store.conservation import Conservation, stored_amounts
from memory_store.engine import Durability
from memory_store.errors import ArchiveNotFoundError, NotFoundError
from memory_store.retention import Purged
from memory_store.store import Store, open_store
from memory_store.tables import (
    archives,
    audit,
    calls,
    journal,
    reservations,
    turns,
)
from memory_store.writer import Writer
from tests.memory_store.consistency import (
    check_consistent,
    entry_files,
    files_of,
)

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")
BEFORE_MS = 5_000
NOTHING = Purged(calls=0, turns=0, archives=0, orphans=0)
# Later than any file that a test writes.
FAR_MS = 2**50


async def _purge(store: Store, *, before_ms: int = BEFORE_MS, now_ms: int = 0) -> Purged:
    return await store.retention.purge(before_ms=before_ms, now_ms=now_ms)


async def _settled(store: Store, asked: AdmissionRequest, *, ended_at_ms: int) -> None:
    assert isinstance(await store.ledger.admit(asked), Reserved)
    usage = used({COST: 7})
    await store.ledger.settle(
        asked.reservation_id, usage, record(asked, ended_at_ms=ended_at_ms, usage=usage)
    )


async def _denied(store: Store, *, ended_at_ms: int) -> CallId:
    asked = request({COST: 1})
    denied = record(asked, status=CallStatus.DENIED, ended_at_ms=ended_at_ms)
    await store.calls.record(replace(denied, denial=DenialReason.BUDGET_EXHAUSTED))
    return asked.call_id


async def _put(store: Store, *, now_ms: int, content: bytes = b"content") -> ArchiveEntry:
    return await store.archive.put(
        content,
        tenant=TENANT,
        agent=AGENT,
        session=SESSION,
        call_id=CallId("call_1"),
        media_type="text/plain",
        now_ms=now_ms,
    )


async def _count(store: Store, table: Table) -> int:
    query = select(func.count()).select_from(table)
    return await store.reader.run(lambda connection: connection.execute(query).scalar_one())


async def _turns(store: Store) -> set[str]:
    return await store.reader.run(lambda connection: set(connection.scalars(select(turns.c.turn))))


async def test_what_ended_before_goes_and_what_ended_at_that_instant_stays(store: Store) -> None:
    await store.budgets.create(budget({COST: 10**6}), by=ADMIN, now_ms=1)
    asked = {at_ms: request({COST: 9}) for at_ms in (BEFORE_MS - 1, BEFORE_MS, BEFORE_MS + 1)}
    for at_ms, one in asked.items():
        await _settled(store, one, ended_at_ms=at_ms)
    entries = {at_ms: await _put(store, now_ms=at_ms) for at_ms in asked}
    denied = {at_ms: await _denied(store, ended_at_ms=at_ms) for at_ms in asked}

    purged = await _purge(store)

    assert purged == Purged(calls=2, turns=0, archives=1, orphans=0)
    for call_id in (asked[BEFORE_MS - 1].call_id, denied[BEFORE_MS - 1]):
        with pytest.raises(NotFoundError):
            await store.calls.get(call_id)
    with pytest.raises(ArchiveNotFoundError):
        await store.archive.read(entries[BEFORE_MS - 1].archive_id, tenant=TENANT, agent=AGENT)
    for at_ms in (BEFORE_MS, BEFORE_MS + 1):
        await store.calls.get(asked[at_ms].call_id)
        await store.calls.get(denied[at_ms])
        await store.archive.read(entries[at_ms].archive_id, tenant=TENANT, agent=AGENT)
    assert await _count(store, reservations) == 2
    assert await _purge(store) == NOTHING


async def test_no_transaction_removes_more_than_a_few(
    store: Store, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_rows, "REMOVED_AT_ONCE", 3)
    for number in range(retention.REMOVED_AT_ONCE + 5):
        await _settled(store, request({COST: 1}, turn=f"t{number}"), ended_at_ms=number)
    for at_ms in range(8):
        await _put(store, now_ms=at_ms)
    tables = (calls, turns, archives)
    sizes = [[await _count(store, table) for table in tables]]
    run = Writer.run

    async def counted(self: Writer, work: Callable[[Connection], object], **named: bool) -> object:
        result = await run(self, work, **named)
        sizes.append([await _count(store, table) for table in tables])
        return result

    monkeypatch.setattr(Writer, "run", counted)

    purged = await _purge(store, before_ms=2_000)

    total = retention.REMOVED_AT_ONCE + 5
    assert (purged.calls, purged.turns, purged.archives) == (total, total, 8)
    steps = [
        tuple(was - is_now for was, is_now in zip(before, after, strict=True))
        for before, after in itertools.pairwise(sizes)
    ]
    most = retention.REMOVED_AT_ONCE
    assert [step for step in steps if any(step)] == [
        (most, 0, 0),
        (5, 0, 0),
        (0, most, 0),
        (0, 5, 0),
        (0, 0, 3),
        (0, 0, 3),
        (0, 0, 2),
    ]
    assert files_of(state_dir) == set()


@pytest.mark.parametrize("forwarded", [False, True])
async def test_a_live_hold_is_untouched_and_settles_afterwards(
    store: Store, *, forwarded: bool
) -> None:
    await store.budgets.create(budget({COST: 100}), by=ADMIN, now_ms=1)
    live = request({COST: 30}, turn="t1", now_ms=1)
    await store.ledger.admit(live)
    if forwarded:
        await store.ledger.forward(live.reservation_id)

    assert await _purge(store, before_ms=FAR_MS) == NOTHING

    assert await _turns(store) == {"t1"}
    (held,) = await store.ledger.balances(tenant=TENANT, now_ms=3)
    assert (held.used, held.reserved) == (0, 30)
    settled = await store.ledger.settle(live.reservation_id, used({COST: 25}), record(live))
    assert settled.reservation.state is ReservationState.SETTLED
    (after,) = await store.ledger.balances(tenant=TENANT, now_ms=3)
    assert (after.used, after.reserved) == (25, 0)


async def test_a_live_hold_keeps_the_record_that_bears_its_calls_name(store: Store) -> None:
    live = request({COST: 30}, now_ms=1)
    await store.calls.record(record(live, status=CallStatus.DENIED, ended_at_ms=1))
    await store.ledger.admit(live)

    assert await _purge(store) == NOTHING

    await store.ledger.release(live.reservation_id, record(live, ended_at_ms=2))
    assert (await _purge(store)).calls == 1
    assert await _count(store, reservations) == 0


async def test_an_old_expiry_goes_like_any_other_end(store: Store) -> None:
    await store.ledger.admit(request({COST: 1}, expires_at_ms=2_000))
    await store.ledger.expire_due(now_ms=BEFORE_MS - 1)

    assert (await _purge(store)).calls == 1

    assert await _count(store, reservations) == 0


async def test_a_turn_stays_while_its_session_is_in_use(store: Store) -> None:
    sessions = {
        "idle": {"now_ms": 1_000},
        "seen": {"now_ms": BEFORE_MS},
        "shut": {"now_ms": 1_000},
        "late": {"now_ms": 1_000},
    }
    for name, when in sessions.items():
        of = chain(session=f"ses_{name}")
        await _settled(store, request({COST: 1}, of=of, turn=name), ended_at_ms=2_000)
        await store.ledger.release(
            (other := await _admitted(store, request({COST: 1}, of=of, **when))).reservation_id,
            record(other, ended_at_ms=BEFORE_MS),
        )
    # Seen since, but only to be told that it is closed.
    for name, closed_at_ms in (("shut", BEFORE_MS - 1), ("late", BEFORE_MS)):
        session = chain(session=f"ses_{name}").session
        await store.sessions.close(session, by=ADMIN, now_ms=closed_at_ms)
        await store.ledger.admit(request({COST: 1}, of=chain(session=session), now_ms=BEFORE_MS))

    purged = await _purge(store)

    assert purged.turns == 2
    assert await _turns(store) == {"seen", "late"}


async def _admitted(store: Store, asked: AdmissionRequest) -> AdmissionRequest:
    assert isinstance(await store.ledger.admit(asked), Reserved)
    return asked


async def test_a_session_that_comes_back_keeps_its_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _settled(store, request({COST: 1}, turn="t1"), ended_at_ms=2_000)
    run = Writer.run
    remove = retention._remove_turns

    async def overtaken(self: Writer, work: Callable[[Connection], int], **named: bool) -> int:
        if isinstance(work, partial) and work.func is remove:
            monkeypatch.setattr(Writer, "run", run)
            await store.ledger.admit(request({COST: 1}, turn="t1", now_ms=BEFORE_MS))
        return await run(self, work, **named)

    monkeypatch.setattr(Writer, "run", overtaken)

    purged = await _purge(store)

    assert purged.turns == 0
    assert await _turns(store) == {"t1"}


async def test_a_closed_session_stays_closed(store: Store) -> None:
    await _settled(store, request({COST: 1}), ended_at_ms=2_000)
    await store.sessions.close(SESSION, by=ADMIN, now_ms=2_000)

    await _purge(store)

    assert (await store.sessions.get(SESSION)).closed_at_ms == 2_000


async def test_an_idempotency_key_is_remembered_as_long_as_its_call(store: Store) -> None:
    await _settled(store, request({COST: 1}, key=("k", "h")), ended_at_ms=BEFORE_MS)

    await _purge(store, before_ms=BEFORE_MS)
    assert isinstance(await store.ledger.admit(request({COST: 1}, key=("k", "h"))), Replayed)

    await _purge(store, before_ms=BEFORE_MS + 1)
    assert isinstance(await store.ledger.admit(request({COST: 1}, key=("k", "h"))), Reserved)


async def test_events_balances_and_the_audit_log_stay(store: Store) -> None:
    await store.budgets.create(budget({COST: 10**6}), by=ADMIN, now_ms=1)
    for at_ms in range(5):
        await _settled(store, request({COST: 3}), ended_at_ms=at_ms)
    before = await store.reader.run(stored_amounts)
    counts = [await _count(store, table) for table in (journal, audit)]

    await _purge(store, before_ms=FAR_MS)

    assert await store.reader.run(stored_amounts) == before
    assert await store.reader.run(Conservation().breaches) == []
    assert [await _count(store, table) for table in (journal, audit)] == counts
    (view,) = await store.ledger.balances(tenant=TENANT, now_ms=1)
    assert view.used == 5 * 7


async def test_a_store_that_archived_nothing_is_purged_too(store: Store) -> None:
    assert await _purge(store, before_ms=FAR_MS, now_ms=FAR_MS) == NOTHING


@IN_FILES
async def test_put_read_and_purge_together_give_bytes_or_not_found(
    store: Store, state_dir: Path
) -> None:
    entries: list[ArchiveEntry] = []
    seen: set[bool] = set()

    async def put() -> None:
        for at_ms in range(40):
            entry = await _put(store, now_ms=at_ms, content=b"%d" % at_ms)
            entries.append(entry)

    async def read() -> None:
        while len(entries) < 80:
            for entry in entries[-8:]:
                seen.add(await _reads_whole_or_not_at_all(store, entry))
            await checkpoint()

    async def purge() -> None:
        for before_ms in range(0, 42, 2):
            await _purge(store, before_ms=before_ms, now_ms=FAR_MS)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for work in (put, put, read, read, purge):
                group.start_soon(work)

    await check_consistent(store, state_dir, bytes_max=FAR_MS)
    await _purge(store, before_ms=0, now_ms=FAR_MS)
    assert files_of(state_dir) == await entry_files(store, state_dir)
    assert True in seen


async def _reads_whole_or_not_at_all(store: Store, entry: ArchiveEntry) -> bool:
    try:
        part = await store.archive.read(entry.archive_id, tenant=TENANT, agent=AGENT)
    except ArchiveNotFoundError:
        return False
    assert (len(part.content), part.sha256) == (entry.size_bytes, entry.sha256)
    return True


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.sampled_from(["t1", "t2", "t3"])),
        st.tuples(st.just("settle"), st.integers(0, 20)),
        st.tuples(st.just("release"), st.integers(0, 20)),
        st.tuples(st.just("expire"), st.none()),
        st.tuples(st.just("put"), st.none()),
        st.tuples(st.just("purge"), st.integers(0, 30)),
    ),
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(OPS)
def test_random_histories_with_purges_keep_the_books(
    sqlite_model: Path, ops: list[tuple[str, object]]
) -> None:
    anyio.run(_play, sqlite_model, ops)


async def _play(model: Path, ops: list[tuple[str, object]]) -> None:
    with begun_for_one(model) as state_dir:
        async with open_store(state_dir, durability=Durability.PROCESS) as store:
            await store.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
            await store.budgets.create(budget({COST: 10**6, Unit.TURNS: 99}), by=ADMIN, now_ms=1)
            live: list[AdmissionRequest] = []
            ended: dict[CallId, int] = {}
            put: dict[ArchiveId, int] = {}
            for now_ms, op in enumerate(ops, start=1):
                match op:
                    case ("admit", str(turn)):
                        asked = request({COST: 5}, turn=turn, now_ms=now_ms)
                        live.append(await _admitted(store, asked))
                    case ("settle", int(index)) if live:
                        asked = live.pop(index % len(live))
                        usage, end = used({COST: 8}), record(asked, ended_at_ms=now_ms)
                        await store.ledger.settle(asked.reservation_id, usage, end)
                        ended[asked.call_id] = now_ms
                    case ("release", int(index)) if live:
                        asked = live.pop(index % len(live))
                        end = record(asked, ended_at_ms=now_ms)
                        await store.ledger.release(asked.reservation_id, end)
                        ended[asked.call_id] = now_ms
                    case ("expire", _):
                        await store.ledger.expire_due(now_ms=now_ms, all_live=True)
                        ended |= dict.fromkeys((asked.call_id for asked in live), now_ms)
                        live.clear()
                    case ("put", _):
                        put[(await _put(store, now_ms=now_ms)).archive_id] = now_ms
                    case ("purge", int(back)):
                        before_ms = now_ms - back
                        await _purge(store, before_ms=before_ms, now_ms=FAR_MS)
                        ended = {one: at_ms for one, at_ms in ended.items() if at_ms >= before_ms}
                        put = {one: at_ms for one, at_ms in put.items() if at_ms >= before_ms}
                await check_consistent(store, state_dir, bytes_max=FAR_MS)
            kept = await store.calls.page(limit=200)
            assert {view.record.call_id for view in kept.items} == set(ended)
            assert await _count(store, reservations) == len(ended) + len(live)
            assert {path.name for path in files_of(state_dir)} == set(put)
            assert files_of(state_dir) == await entry_files(store, state_dir)

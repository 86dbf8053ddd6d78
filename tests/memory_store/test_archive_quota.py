"""What a tenant may keep: the newest that fits, and nothing at anybody else's expense."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from begun import begun_for_one
from contracts.builders import AGENT, SESSION, TENANT
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.ids import ArchiveId, CallId, TenantId
from memory_store import archive_rows
from memory_store.archive import ArchiveEntry
from memory_store.archive_files import ArchiveFiles
from memory_store.archive_rows import Placement, place
from memory_store.engine import Durability
from memory_store.errors import (
    ArchiveNotFoundError,
    ArchiveTooLargeError,
    StoreOverloadedError,
    StoreUnavailableError,
)
from memory_store.store import Store, open_store
from memory_store.writer import Writer
from tests.memory_store.consistency import check_consistent, entry_files, files_of

pytestmark = pytest.mark.anyio

BYTES_MAX = 100
GLOBEX = TenantId("globex")


@pytest.fixture
async def store(state_dir: Path) -> AsyncIterator[Store]:
    async with open_store(
        state_dir, durability=Durability.PROCESS, archive_bytes_max_per_tenant=BYTES_MAX
    ) as opened:
        yield opened


async def _put(
    store: Store, size_bytes: int, *, now_ms: int, tenant: TenantId = TENANT
) -> ArchiveEntry:
    return await store.archive.put(
        b"x" * size_bytes,
        tenant=tenant,
        agent=AGENT,
        session=SESSION,
        call_id=CallId("call_1"),
        media_type="text/plain",
        now_ms=now_ms,
    )


async def _is_kept(store: Store, entry: ArchiveEntry, tenant: TenantId = TENANT) -> bool:
    try:
        await store.archive.read(entry.archive_id, tenant=tenant, agent=AGENT)
    except ArchiveNotFoundError:
        return False
    return True


async def test_the_oldest_entries_give_way_and_no_more_than_needed(
    store: Store, state_dir: Path
) -> None:
    # Put in another order than they are old.
    entries = {at_ms: await _put(store, 30, now_ms=at_ms) for at_ms in (3, 1, 2)}

    newest = await _put(store, 50, now_ms=4)

    kept = {at_ms: await _is_kept(store, entry) for at_ms, entry in entries.items()}
    assert kept == {1: False, 2: False, 3: True}
    assert await _is_kept(store, newest)
    assert files_of(state_dir) == await entry_files(store, state_dir)


async def test_a_quota_that_is_exactly_full_evicts_nothing(store: Store) -> None:
    first = await _put(store, 60, now_ms=1)

    second = await _put(store, 40, now_ms=2)

    assert await _is_kept(store, first)
    assert await _is_kept(store, second)


async def test_another_tenant_loses_nothing(store: Store) -> None:
    others = await _put(store, BYTES_MAX, now_ms=1, tenant=GLOBEX)

    for at_ms in range(2, 6):
        await _put(store, BYTES_MAX, now_ms=at_ms)

    assert await _is_kept(store, others, GLOBEX)


async def test_content_larger_than_the_quota_is_refused_and_evicts_nothing(
    store: Store, state_dir: Path
) -> None:
    kept = await _put(store, BYTES_MAX, now_ms=1)

    with pytest.raises(ArchiveTooLargeError, match="101 bytes are above the 100"):
        await _put(store, BYTES_MAX + 1, now_ms=2)

    assert await _is_kept(store, kept)
    assert len(files_of(state_dir)) == 1


async def test_room_is_made_in_bounded_transactions(
    store: Store, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_rows, "REMOVED_AT_ONCE", 4)
    placements: list[Placement] = []

    def watched(*arguments: object, **named: object) -> Placement:
        placements.append(place(*arguments, **named))
        return placements[-1]

    for at_ms in range(10):
        await _put(store, 10, now_ms=at_ms)
    monkeypatch.setattr("memory_store.archive.place", watched)

    await _put(store, BYTES_MAX, now_ms=10)

    assert [len(placement.evicted) for placement in placements] == [4, 4, 2]
    assert [placement.is_stored for placement in placements] == [False, False, True]
    assert len(files_of(state_dir)) == 1


async def test_a_quota_that_was_lowered_is_kept_from_the_next_entry_on(state_dir: Path) -> None:
    async with open_store(state_dir) as store:
        for at_ms in range(5):
            await _put(store, 50, now_ms=at_ms)

    async with open_store(state_dir, archive_bytes_max_per_tenant=BYTES_MAX) as store:
        await _put(store, 50, now_ms=5)

        await check_consistent(store, state_dir, bytes_max=BYTES_MAX)
        assert len(files_of(state_dir)) == 2


async def test_an_eviction_whose_files_stay_is_not_the_callers_trouble(
    store: Store, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_self: ArchiveFiles, _paths: object) -> None:
        raise StoreUnavailableError

    evicted = await _put(store, BYTES_MAX, now_ms=1)
    monkeypatch.setattr(ArchiveFiles, "remove", failing)

    entry = await _put(store, BYTES_MAX, now_ms=2)

    assert await _is_kept(store, entry)
    assert not await _is_kept(store, evicted)
    assert len(files_of(state_dir)) == 2
    monkeypatch.undo()
    assert await store.archive.sweep(before_ms=2**60) == 1
    assert files_of(state_dir) == await entry_files(store, state_dir)


async def test_a_put_that_the_writer_refuses_leaves_no_file(
    store: Store, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_arguments: object, **_named: object) -> None:
        raise StoreOverloadedError

    monkeypatch.setattr(Writer, "run", full)

    with pytest.raises(StoreOverloadedError):
        await _put(store, 1, now_ms=1)

    assert files_of(state_dir) == set()


async def test_concurrent_puts_stay_within_the_quota(store: Store, state_dir: Path) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for at_ms in range(40):
                tenant = TENANT if at_ms % 2 else GLOBEX
                group.start_soon(partial(_put, store, 7, now_ms=at_ms, tenant=tenant))

    await check_consistent(store, state_dir, bytes_max=BYTES_MAX)
    assert files_of(state_dir) == await entry_files(store, state_dir)
    assert len(files_of(state_dir)) == 2 * (BYTES_MAX // 7)


async def test_an_entry_that_is_removed_while_it_is_read_was_not_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = await _put(store, 10, now_ms=1)
    loop = asyncio.get_running_loop()
    read = ArchiveFiles.read

    def removed_first(self: ArchiveFiles, path: Path, *, sha256: str) -> bytes:
        # The row was found and the file is about to be opened, in a thread of its own.
        removal = store.archive.remove(before_ms=2)
        assert asyncio.run_coroutine_threadsafe(removal, loop).result(timeout=60) == 1
        return read(self, path, sha256=sha256)

    monkeypatch.setattr(ArchiveFiles, "read", removed_first)

    with anyio.fail_after(60), pytest.raises(ArchiveNotFoundError):
        await store.archive.read(entry.archive_id, tenant=TENANT, agent=AGENT)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([TENANT, GLOBEX]), st.integers(0, BYTES_MAX)), max_size=25)
)
def test_what_is_kept_is_each_tenants_longest_run_of_newest_that_fits(
    sqlite_model: Path, puts: list[tuple[TenantId, int]]
) -> None:
    anyio.run(_keeps_the_newest_that_fit, sqlite_model, puts)


async def _keeps_the_newest_that_fit(database: Path, puts: list[tuple[TenantId, int]]) -> None:
    model: dict[TenantId, list[tuple[ArchiveId, int]]] = defaultdict(list)
    with begun_for_one(database) as state_dir:
        async with open_store(
            state_dir, durability=Durability.PROCESS, archive_bytes_max_per_tenant=BYTES_MAX
        ) as store:
            for at_ms, (tenant, size_bytes) in enumerate(puts):
                entry = await _put(store, size_bytes, now_ms=at_ms, tenant=tenant)
                kept = model[tenant]
                while sum(size for _, size in kept) + size_bytes > BYTES_MAX:
                    kept.pop(0)
                kept.append((entry.archive_id, size_bytes))
                await check_consistent(store, state_dir, bytes_max=BYTES_MAX)
            names = {archive_id for kept in model.values() for archive_id, _ in kept}
            assert {path.name for path in files_of(state_dir)} == names

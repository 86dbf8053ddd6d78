"""Files that no row names go; those whose row is still to come never do."""

import os
import threading
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from contracts.builders import AGENT, IN_FILES, SESSION, TENANT
from sqlalchemy import Connection

from governor.ids import CallId
from memory_store.archive import ArchiveEntry
from memory_store.errors import StoreUnavailableError
from memory_store.retention import ORPHAN_GRACE_MS, Purged
from memory_store.store import Store
from tests.memory_store.consistency import entry_files, files_of

pytestmark = [pytest.mark.anyio, IN_FILES]

BEFORE_MS = 5_000
# Later than any file that a test writes.
FAR_MS = 2**50


async def _purge(store: Store, *, before_ms: int = BEFORE_MS, now_ms: int = 0) -> Purged:
    return await store.retention.purge(before_ms=before_ms, now_ms=now_ms)


async def _put(store: Store, *, now_ms: int) -> ArchiveEntry:
    return await store.archive.put(
        b"content",
        tenant=TENANT,
        agent=AGENT,
        session=SESSION,
        call_id=CallId("call_1"),
        media_type="text/plain",
        now_ms=now_ms,
    )


async def test_an_orphan_goes_after_its_grace_and_nothing_else_does(
    store: Store, state_dir: Path
) -> None:
    entry = await _put(store, now_ms=FAR_MS)
    (kept,) = files_of(state_dir)
    name = "arc_" + "0" * 32
    orphan, unfinished = kept.with_name(name), kept.with_name(f"{name}.tmp")
    strangers = {kept.with_name("notes.txt"), kept.parent.parent / name}
    for path in (orphan, unfinished, *strangers):
        path.write_bytes(b"left")
        os.utime(path, (1_000, 1_000))
    others = kept.parent.parent / "other"
    others.mkdir()
    strangers.add(others / "link")
    (others / "link").symlink_to(kept)

    assert (await _purge(store, now_ms=1_000_000 + ORPHAN_GRACE_MS)).orphans == 0
    assert orphan in files_of(state_dir)

    assert (await _purge(store, now_ms=1_000_000 + ORPHAN_GRACE_MS + 1)).orphans == 2

    assert files_of(state_dir) == {kept, *strangers}
    assert (await _purge(store, before_ms=1, now_ms=FAR_MS)).orphans == 0
    await store.archive.read(entry.archive_id, tenant=TENANT, agent=AGENT)


async def test_a_file_whose_row_is_still_to_come_is_no_orphan(
    store: Store, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However old it is: the machine may have slept between the file and the row."""
    written, go_on = anyio.Event(), anyio.Event()
    place = type(store.archive)._place

    async def held_up(self: object, row: object) -> None:
        written.set()
        await go_on.wait()
        await place(self, row)

    monkeypatch.setattr(type(store.archive), "_place", held_up)
    entries: list[ArchiveEntry] = []

    async def put() -> None:
        entries.append(await _put(store, now_ms=FAR_MS))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(put)
            await written.wait()
            assert len(files_of(state_dir)) == 1
            assert (await _purge(store, now_ms=FAR_MS)).orphans == 0
            go_on.set()

    await store.archive.read(entries[0].archive_id, tenant=TENANT, agent=AGENT)


async def test_a_file_whose_row_waits_in_the_queue_is_no_orphan(
    store: Store, state_dir: Path
) -> None:
    """The caller is gone, so nobody but the queue knows that the row will come."""
    started, go_on = threading.Event(), threading.Event()

    def busy(_connection: Connection) -> None:
        started.set()
        assert go_on.wait(60)

    with anyio.fail_after(60):
        blocked = store.writer.submit(busy)
        await anyio.to_thread.run_sync(started.wait, 60)
        async with anyio.create_task_group() as callers:
            callers.start_soon(partial(_put, store, now_ms=FAR_MS))
            while not store.writer._queue.qsize():
                await checkpoint()
            callers.cancel_scope.cancel()
        async with anyio.create_task_group() as group:
            swept: list[int] = []

            async def sweep() -> None:
                swept.append(await store.archive.sweep(before_ms=FAR_MS))

            group.start_soon(sweep)
            while store.writer._queue.qsize() < 2:
                await checkpoint()
            go_on.set()
        await blocked

    assert swept == [0]
    assert files_of(state_dir) == await entry_files(store, state_dir)
    assert len(files_of(state_dir)) == 1


async def test_a_disk_that_refuses_fails_the_purge_and_the_next_one_makes_up_for_it(
    store: Store, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _put(store, now_ms=1)

    def refusing(_self: Path, **_options: bool) -> None:
        message = "read-only file system"
        raise OSError(message)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refusing)
        with pytest.raises(StoreUnavailableError):
            await _purge(store)
        with pytest.raises(StoreUnavailableError):
            await _purge(store, now_ms=FAR_MS)

    assert await entry_files(store, state_dir) == set()
    assert (await _purge(store, now_ms=FAR_MS)).orphans == 1
    assert files_of(state_dir) == set()


async def test_a_folder_that_cannot_be_listed_is_a_failure(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _put(store, now_ms=FAR_MS)

    def refusing(_folder: Path) -> None:
        message = "input/output error"
        raise OSError(message)

    monkeypatch.setattr(os, "scandir", refusing)

    with pytest.raises(StoreUnavailableError):
        await _purge(store)

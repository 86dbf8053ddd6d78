import os
import stat
from pathlib import Path

import pytest
from contracts.builders import AGENT, IN_FILES, SESSION, TENANT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from governor.ids import ArchiveId, CallId, PrincipalId, TenantId
from memory_store import archive as archive_module
from memory_store.archive import ArchiveEntry
from memory_store.errors import (
    ArchiveCorruptError,
    ArchiveNotFoundError,
    ArchiveTooLargeError,
    StoreUnavailableError,
)
from memory_store.store import Store

pytestmark = pytest.mark.anyio


async def _put(store: Store, content: bytes, *, tenant: TenantId = TENANT) -> ArchiveEntry:
    return await store.archive.put(
        content,
        tenant=tenant,
        agent=AGENT,
        session=SESSION,
        call_id=CallId("call_1"),
        media_type="text/plain",
        now_ms=1,
    )


def _files(state_dir: Path) -> list[Path]:
    return [path for path in (state_dir / "archive").rglob("*") if path.is_file()]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=2_000), offset=st.integers(0, 2_100), length=st.integers(0, 500))
async def test_what_is_read_is_byte_for_byte_what_was_put(
    store: Store, content: bytes, offset: int, length: int
) -> None:
    entry = await _put(store, content)

    part = await store.archive.read(
        entry.archive_id, tenant=TENANT, agent=AGENT, offset=offset, length=length
    )

    assert part.content == content[offset : offset + length]
    assert (part.total_bytes, part.sha256) == (len(content), entry.sha256)


async def test_one_read_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "SLICE_BYTES_MAX", 10)
    entry = await _put(store, b"x" * 100)

    part = await store.archive.read(
        entry.archive_id, tenant=TENANT, agent=AGENT, offset=-5, length=10**9
    )

    assert (part.offset, len(part.content)) == (0, 10)


@pytest.mark.parametrize(
    ("tenant", "agent"), [(TENANT, "bob"), ("globex", AGENT), ("globex", "bob")]
)
async def test_another_agent_gets_the_answer_for_an_unknown_entry(
    store: Store, tenant: str, agent: str
) -> None:
    entry = await _put(store, b"secret")

    with pytest.raises(ArchiveNotFoundError) as others:
        await store.archive.read(
            entry.archive_id, tenant=TenantId(tenant), agent=PrincipalId(agent)
        )
    with pytest.raises(ArchiveNotFoundError) as unknown:
        await store.archive.read(ArchiveId("arc_none"), tenant=TENANT, agent=AGENT)

    assert str(others.value) == str(unknown.value)


@IN_FILES
async def test_a_changed_file_is_corrupt(store: Store, state_dir: Path) -> None:
    entry = await _put(store, b"the whole truth")
    (file,) = _files(state_dir)
    file.write_bytes(b"the whole truce")

    with pytest.raises(ArchiveCorruptError):
        await store.archive.read(entry.archive_id, tenant=TENANT, agent=AGENT, offset=0, length=3)


@IN_FILES
async def test_a_missing_file_is_corrupt(store: Store, state_dir: Path) -> None:
    entry = await _put(store, b"the whole truth")
    (file,) = _files(state_dir)
    file.unlink()

    with pytest.raises(ArchiveCorruptError):
        await store.archive.read(entry.archive_id, tenant=TENANT, agent=AGENT)


@IN_FILES
async def test_files_are_for_their_owner_only_and_apart_by_tenant(
    store: Store, state_dir: Path
) -> None:
    await _put(store, b"one")
    await _put(store, b"two", tenant=TenantId("../../globex"))

    files = _files(state_dir)

    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert len({file.parent for file in files}) == 2
    assert {file.parent.parent for file in files} == {state_dir / "archive"}


async def test_content_above_the_limit_is_refused(
    store: Store, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "CONTENT_BYTES_MAX", 3)

    with pytest.raises(ArchiveTooLargeError):
        await _put(store, b"four")

    assert _files(state_dir) == []


@IN_FILES
async def test_a_disk_that_fails_leaves_no_file_behind(
    store: Store, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_descriptor: int) -> None:
        message = "no space left on device"
        raise OSError(message)

    monkeypatch.setattr(os, "fsync", failing)

    with pytest.raises(StoreUnavailableError):
        await _put(store, b"content")

    assert _files(state_dir) == []

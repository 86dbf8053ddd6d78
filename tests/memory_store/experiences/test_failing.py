"""Experiences on a full disk, and in a process that is killed: nothing lost, nothing half."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path

import anyio
import pytest
from sqlalchemy import text

from governor.ids import ExperienceId, NamespaceId, TenantId
from memory_store.engine import Durability
from memory_store.errors import ExperienceNotFoundError, StoreUnavailableError
from memory_store.experiences.drafts import ReadyDraft
from memory_store.experiences.scrubbing import Scrubbing
from memory_store.store import Store, open_store
from tests.memory_store.experiences.makers import ACME, NOW, draft, ids, one, space_of, wrote

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
BLOB = b"evidence" * 1_000

# Writes small and large ones, some made of others, and erases every fifth; says so line by line.
CHILD = """
import sys
from pathlib import Path

import anyio

from memory_store.engine import Durability
from memory_store.store import open_store
from tests.memory_store.experiences.makers import ACME, BY, draft, ids, space_of, wrote


async def main():
    async with open_store(Path(sys.argv[1]), durability=Durability.PROCESS) as store:
        space = await space_of(store)

        async def client(who):
            number = 0
            while True:
                number += 1
                name = f"{who}_{number}"
                made_of = (f"{who}_{number - 1}",) if number % 5 == 0 else ()
                content = name.encode() * (2_000 if number % 2 else 20)
                await wrote(store, draft(name, space, content=content, made_of=made_of))
                print("wrote", name, flush=True)
                if number % 5 == 1 and number > 1:
                    gone = f"{who}_{number - 2}"
                    print("erasing", gone, f"{who}_{number - 1}", flush=True)
                    await store.experiences.erase(ids=ids(gone), tenant=ACME, **BY)
                    print("erased", gone, f"{who}_{number - 1}", flush=True)

        async with anyio.create_task_group() as group:
            for who in range(8):
                group.start_soon(client, f"c{who}")


anyio.run(main)
"""


def told_until_killed(state_dir: Path) -> list[list[str]]:
    """Return what a child said that it did before it was killed in the middle of its work."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(state_dir)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    ) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(400)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    return [line.split() for line in lines if line.endswith("\n")]


def names_of(told: list[list[str]], said: str) -> set[str]:
    return {name for verb, *names in told if verb == said for name in names}


def content_of(name: str) -> bytes:
    return name.encode() * (2_000 if int(name.rpartition("_")[2]) % 2 else 20)


@pytest.mark.requirement("memory.crash")
async def test_what_was_acknowledged_survives_kill_9_and_what_was_erased_does_not(
    tmp_path: Path,
) -> None:
    told = await anyio.to_thread.run_sync(told_until_killed, tmp_path / "state")
    written, erased = names_of(told, "wrote"), names_of(told, "erased")
    doubtful = names_of(told, "erasing") - erased

    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        await store.retention.purge(before_ms=0, now_ms=2**45)
        looked = await store.upkeep.check.look(ACME)
        for name in sorted(written - erased - doubtful):
            read = await store.experiences.content(ExperienceId(f"exp_{name}"), tenant=ACME)
            assert read.content == content_of(name)
        for name in sorted(erased):
            with pytest.raises(ExperienceNotFoundError):
                await one(store, name)

    assert len(written) > 100
    assert looked.problems == ()


@pytest.fixture
async def file_store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        yield store


@pytest.mark.requirement("memory.full-disk")
async def test_a_full_disk_refuses_and_loses_nothing(file_store: Store) -> None:
    space = await space_of(file_store)
    await wrote(file_store, draft("first", space))
    pages = await pragma(file_store, "page_count")
    await pragma(file_store, f"max_page_count = {pages + 20}")

    with anyio.fail_after(60):
        stored = await stored_until_refused(file_store, space)

    looked = await file_store.upkeep.check.look(ACME)
    assert stored < 10_000
    assert (looked.experiences, looked.problems) == (stored + 1, ())
    assert (await file_store.experiences.content(ids("first")[0], tenant=ACME)).content
    await pragma(file_store, "max_page_count = 1073741823")
    await wrote(file_store, draft(f"n{stored}", space, content=b"x" * 4_000))
    assert await there_are(file_store, space) == stored + 2


async def stored_until_refused(store: Store, space: NamespaceId) -> int:
    """Return how many were stored before one was refused."""
    for number in range(10_000):
        try:
            await wrote(store, draft(f"n{number}", space, content=b"x" * 4_000))
        except StoreUnavailableError:
            return number
    return 10_000


async def pragma(store: Store, words: str) -> int:
    statement = text(f"PRAGMA {words}")
    return await store.writer.run(lambda connection: connection.scalar(statement) or 0)


async def there_are(store: Store, space: NamespaceId) -> int:
    (usage,) = await store.namespaces.usage(tenant=ACME)
    assert usage.namespace == space
    return usage.items


@pytest.mark.requirement("memory.full-disk")
async def test_a_blob_that_finds_no_room_leaves_neither_row_nor_file(
    file_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = await space_of(file_store)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("memory_store.archive_files.os.fsync", full)
        with pytest.raises(StoreUnavailableError):
            await wrote(file_store, draft("small", space), draft("big", space, content=BLOB))

    folder = tmp_path / "state" / "experiences"
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    with pytest.raises(ExperienceNotFoundError):
        await one(file_store, "small")
    await wrote(file_store, draft("small", space), draft("big", space, content=BLOB))
    assert (await file_store.upkeep.check.look(ACME)).problems == ()


@pytest.mark.requirement("memory.erase")
async def test_what_a_crash_left_of_the_words_is_overwritten_after_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correcthorsebatterystaple"

    async def killed(_scrubbing: Scrubbing) -> None:
        raise StoreUnavailableError

    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        space = await space_of(store)
        await wrote(store, draft("a", space, summary=secret, terms=secret), draft("b", space))
        with monkeypatch.context() as patched:
            patched.setattr(Scrubbing, "scrub", killed)
            with pytest.raises(StoreUnavailableError):
                await store.experiences.erase(
                    ids=ids("a"), tenant=ACME, by="root", why="asked", now_ms=NOW
                )
    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        await store.retention.purge(before_ms=0, now_ms=NOW)
        files = [path for path in (tmp_path / "state").iterdir() if path.is_file()]
        assert [path.name for path in files if secret.encode() in path.read_bytes()] == []


@pytest.mark.requirement("memory.corruption")
async def test_a_blob_that_cannot_be_read_is_said_to_be_missing(
    file_store: Store, tmp_path: Path
) -> None:
    space = await space_of(file_store)
    await wrote(file_store, draft("big", space, content=BLOB), draft("small", space))
    (blob,) = (tmp_path / "state" / "experiences").rglob("exb_*")
    blob.unlink()
    blob.mkdir()

    looked = await file_store.upkeep.check.look(ACME)

    assert [problem.experience_id for problem in looked.problems] == list(ids("big"))


@pytest.mark.requirement("memory.purge-and-read")
async def test_a_content_that_is_erased_while_it_is_written_again_is_stored(
    file_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = await space_of(file_store)
    known, new = b"known" * 2_000, b"new" * 2_000
    await wrote(file_store, draft("known", space, content=known))
    book, rounds = file_store.experiences, 0
    put = book.withdrawal.blobs.put

    async def erased_first(
        tenant: TenantId, drafts: Sequence[ReadyDraft], addresses: Collection[str]
    ) -> Mapping[str, str]:
        nonlocal rounds
        rounds += 1
        assert rounds < 5, "it would go on for ever"
        if rounds == 1:
            await book.erase(ids=ids("known"), tenant=ACME, by="root", why="asked", now_ms=NOW)
        return await put(tenant, drafts, addresses)

    monkeypatch.setattr(book.withdrawal.blobs, "put", erased_first)
    await wrote(file_store, draft("a", space, content=new), draft("b", space, content=known))

    read = await book.content(ids("b")[0], tenant=ACME)
    assert read.content == known
    assert (await file_store.upkeep.check.look(ACME)).problems == ()


@pytest.mark.requirement("memory.corruption")
async def test_a_blob_that_is_missing_is_said_to_be(file_store: Store, tmp_path: Path) -> None:
    space = await space_of(file_store)
    await wrote(file_store, draft("big", space, content=BLOB), draft("small", space))

    shutil.rmtree(tmp_path / "state" / "experiences")

    looked = await file_store.upkeep.check.look(ACME)
    assert [(problem.what, problem.experience_id) for problem in looked.problems] == [
        ("its content is missing or not what was written", ids("big")[0])
    ]
    # It can be withdrawn all the same.
    gone = await file_store.experiences.erase(
        ids=ids("big"), tenant=ACME, by="root", why="lost", now_ms=NOW
    )
    assert gone.experiences == 1
    assert (await file_store.upkeep.check.look(ACME)).problems == ()

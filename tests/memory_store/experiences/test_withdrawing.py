"""Experiences on each database: revoked and erased, with what was made of them, without a trace."""

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection, Table, select

from governor.experience.chain import LogEvent, breaks_in, first_hash
from governor.experience.kinds import Standing, TrustLane
from governor.ids import NamespaceId, SessionId
from memory_store.errors import (
    ExperienceCorruptError,
    ExperienceNotFoundError,
    InvalidExperienceError,
)
from memory_store.experiences.erasing import ERASED_AT_ONCE
from memory_store.experiences.tables import (
    experience_blobs,
    experience_contents,
    experience_links,
    experience_terms,
    experience_uses,
    experience_vectors,
    experiences,
)
from memory_store.experiences.values import Changed, UseNote
from memory_store.store import Store
from tests.memory_store.experiences.makers import (
    ACME,
    ADA,
    BOB,
    BY,
    GLOBEX,
    NOW,
    draft,
    ids,
    one,
    space_of,
    standings,
    wrote,
)

pytestmark = pytest.mark.anyio

# One word, as an index of words would keep it.
SECRET = b"correcthorsebatterystaple"
BLOB = SECRET * 400


async def rows_in(store: Store, *tables: Table) -> list[int]:
    """Return how many rows each table has."""

    def read(connection: Connection) -> list[int]:
        return [len(connection.execute(select(table)).all()) for table in tables]

    return await store.reader.run(read)


async def is_gone(store: Store, name: str) -> bool:
    try:
        await one(store, name)
    except ExperienceNotFoundError:
        return True
    return False


@pytest.mark.requirement("memory.revoke-writer")
async def test_what_a_writer_wrote_is_revoked_with_all_that_was_made_of_it(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("before", space, writer=BOB, learned_at_ms=1, valid_from_ms=1))
    await wrote(kept, draft("bad", space, writer=BOB), draft("good", space))
    await wrote(kept, draft("lesson", space, made_of=("bad", "good")))
    await wrote(kept, draft("rule", space, made_of=("lesson",)), draft("apart", space))

    changed = await kept.experiences.revoke_writer(BOB, tenant=ACME, since_ms=2, **BY)
    again = await kept.experiences.revoke_writer(BOB, tenant=ACME, since_ms=2, **BY)

    assert changed == Changed(experiences=3, derived=2)
    assert again == Changed(experiences=0)
    active, revoked = Standing.ACTIVE, Standing.REVOKED
    names = ("before", "bad", "good", "lesson", "rule", "apart")
    assert await standings(kept, *names) == [active, revoked, active, revoked, revoked, active]
    entries = await kept.experiences.log_since(ACME, number=6)
    assert [(entry.event, entry.standing, entry.by) for entry in entries] == [
        (LogEvent.MARKED, revoked, "root")
    ] * 3


async def test_a_revoked_correction_no_longer_hides_what_it_corrected(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("true", space))
    await wrote(kept, draft("attack", space, writer=BOB, supersedes="true"))
    hidden = await standings(kept, "true")

    await kept.experiences.revoke_writer(BOB, tenant=ACME, **BY)

    assert hidden == [Standing.SUPERSEDED]
    assert await standings(kept, "true", "attack") == [Standing.ACTIVE, Standing.REVOKED]
    await wrote(kept, draft("correction", space, supersedes="true"))
    await kept.experiences.erase(ids=ids("correction"), tenant=ACME, **BY)
    assert await standings(kept, "true") == [Standing.ACTIVE]


async def test_marking_is_all_or_nothing_and_supersedes_nothing_by_order(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space))

    with pytest.raises(ExperienceNotFoundError):
        await kept.experiences.mark(ids("a", "nobody"), Standing.QUARANTINED, tenant=ACME, **BY)
    with pytest.raises(InvalidExperienceError):
        await kept.experiences.mark(ids("a"), Standing.SUPERSEDED, tenant=ACME, **BY)
    same = await kept.experiences.mark(ids("a"), Standing.ACTIVE, tenant=ACME, **BY)

    assert await standings(kept, "a") == [Standing.ACTIVE]
    assert same == Changed(experiences=0)


@pytest.mark.requirement("memory.revoke-writer")
async def test_what_is_revoked_stays_so_whatever_was_decided_before(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("old", space), draft("bad", space, standing=Standing.QUARANTINED))
    await wrote(kept, draft("fix", space, supersedes="old", standing=Standing.QUARANTINED))
    await kept.experiences.mark(ids("bad", "fix"), Standing.REVOKED, tenant=ACME, **BY)

    for late in (Standing.ACTIVE, Standing.QUARANTINED):
        changed = await kept.experiences.mark(ids("bad", "fix"), late, tenant=ACME, **BY)
        assert changed == Changed(experiences=0)

    revoked = Standing.REVOKED
    assert await standings(kept, "bad", "fix", "old") == [revoked, revoked, Standing.ACTIVE]


@pytest.mark.requirement("memory.erase")
async def test_what_is_erased_leaves_a_tombstone_and_no_row(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space, content=BLOB), draft("keep", space))
    await wrote(kept, draft("lesson", space, made_of=("a",)), draft("new", space, supersedes="a"))
    note = UseNote(experience_id=ids("a")[0], reader=BOB, at_ms=NOW)
    await kept.experiences.note_use((note,), tenant=ACME)
    receipt = (await kept.experiences.content(ids("a")[0], tenant=ACME)).receipt

    changed = await kept.experiences.erase(ids=ids("a", "nobody"), tenant=ACME, **BY)

    assert changed == Changed(experiences=2, derived=1)
    assert [await is_gone(kept, name) for name in ("a", "lesson", "keep")] == [True, True, False]
    tables = (experiences, experience_terms, experience_vectors)
    assert await rows_in(kept, *tables) == [2, 2, 2]
    emptied = (experience_links, experience_uses, experience_blobs, experience_contents)
    assert await rows_in(kept, *emptied) == [0, 0, 0, 0]
    entries = await kept.experiences.log_since(ACME, number=0)
    assert breaks_in(entries, after_number=0, after_hash=first_hash(ACME)) == []
    tombs = [entry for entry in entries if entry.event is LogEvent.ERASED]
    assert [(tomb.experience_id, tomb.standing, tomb.why) for tomb in tombs] == [
        (ids("a")[0], None, "asked for"),
        (ids("lesson")[0], None, "asked for"),
    ]
    finding = await kept.experiences.proves(receipt)
    assert (finding.is_genuine, finding.is_logged, finding.is_erased) == (True, True, True)
    (usage,) = await kept.namespaces.usage(tenant=ACME)
    assert usage.items == 2


@pytest.mark.requirement("memory.erase")
async def test_no_byte_of_what_was_erased_is_left_on_the_disk(
    kept: Store, space: NamespaceId, tmp_path: Path
) -> None:
    if kept.is_shared:
        return  # a server overwrites in its own time, which is said in the README
    small = draft("small", space, content=SECRET, summary=SECRET.decode(), terms=SECRET.decode())
    await wrote(kept, small, draft("large", space, content=BLOB))
    written = leaks(tmp_path)

    await kept.experiences.erase(namespace=space, tenant=ACME, **BY)

    assert written, "it was there to be found"
    assert leaks(tmp_path) == []


@pytest.mark.requirement("memory.erase")
async def test_what_somebody_still_reads_is_overwritten_when_they_have_done(
    kept: Store, space: NamespaceId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept.is_shared:
        return  # a server overwrites in its own time, which is said in the README
    monkeypatch.setattr("memory_store.experiences.scrubbing.TRY_EVERY_SECONDS", 0)
    await wrote(kept, draft("a", space, content=SECRET, summary=SECRET.decode()))
    with closing(
        sqlite3.connect(tmp_path / "state" / "flyball.db", isolation_level=None)
    ) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM experiences").fetchone()
        await kept.experiences.erase(ids=ids("a"), tenant=ACME, **BY)
        still = leaks(tmp_path)

    await kept.retention.purge(before_ms=0, now_ms=NOW)

    assert still, "the log was kept for who reads"
    assert leaks(tmp_path) == []


def leaks(folder: Path) -> list[str]:
    """Return the files that hold the secret."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if SECRET in path.read_bytes()]


async def test_a_blob_goes_with_the_last_that_holds_it(kept: Store, space: NamespaceId) -> None:
    elsewhere = await space_of(kept, tenant=GLOBEX)
    await wrote(kept, draft("a", space, content=BLOB), draft("b", space, content=BLOB))
    await wrote(kept, draft("c", space, content=BLOB))
    await wrote(kept, draft("z", elsewhere, tenant=GLOBEX, content=BLOB))
    shared = await rows_in(kept, experience_blobs)

    await kept.experiences.erase(ids=ids("a"), tenant=ACME, **BY)
    still = (await kept.experiences.content(ids("b")[0], tenant=ACME)).content
    await kept.experiences.erase(ids=ids("b", "c"), tenant=ACME, **BY)

    # One for all of a tenant, and none for two tenants.
    assert shared == [2]
    assert still == BLOB
    assert await rows_in(kept, experience_blobs) == [1]
    assert (await kept.experiences.content(ids("z")[0], tenant=GLOBEX)).content == BLOB
    await wrote(kept, draft("d", space, content=BLOB))
    assert (await kept.experiences.content(ids("d")[0], tenant=ACME)).content == BLOB


async def test_what_others_made_of_it_is_put_aside_where_only_ones_own_may_go(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space))
    await wrote(
        kept,
        draft("mine", space, made_of=("a",)),
        draft("his", space, made_of=("a",), writer=BOB),
        draft("rule", space, made_of=("a",), writer=BOB, lane=TrustLane.OPERATOR),
    )

    changed = await kept.experiences.erase(ids=ids("a"), only_of=ADA, tenant=ACME, **BY)

    assert changed == Changed(experiences=2, derived=1, quarantined=1)
    assert [await is_gone(kept, name) for name in ("a", "mine")] == [True, True]
    assert await standings(kept, "his", "rule") == [Standing.QUARANTINED, Standing.ACTIVE]
    assert await rows_in(kept, experience_links) == [0]


async def test_many_are_erased_a_few_at_a_time(kept: Store, space: NamespaceId) -> None:
    count = ERASED_AT_ONCE * 2 + 3
    await wrote(kept, *(draft(f"n{n}", space, session="ses_b") for n in range(count)))
    await wrote(kept, draft("keep", space))

    changed = await kept.experiences.erase(session=SessionId("ses_b"), tenant=ACME, **BY)

    assert changed.experiences == count
    assert await rows_in(kept, experiences) == [1]
    with pytest.raises(InvalidExperienceError, match="name what is to be erased"):
        await kept.experiences.erase(tenant=ACME, **BY)
    assert (await kept.experiences.erase(writer=ADA, tenant=GLOBEX, **BY)).experiences == 0


@pytest.mark.requirement("memory.purge-and-read")
async def test_who_reads_while_it_is_erased_gets_all_of_it_or_is_told_that_it_is_gone(
    kept: Store, space: NamespaceId
) -> None:
    names = [f"n{number}" for number in range(30)]
    await wrote(kept, *(draft(name, space, content=name.encode() * 5_000) for name in names))
    read: list[str] = []
    is_over = anyio.Event()

    async def reader() -> None:
        while not is_over.is_set():
            for name in names:
                try:
                    found = await kept.experiences.content(ids(name)[0], tenant=ACME)
                except ExperienceNotFoundError:
                    read.append("gone")
                except ExperienceCorruptError:
                    read.append("corrupt")
                else:
                    assert found.content == name.encode() * 5_000
                    read.append("whole")

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            tasks.start_soon(reader)
            for name in names:
                await kept.experiences.erase(ids=ids(name), tenant=ACME, **BY)
            is_over.set()

    assert "corrupt" not in read
    assert await rows_in(kept, experiences, experience_blobs) == [0, 0]


async def test_other_tables_forget_what_is_revoked_and_erased(
    kept: Store, space: NamespaceId
) -> None:
    forgotten: list[tuple[str, ...]] = []
    book = kept.experiences
    hooked = type(book)(
        writer=kept.writer,
        reader=kept.reader,
        blobs=book.withdrawal.blobs,
        forgets=(lambda _connection, _tenant, gone: forgotten.append(tuple(gone)),),
    )
    await wrote(kept, draft("a", space), draft("b", space))

    await hooked.mark(ids("a"), Standing.REVOKED, tenant=ACME, **BY)
    await hooked.erase(ids=ids("b"), tenant=ACME, **BY)

    assert forgotten == [ids("a"), ids("b")]

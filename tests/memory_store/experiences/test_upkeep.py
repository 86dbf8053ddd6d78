"""Experiences on each database: kept for so long, looked through, carried to another store."""

import shutil
from pathlib import Path

import anyio
import pytest
from sqlalchemy import func, select, text

from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.ids import ExperienceId, NamespaceId
from memory_store.engine import Durability
from memory_store.errors import ExperienceCorruptError, ExperienceNotFoundError
from memory_store.experiences.tables import (
    experience_blobs,
    experience_contents,
    experiences,
)
from memory_store.experiences.transfer import Fault
from memory_store.experiences.values import KeepRule, UseNote
from memory_store.retention import ORPHAN_GRACE_MS
from memory_store.store import Store, open_store
from tests.memory_store.experiences.makers import (
    ACME,
    BOB,
    BY,
    GLOBEX,
    NOW,
    as_it_was,
    draft,
    each,
    ids,
    one,
    problems,
    space_of,
    standings,
    wrote,
)

pytestmark = pytest.mark.anyio

BLOB = b"evidence" * 1_000
LATER = 2**45


async def there(store: Store) -> set[str]:
    """Return the names of what is kept."""
    rows = await store.reader.run(
        lambda connection: connection.scalars(select(experiences.c.experience_id)).all()
    )
    return {row.removeprefix("exp_") for row in rows}


async def change(store: Store, statement: str) -> None:
    """Change a database behind the book's back."""
    await store.writer.run(lambda connection: connection.execute(text(statement)).close())


@pytest.mark.requirement("memory.retention")
async def test_experiences_go_by_tenant_kind_and_age_and_what_was_made_of_them_stays(
    kept: Store, space: NamespaceId
) -> None:
    elsewhere = await space_of(kept, tenant=GLOBEX)
    result, lesson = ExperienceKind.TOOL_RESULT, ExperienceKind.LESSON
    await wrote(
        kept,
        draft("old", space, kind=result, learned_at_ms=5, content=BLOB),
        draft("new", space, kind=result),
        draft("lesson", space, kind=lesson, learned_at_ms=6, made_of=("old",)),
        draft("gone", space, expires_at_ms=NOW + 1),
    )
    await wrote(kept, draft("theirs", elsewhere, tenant=GLOBEX, kind=result, learned_at_ms=5))
    rules = (KeepRule(before_ms=100, tenant=ACME, kind=result),)

    purged = await kept.retention.purge(before_ms=0, now_ms=NOW + 2, experiences=rules)

    assert purged.experiences == 2
    assert await there(kept) == {"new", "lesson", "theirs"}
    assert await problems(kept) == []
    everywhere = (KeepRule(before_ms=100),)
    purged = await kept.retention.purge(before_ms=0, now_ms=NOW + 2, experiences=everywhere)
    assert purged.experiences == 2
    assert await there(kept) == {"new"}


@pytest.mark.requirement("memory.retention")
async def test_notes_of_use_go_with_the_records_of_calls(
    kept: Store, space: NamespaceId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_store.experiences.uses.REMOVED_AT_ONCE", 2)
    await wrote(kept, draft("a", space))
    (index,) = ids("a")
    notes = tuple(UseNote(experience_id=index, reader=BOB, at_ms=at_ms) for at_ms in range(8))
    await kept.experiences.note_use(notes, tenant=ACME)

    await kept.retention.purge(before_ms=5, now_ms=NOW)

    left = await kept.experiences.uses_of(ids("a"), tenant=ACME)
    assert [note.at_ms for note in left] == [7, 6, 5]
    assert await there(kept) == {"a"}


async def test_blobs_that_no_row_names_are_removed_once_they_are_old(
    kept: Store, space: NamespaceId, tmp_path: Path
) -> None:
    await wrote(kept, draft("a", space, content=BLOB), draft("b", space, content=BLOB + b"b"))
    query = select(experience_blobs.c.address).order_by(experience_blobs.c.name)
    addresses = await kept.reader.run(lambda connection: connection.scalars(query).all())
    await change(kept, f"DELETE FROM experience_blobs WHERE address = '{addresses[0]}'")
    before = await blobs_of(kept, tmp_path)

    early = await kept.retention.purge(before_ms=0, now_ms=ORPHAN_GRACE_MS)
    late = await kept.retention.purge(before_ms=0, now_ms=LATER)

    assert (early.orphans, late.orphans) == (0, 1)
    assert (before, await blobs_of(kept, tmp_path)) == (2, 1)


async def blobs_of(store: Store, tmp_path: Path) -> int:
    """Return how many blobs are stored."""
    if not store.is_shared:
        folder = tmp_path / "state" / "experiences"
        return sum(path.is_file() for path in folder.rglob("*"))
    query = select(func.count()).select_from(experience_contents)
    return await store.reader.run(lambda connection: connection.scalar(query) or 0)


@pytest.mark.requirement("memory.fsck")
async def test_books_that_add_up_have_no_problems(kept: Store, space: NamespaceId) -> None:
    await wrote(kept, *(draft(f"n{n}", space, content=BLOB) for n in range(5)))
    await wrote(kept, draft("fix", space, supersedes="n0"), draft("made", space, made_of=("n1",)))
    await kept.experiences.mark(ids("n2"), Standing.QUARANTINED, tenant=ACME, **BY)
    await kept.experiences.erase(ids=ids("n1", "n3"), tenant=ACME, **BY)
    await kept.experiences.revoke_writer(BOB, tenant=ACME, **BY)

    looked = await kept.upkeep.check.look(ACME)

    assert looked.problems == ()
    assert (looked.experiences, looked.entries) == (4, 12)
    assert (await kept.upkeep.check.look(GLOBEX)).problems == ()


async def three(store: Store) -> None:
    """Write a small one, a large one and one that waits in quarantine."""
    space = await space_of(store)
    await wrote(store, draft("a", space), draft("big", space, content=BLOB))
    await wrote(store, draft("q", space, standing=Standing.QUARANTINED, made_of=("big",)))


@pytest.fixture(scope="module")
def file_of_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory with three experiences, to be copied."""
    state_dir = tmp_path_factory.mktemp("three") / "state"

    async def fill() -> None:
        async with open_store(state_dir, durability=Durability.PROCESS) as store:
            await three(store)

    anyio.run(fill)
    return state_dir


@pytest.mark.requirement("memory.fsck")
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("UPDATE experiences SET summary = 'x' WHERE experience_id = 'exp_a'",
         [("it is not what was logged", "exp_a"),
          ("its signature does not hold, so its lane is not proven", "exp_a")]),
        ("UPDATE experiences SET lane = 'operator' WHERE experience_id = 'exp_a'",
         [("it is not what was logged", "exp_a"),
          ("its signature does not hold, so its lane is not proven", "exp_a")]),
        ("UPDATE experiences SET content = salt WHERE experience_id = 'exp_a'",
         [("its content is missing or not what was written", "exp_a")]),
        ("UPDATE experiences SET tags = 'x' WHERE experience_id = 'exp_a'",
         [("its row cannot be read", "exp_a")]),
        ("UPDATE experiences SET standing = 'active' WHERE experience_id = 'exp_q'",
         [("it is active, which nobody logged", "exp_q")]),
        ("DELETE FROM experiences WHERE experience_id = 'exp_a'",
         [("it was written as number 1 and is not there", "exp_a")]),
        ("UPDATE experiences SET summary = x'00' WHERE experience_id = 'exp_a'",
         [("its row cannot be read", "exp_a")]),
        ("UPDATE experiences SET summary = CAST(x'FF' AS TEXT) WHERE experience_id = 'exp_a'",
         [("its row cannot be read", "exp_a")]),
        ("UPDATE experience_log SET standing = 'odd' WHERE number = 2", None),
        ("UPDATE experience_terms SET namespace = 'x' WHERE number = 1",
         [("its words are in another namespace; rebuild the indexes", "exp_a")]),
        ("UPDATE experience_namespaces SET namespace = 'x'",
         [("its namespace is not there", f"exp_{name}") for name in ("a", "big", "q")]),
        ("DELETE FROM experience_links",
         [("it is not tied to exp_big, which it was made of; rebuild the indexes", "exp_q")]),
        ("UPDATE experience_log SET why = 'x' WHERE number = 2",
         [("entry 2 is not what was logged", None)]),
        ("DELETE FROM experience_log WHERE number = 3", None),
        ("UPDATE experience_keys SET head_number = 9",
         [("the log does not end where it is said to", None)]),
        ("DELETE FROM experience_terms WHERE number = 1",
         [("its words are missing, so it is not found by them", "exp_a")]),
        ("UPDATE experience_blobs SET held_by = 7", None),
        ("UPDATE experience_totals SET items = 9", None),
        ("DELETE FROM experience_blobs", None),
    ],
)  # fmt: skip
async def test_what_was_changed_behind_the_books_back_is_found(
    file_of_three: Path, tmp_path: Path, changed: str, told: list[tuple[str, str | None]] | None
) -> None:
    shutil.copytree(file_of_three, tmp_path / "state")
    async with open_store(tmp_path / "state", durability=Durability.PROCESS) as store:
        await change(store, changed)

        found = await problems(store)

    assert found
    if told is not None:
        assert [problem for problem in found if "counted" not in problem[0]] == told


@pytest.mark.requirement("memory.fsck")
async def test_what_was_changed_in_a_shared_database_is_found(kept: Store) -> None:
    await three(kept)

    await change(kept, "UPDATE experiences SET standing = 'active', summary = 'x'")

    told = {what for what, _ in await problems(kept)}
    assert told == {
        "it is not what was logged",
        "its signature does not hold, so its lane is not proven",
        "it is active, which nobody logged",
    }


@pytest.mark.requirement("memory.corruption")
async def test_a_content_that_was_changed_is_said_to_be_corrupt(
    kept: Store, space: NamespaceId, tmp_path: Path
) -> None:
    await wrote(kept, draft("small", space), draft("big", space, content=BLOB))
    await change(kept, "UPDATE experiences SET content = salt WHERE experience_id = 'exp_small'")
    await change(kept, "UPDATE experience_contents SET content = name::bytea") if (
        kept.is_shared
    ) else damage(tmp_path / "state" / "experiences")

    for attempt in (
        kept.experiences.content(ids("small")[0], tenant=ACME),
        kept.experiences.contents(ids("small"), tenant=ACME, bytes_max=999),
        kept.experiences.content(ids("big")[0], tenant=ACME),
    ):
        with pytest.raises(ExperienceCorruptError, match="restore it from a backup"):
            await attempt
    assert {experience_id for _, experience_id in await problems(kept)} == set(ids("small", "big"))


def damage(folder: Path) -> None:
    """Turn a bit of each file."""
    for path in folder.rglob("exb_*"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


@pytest.mark.requirement("memory.transfer")
async def test_what_is_carried_to_another_store_is_the_same_there(
    kept: Store, space: NamespaceId, tmp_path: Path
) -> None:
    team = await kept.namespaces.make("team/blue", tenant=ACME, now_ms=1)
    await wrote(kept, draft("old", space, content=b"\xff\x00"), draft("big", space, content=BLOB))
    await wrote(kept, draft("new", team.namespace, content=b"made", made_of=("big",)))
    await wrote(kept, draft("fix", space, supersedes="old", valid_from_ms=NOW + 3))
    await kept.experiences.mark(ids("new"), Standing.QUARANTINED, tenant=ACME, **BY)
    lines = [line async for line in kept.upkeep.transfer.lines(ACME)]
    some = [line async for line in kept.upkeep.transfer.lines(ACME, namespaces=(team.namespace,))]

    async with open_store(tmp_path / "other", durability=Durability.PROCESS) as other:
        carry = other.upkeep.transfer
        taken = await carry.take(each(lines), as_it_was, tenant=ACME, now_ms=NOW)
        again = await carry.take(each(lines), as_it_was, tenant=ACME, now_ms=NOW)
        contents = [(await other.experiences.content(one, tenant=ACME)).content
                    for one in ids("old", "big", "new", "fix")]  # fmt: skip
        old, new = await one(other, "old"), await one(other, "new")
        spaces = {one.namespace: one.name for one in await other.namespaces.list(tenant=ACME)}
        found = await problems(other)

    assert (len(lines), len(some)) == (4, 1)
    assert (taken.new, taken.known, taken.refused) == (4, 0, 0)
    assert (again.new, again.known, again.refused) == (0, 4, 0)
    assert contents == [b"\xff\x00", BLOB, b"made", b"what fix is about"]
    assert (old.standing, old.valid_until_ms) == (Standing.SUPERSEDED, NOW + 3)
    assert (new.standing, new.provenance.derived_from) == (Standing.QUARANTINED, ids("big"))
    assert (spaces[old.namespace], spaces[new.namespace]) == ("agent", "team/blue")
    assert old.lane is TrustLane.WEB, "another house has another key"
    assert found == []


async def test_what_a_house_signed_it_knows_again(kept: Store, space: NamespaceId) -> None:
    await wrote(kept, draft("a", space), draft("b", space), draft("c", space))
    lines = [line async for line in kept.upkeep.transfer.lines(ACME)]
    await outlive(kept)
    forged = lines[1].replace(b'"lane":"agent"', b'"lane":"operator"')
    moved = lines[2].replace(b'"owner":"ada"', b'"owner":"bob"')

    taken = await kept.upkeep.transfer.take(
        each([lines[0], forged, moved]), as_it_was, tenant=ACME, now_ms=NOW
    )

    assert taken.new == 3
    agent, web = TrustLane.AGENT, TrustLane.WEB
    assert [(await one(kept, name)).lane for name in "abc"] == [agent, web, web]


@pytest.mark.requirement("memory.erase")
async def test_what_was_erased_or_revoked_does_not_come_back_from_a_file(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("erased", space), draft("revoked", space), draft("old", space))
    lines = [line async for line in kept.upkeep.transfer.lines(ACME)]
    await kept.experiences.erase(ids=ids("erased"), tenant=ACME, **BY)
    await kept.experiences.mark(ids("revoked"), Standing.REVOKED, tenant=ACME, **BY)
    edited = lines[1].replace(b'"summary":"about revoked"', b'"summary":"fine"')

    taken = await kept.upkeep.transfer.take(
        each([*lines, edited]), as_it_was, tenant=ACME, now_ms=NOW
    )

    assert (taken.new, taken.known, taken.refused) == (0, 1, 3)
    assert [fault.why for fault in taken.faults] == [
        "exp_erased was erased here, and does not come back",
        "exp_revoked was revoked here, and does not come back",
        "exp_revoked was revoked here, and does not come back",
    ]
    assert await there(kept) == {"revoked", "old"}


async def outlive(store: Store) -> None:
    """Let everything have its time."""
    await store.retention.purge(before_ms=0, now_ms=NOW, experiences=(KeepRule(before_ms=2**60),))
    assert await there(store) == set()


async def test_an_id_that_is_something_elses_here_is_changed_and_what_is_made_of_it_says_so(
    kept: Store, space: NamespaceId
) -> None:
    elsewhere = await space_of(kept, tenant=GLOBEX)
    await wrote(kept, draft("a", elsewhere, tenant=GLOBEX, content=b"theirs"))
    await wrote(kept, draft("a", space), draft("b", space, made_of=("a",)))
    lines = [line async for line in kept.upkeep.transfer.lines(ACME)]

    taken = await kept.upkeep.transfer.take(each(lines), as_it_was, tenant=GLOBEX, now_ms=NOW)

    assert (taken.new, taken.renamed, taken.refused) == (2, 1, 0)
    (source,) = (await one(kept, "b", tenant=GLOBEX)).provenance.derived_from
    assert source != ids("a")[0]
    read = await kept.experiences.content(ExperienceId(source), tenant=GLOBEX)
    assert read.content == b"what a is about"


@pytest.mark.requirement("memory.bad-input")
async def test_lines_that_are_none_are_told_of_and_the_others_are_taken(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space), draft("b", space))
    lines = [line async for line in kept.upkeep.transfer.lines(ACME)]
    await outlive(kept)
    bad = [
        b"not JSON\n",
        b"\xff\xfe\n",
        b"[" * 100_000,
        b"{}\n",
        lines[0].replace(b'"content":"', b'"content":"*'),
        lines[0].replace(b'"traits":3', b'"traits":"3"'),
        lines[0].replace(b'"traits":3,', b""),
        lines[0].replace(b'"kind":"fact"', b'"kind":"rumour"'),
        lines[0].replace(b"exp_a", b"../etc"),
        b"\n",
    ]

    taken = await kept.upkeep.transfer.take(
        each([*bad, lines[0], lines[1]]), as_it_was, tenant=ACME, now_ms=NOW
    )

    assert (taken.new, taken.refused) == (2, 9)
    assert [fault.line for fault in taken.faults] == list(range(1, 10))
    assert taken.faults[0] == Fault(
        line=1, why="the line is not JSON in UTF-8; lines are made by `flyball memory export`"
    )
    assert "traits is a str" in taken.faults[5].why
    assert "traits is missing" in taken.faults[6].why
    assert await standings(kept, "a", "b") == [Standing.ACTIVE] * 2
    with pytest.raises(ExperienceNotFoundError):
        await one(kept, "c")

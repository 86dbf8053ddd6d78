"""Experiences in a damaged database: every kind is told of, none stops anybody, most is mended."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from governor.experience.kinds import Standing
from governor.experience.search import Filters, Search
from governor.ids import NamespaceId, SessionId
from memory_store.engine import Durability
from memory_store.errors import ExperienceCorruptError
from memory_store.store import DATABASE_NAME, Store, open_store
from tests.memory_store.experiences.makers import (
    ACME,
    BOB,
    BY,
    NOW,
    draft,
    ids,
    one,
    problems,
    space_of,
    wrote,
)

pytestmark = pytest.mark.anyio

BLOB = b"evidence" * 1_000
FOUND_BY = "what it is found by, its words, vector, traits or tokens, is not what was written"
UNREADABLE = "its row cannot be read"
UNINDEXED = "its words are not in the index of words; rebuild that"

# A was corrected by B, C was made of B, and is gone; D was made of A.
STORY = ("a", "b", "c", "d", "big")


async def tell(store: Store) -> None:
    space = await space_of(store)
    await space_of(store, name="other")
    await wrote(store, draft("a", space), draft("b", space, supersedes="a"))
    await wrote(store, draft("c", space, made_of=("b",)), draft("d", space, made_of=("a",)))
    await wrote(store, draft("big", space, content=BLOB), draft("e", space))
    await store.experiences.erase(ids=ids("e"), tenant=ACME, **BY)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the state directory of a store that is damaged in copies."""
    state_dir = tmp_path_factory.mktemp("sound") / "state"

    async def fill() -> None:
        async with open_store(state_dir, durability=Durability.PROCESS) as store:
            await tell(store)

    anyio.run(fill)
    return state_dir


@pytest.fixture
def state_dir(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "state"))


def damage(state_dir: Path, statement: str) -> None:
    with closing(sqlite3.connect(state_dir / DATABASE_NAME)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.executescript(statement)


def put_a_folder_for_a_blob(state_dir: Path) -> None:
    (file,) = (path for path in state_dir.rglob("exb_*") if path.is_file())
    file.unlink()
    file.mkdir()


def update(setting: str, name: str = "c") -> str:
    return f"UPDATE experiences SET {setting} WHERE experience_id = 'exp_{name}'"


@pytest.mark.requirement("memory.fsck-whole")
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (update("summary = X'ff00'"), (UNREADABLE, "exp_c")),
        (update("summary = CAST(X'ff41' AS TEXT)"), (UNREADABLE, "exp_c")),
        (update("actor = CAST(X'c3' AS TEXT)"), (UNREADABLE, "exp_c")),
        (update("tags = '[\"a'"), (UNREADABLE, "exp_c")),
        (update("tags = '[1]'"), (UNREADABLE, "exp_c")),
        (update(f"derived_from = '{'[' * 100_000}'"), (UNREADABLE, "exp_c")),
        (update("kind = 'rumour'"), (UNREADABLE, "exp_c")),
        (update("lane = 'nobody', standing = 'lying'"), (UNREADABLE, "exp_c")),
        (update("learned_at_ms = 'today'"), (UNREADABLE, "exp_c")),
        (update("size_bytes = 'large'"), (UNREADABLE, "exp_c")),
        (update("salt = 'none'"), (UNREADABLE, "exp_c")),
        (update("content = 'text'"), (UNREADABLE, "exp_c")),
        (update("traits = 9999999999999"), (FOUND_BY, "exp_c")),
        (update("tokens = 0"), (FOUND_BY, "exp_c")),
        (update("superseded_from_ms = 5", "a"),
         ("it is said to be superseded from another time on than exp_b is true from", "exp_a")),
        (update("superseded_by = NULL", "a"),
         ("it is superseded, and nothing says by what", "exp_a")),
        (update("superseded_by = 'exp_d'", "a"),
         ("it is said to be superseded by exp_d, which corrects nothing there", "exp_a")),
        (update("superseded_by = 'exp_c'"),
         ("it is active, and said to be superseded by exp_c", "exp_c")),
        (update("superseded_from_ms = 5"),
         ("it says since when it is superseded, and not by what", "exp_c")),
        ("DELETE FROM experience_links WHERE relation = 'derived_from'",
         ("it is not tied to exp_b, which it was made of; rebuild the indexes", "exp_c")),
        ("DELETE FROM experience_links WHERE relation = 'supersedes'",
         ("it is not tied to exp_a, which it corrects; rebuild the indexes", "exp_b")),
        ("INSERT INTO experience_links VALUES (1, 2, 'derived_from')",
         ("it is tied to exp_b, which it was not made of", "exp_a")),
        ("UPDATE experience_terms SET terms = 'evil words' WHERE number = 3", (FOUND_BY, "exp_c")),
        ("UPDATE experience_terms SET terms = X'ff' WHERE number = 3",
         ("its words are missing, so it is not found by them", "exp_c")),
        ("UPDATE experience_terms SET namespace = 'elsewhere' WHERE number = 3",
         ("its words are in another namespace; rebuild the indexes", "exp_c")),
        ("DELETE FROM experience_vectors WHERE number = 3", (FOUND_BY, "exp_c")),
        ("UPDATE experience_vectors SET vector = X'0001' WHERE number = 3", (FOUND_BY, "exp_c")),
        ("INSERT INTO experience_words (experience_words) VALUES ('delete-all')",
         (UNINDEXED, "exp_c")),
        ("UPDATE experience_words_data SET block = X'00'", (UNINDEXED, "exp_c")),
        ("DELETE FROM experience_namespaces", ("its namespace is not there", "exp_c")),
        ("UPDATE experience_blobs SET size_bytes = 1",
         ("its content is said to be of another size", "exp_big")),
        ("UPDATE experience_log SET standing = 'lying' WHERE number = 2",
         ("entry 2 is not what was logged", None)),
        ("UPDATE experience_log SET event = 'dreamt' WHERE number = 2",
         ("entry 2 of the log cannot be read", None)),
        ("UPDATE experience_log SET why = CAST(X'ff' AS TEXT), hash = X'ff' WHERE number = 2",
         ("entry 2 of the log cannot be read", None)),
        ("UPDATE experience_log SET number = 'two' WHERE number = 2",
         ("entry 2 is missing", None)),
        ("UPDATE experience_keys SET secret = 'none'",
         ("the tenant's key, or the end of its log, cannot be read", None)),
        ("UPDATE experience_keys SET head_number = 'none'",
         ("the tenant's key, or the end of its log, cannot be read", None)),
        ("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'experiences'",
         ("numbers of experiences would be given out twice; restore a backup", None)),
        ("UPDATE experiences SET size_bytes = 9223372036854775807",
         ("how much each lane holds cannot be compared: a size is too large to be one", None)),
        ("UPDATE experience_totals SET items = 'many'",
         None),
    ],
)  # fmt: skip
async def test_every_kind_of_damage_is_told_of(
    state_dir: Path, statement: str, told: tuple[str, str | None] | None
) -> None:
    damage(state_dir, statement)

    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        found = await problems(store)

    assert found if told is None else told in found


@pytest.mark.requirement("memory.fsck-whole")
async def test_a_folder_where_a_content_should_be_is_told_of(state_dir: Path) -> None:
    put_a_folder_for_a_blob(state_dir)

    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        assert await problems(store) == [
            ("its content cannot be read from where it is", ids("big")[0])
        ]


@pytest.mark.requirement("memory.fsck-whole")
async def test_nothing_is_told_of_a_store_in_which_much_happened(kept: Store) -> None:
    await tell(kept)
    await kept.experiences.mark(ids("b"), Standing.REVOKED, tenant=ACME, **BY)
    await kept.experiences.erase(ids=ids("a"), only_of=BOB, tenant=ACME, **BY)

    assert await problems(kept) == []


@pytest.mark.requirement("memory.fsck-whole")
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM experience_links",
        "INSERT INTO experience_links VALUES (1, 2, 'derived_from')",
        "UPDATE experience_terms SET namespace = 'elsewhere'",
    ],
)
async def test_what_is_derived_is_made_anew(kept: Store, statement: str) -> None:
    await tell(kept)
    await kept.writer.run(lambda connection: connection.exec_driver_sql(statement).close())
    before = await problems(kept)

    await kept.upkeep.check.mend(ACME)
    await kept.experience_search.rebuild()

    assert before
    assert await problems(kept) == []
    # What withdrawals go along is there again.
    changed = await kept.experiences.erase(ids=ids("b"), tenant=ACME, **BY)
    assert changed.derived == 1


@pytest.mark.requirement("memory.fsck-whole")
async def test_an_emptied_index_of_words_is_told_of_and_filled_again(kept: Store) -> None:
    await tell(kept)
    emptied = (
        "DELETE FROM experience_words"
        if kept.is_shared
        else "INSERT INTO experience_words (experience_words) VALUES ('delete-all')"
    )
    await kept.writer.run(lambda connection: connection.exec_driver_sql(emptied).close())
    before = await problems(kept)

    await kept.experience_search.rebuild()

    assert before == [(UNINDEXED, one) for one in ids(*STORY)]
    assert await problems(kept) == []


@pytest.mark.requirement("memory.damage-apart")
@pytest.mark.parametrize(
    "setting",
    [
        "summary = X'ff'",
        "summary = CAST(X'ff' AS TEXT)",
        "actor = CAST(X'ff' AS TEXT)",
        "tags = '5'",
        "kind = 'x'",
        "learned_at_ms = 'today'",
    ],
)
async def test_a_damaged_experience_is_said_to_be_damaged_and_hides_no_other(
    state_dir: Path, setting: str
) -> None:
    damage(state_dir, update(setting))
    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        book = store.experiences
        space = await space_of(store)
        for read in (book.get(ids("a", "c"), tenant=ACME), book.content(*ids("c"), tenant=ACME)):
            with pytest.raises(ExperienceCorruptError, match="restore it from a backup"):
                await read

        first = await book.page(tenant=ACME, limit=2)
        second = await book.page(tenant=ACME, limit=2, cursor=first.next)
        told = await book.of_session(SessionId("ses_a"), tenant=ACME, namespaces=(space,), most=3)
        near = await book.neighbours(ids("b")[0], tenant=ACME)

        assert [each.experience_id for each in (*first.items, *second.items)] == [
            *ids("big", "d", "b", "a")
        ]
        assert [each.experience_id for each in told] == [*ids("a", "b", "d")]
        assert [each.experience_id for each in near] == [*ids("a")]
        assert (await one(store, "d")).summary == "about d"
        assert await found_in(store, space) == set(ids("b", "d", "big"))


@pytest.mark.requirement("memory.damage-apart")
async def test_traits_that_are_none_hide_no_other_experience(state_dir: Path) -> None:
    damage(state_dir, update("traits = 9999999999999"))
    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        space = await space_of(store)
        assert await found_in(store, space) == set(ids("b", "d", "big"))


async def found_in(store: Store, space: NamespaceId) -> set[str]:
    search = Search(tenant=ACME, namespaces=(space,), text="b d big", now_ms=NOW, filters=Filters())
    found = await store.experience_search.search(search)
    return {hit.experience.experience_id for hit in found.hits}

"""What is held in memory for searches: kept up to date, bounded, made anew."""

import sqlite3
from pathlib import Path

import pytest
from contracts.builders import IN_FILES, TENANT
from sqlalchemy import Connection

from governor.ids import NamespaceId
from memory_store.engine import Durability, driver_of
from memory_store.search import words
from memory_store.search.rows import Place
from memory_store.search.search import FoundBy
from memory_store.store import Store, open_store
from runtime.word_vectors import word_vectors
from tests.memory_store.search.search_makers import asked, indexed, keep, space, summaries

pytestmark = pytest.mark.anyio

WITHDRAWN = {"by": "root", "why": "test", "now_ms": 5}


async def _holders(store: Store, namespace: NamespaceId, term: str) -> list[int]:
    place = Place(tenant=TENANT, namespace=namespace)

    def read(connection: Connection) -> list[int]:
        return words.holders(driver_of(connection), place, term, most=100).tolist()

    return await store.reader.run(read)


async def test_a_namespace_that_outgrows_its_shelf_is_searched_on(
    state_dir: Path, store_url: str | None
) -> None:
    small = FoundBy(vectors=word_vectors(), shelved_max=5)
    opened = open_store(state_dir, url=store_url, durability=Durability.PROCESS, finding=small)
    async with opened as store:
        one = await space(store)
        for number in range(12):
            await keep(store, [indexed(f"zebra number {number}", namespace=one)])

            assert len(await summaries(store, asked("zebra", one, most=50))) == number + 1


@pytest.mark.requirement("memory.search-replicas")
@pytest.mark.slow
async def test_what_one_replica_writes_or_erases_the_other_finds_or_does_not(
    tmp_path: Path, database: str, finding: FoundBy
) -> None:
    def opened(name: str):  # type: ignore[no-untyped-def] # noqa: ANN202 - a context manager
        return open_store(
            tmp_path / name, url=database, durability=Durability.PROCESS, finding=finding
        )

    async with opened("here") as here, opened("there") as there:
        one = await space(here)
        assert await summaries(there, asked("zebra", one)) == []

        (kept,) = await keep(here, [indexed("a zebra crossed", namespace=one)])
        assert await summaries(there, asked("zebra", one)) == ["a zebra crossed"]

        await keep(there, [indexed("a zebra slept", namespace=one)])
        assert len(await summaries(here, asked("zebra", one))) == 2

        await here.experiences.erase(tenant=TENANT, ids=(kept,), **WITHDRAWN)
        assert await summaries(there, asked("zebra", one)) == ["a zebra slept"]


async def test_memory_is_bounded_and_what_gave_way_is_read_anew(
    state_dir: Path, store_url: str | None
) -> None:
    tight = FoundBy(vectors=word_vectors(), held_bytes_max=1)
    opened = open_store(state_dir, url=store_url, durability=Durability.PROCESS, finding=tight)
    async with opened as store:
        spaces = [await space(store, f"n{number}") for number in range(4)]
        for namespace in spaces:
            await keep(store, [indexed("a zebra crossed", namespace=namespace)])

        sizes = []
        for namespace in spaces * 2:
            assert await summaries(store, asked("zebra", namespace)) == ["a zebra crossed"]
            sizes.append(store.experience_search.held_bytes)

    assert max(sizes) == sizes[0], "one namespace at a time"


@pytest.mark.requirement("memory.search-erases")
async def test_an_erased_text_leaves_no_word_in_the_index(store: Store) -> None:
    one = await space(store)
    (kept,) = await keep(store, [indexed("the zebra crossed", namespace=one)])
    assert len(await _holders(store, one, "zebra")) == 1

    await store.experiences.erase(tenant=TENANT, ids=(kept,), **WITHDRAWN)

    assert await _holders(store, one, "zebra") == []


async def test_what_is_derived_is_made_anew_of_what_is_stored(store: Store) -> None:
    one = await space(store)
    await keep(store, [indexed(f"the zebra {number}", namespace=one) for number in range(3)])
    before = await _holders(store, one, "zebra")
    is_server = store.is_shared
    emptying = (
        "TRUNCATE experience_words"
        if is_server
        else "INSERT INTO experience_words (experience_words) VALUES ('delete-all')"
    )
    await store.writer.run(lambda connection: connection.exec_driver_sql(emptying).close())
    assert await _holders(store, one, "zebra") == []

    await store.experience_search.rebuild()

    assert sorted(await _holders(store, one, "zebra")) == sorted(before)
    assert len(await summaries(store, asked("zebra", one))) == 3


@IN_FILES
async def test_no_words_are_indexed_twice_or_beside_their_text(
    store: Store, state_dir: Path
) -> None:
    one = await space(store)
    await keep(store, [indexed("the zebra crossed", namespace=one)])

    with sqlite3.connect(state_dir / "flyball.db") as database:
        kept = database.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE 'experience_words%'"
        )
        tables = {name for (name,) in kept if "after" not in name}
        definition = "CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, experience_words, row)"
        database.execute(definition)
        found = database.execute("SELECT term FROM temp.v ORDER BY term").fetchall()
    database.close()

    # None of them is one of contents: those are in the table of terms.
    assert tables == {f"experience_words{end}" for end in ("", "_config", "_data", "_idx")}
    assert [term for (term,) in found] == [f"{one}:cross", f"{one}:zebra"]

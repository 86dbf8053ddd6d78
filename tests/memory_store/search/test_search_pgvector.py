"""Large namespaces found by an index of pgvector's, on a server that has it."""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import psycopg
import pytest
from contracts.builders import AGENT, TENANT

from governor.experience.kinds import Standing
from governor.ids import ExperienceId, NamespaceId, SessionId, TenantId
from memory_store.audit import Actor
from memory_store.engine import Durability, driver_of
from memory_store.identities import Role
from memory_store.search import nearness
from memory_store.search.held import Held
from memory_store.search.rows import Place
from memory_store.search.search import FoundBy
from memory_store.search.vector_index import VectorIndex
from memory_store.store import Store, migrate_store, open_store
from runtime.word_vectors import word_vectors
from tests.memory_store.search.search_makers import NOW_MS, asked, indexed, keep, space

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

AXES = word_vectors().axes
BY: dict[str, Any] = {"by": "root", "why": "test", "now_ms": NOW_MS}
BY_INDEX = FoundBy(vectors=word_vectors(), shelved_max=0, index=VectorIndex.PGVECTOR)
ANIMALS = ("cat", "dog", "horse", "eagle", "shark", "spider", "frog", "whale", "ant", "crow")
DEEDS = ("slept", "ate", "fled", "sang", "fought", "waited", "drank", "fell", "hid", "swam")


@pytest.fixture
async def store(state_dir: Path, database: str) -> AsyncIterator[Store]:
    opened = open_store(state_dir, url=database, durability=Durability.PROCESS, finding=BY_INDEX)
    async with opened as store:
        root = Actor(name="root")
        await store.tenants.create(TENANT, name="Acme", by=root, now_ms=1)
        await store.principals.create(
            AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=root, now_ms=1
        )
        yield store


async def _many(store: Store, namespace: NamespaceId, **fields: Any) -> list[ExperienceId]:
    """Write a hundred, and return when the index has them all."""
    texts = [f"The {animal} {deed} by the river" for animal in ANIMALS for deed in DEEDS]
    drafts = [indexed(text, namespace=namespace, **fields) for text in texts]
    written = await store.experiences.write(drafts)
    await _filled(store, namespace, fields.get("tenant", TENANT))
    return [one.experience_id for one in written]


async def _filled(store: Store, namespace: NamespaceId, tenant: TenantId = TENANT) -> None:
    """Return when the keeper has filled the index and what is held relies on it."""
    place = Place(tenant=tenant, namespace=namespace)
    search = replace(asked("anything", namespace), tenant=tenant)
    with anyio.fail_after(60):
        while True:
            await store.experience_search.search(search)
            held = store.experience_search._shelves._held[place]
            if held.sketches is None and not await _tail(store, held):
                return


def _stop_filling(store: Store) -> None:
    keeper = store.experience_search._keeper
    assert keeper is not None
    keeper.close()


async def _tail(store: Store, held: Held) -> int:
    last = int(held.columns.numbers[-1])
    return last - (await _upto(store, held.place.namespace) or 0)


async def _upto(store: Store, namespace: NamespaceId) -> int | None:
    return await store.reader.run(
        lambda connection: nearness.upto(driver_of(connection), namespace, axes=AXES)
    )


async def _indexed_rows(store: Store) -> int:
    counting = f"SELECT count(*) FROM experience_nearness_{AXES}"
    return await store.reader.run(
        lambda connection: int(connection.exec_driver_sql(counting).scalar_one())
    )


async def _nearest(store: Store, text: str, *namespaces: NamespaceId, **fields: Any) -> list[str]:
    found = await store.experience_search.nearest(asked(text, *namespaces, **fields))
    return [hit.experience.summary for hit in found.hits]


@pytest.mark.requirement("memory.search-pgvector")
@pytest.mark.parametrize("compared_max", [0, 1_000], ids=["hnsw", "each"])
async def test_the_index_finds_what_a_comparison_of_all_finds(
    store: Store, monkeypatch: pytest.MonkeyPatch, compared_max: int
) -> None:
    monkeypatch.setattr("memory_store.search.candidates.COMPARED_MAX", compared_max)
    one = await space(store)
    await _many(store, one)

    assert store.experience_search.uses_pgvector
    assert await _indexed_rows(store) == 100
    for animal in ANIMALS:
        question = f"What did the {animal} do?"
        texts = [f"The {a} {deed} by the river" for a in ANIMALS for deed in DEEDS]
        vectors = [word_vectors().embed(text) for text in texts]
        cosines = np.array(vectors) @ word_vectors().embed(question)
        best = {texts[at] for at in np.argsort(-cosines)[:10]}
        assert len(best & set(await _nearest(store, question, one))) >= 9


@pytest.mark.requirement("memory.search-pgvector")
async def test_what_was_written_is_found_before_the_index_has_it(store: Store) -> None:
    one = await space(store)
    await _many(store, one)
    _stop_filling(store)

    await keep(store, [indexed("The kitten napped on a rug", namespace=one)])

    assert (await _nearest(store, "cat asleep on the carpet", one))[0] == (
        "The kitten napped on a rug"
    )
    assert await _indexed_rows(store) == 100


@pytest.mark.requirement("memory.search-pgvector")
async def test_what_is_gone_is_gone_from_the_index_or_not_found(store: Store) -> None:
    one = await space(store)
    erased, revoked, aside, *_ = await _many(store, one)
    gone = [f"The cat {deed} by the river" for deed in DEEDS[:3]]
    assert set(gone) <= set(await _nearest(store, "the cat", one, most=50))

    await store.experiences.erase(tenant=TENANT, ids=(erased,), **BY)
    assert await _indexed_rows(store) == 99, "with it, in the same transaction"
    await store.experiences.mark((revoked,), Standing.REVOKED, tenant=TENANT, **BY)
    await store.experiences.mark((aside,), Standing.QUARANTINED, tenant=TENANT, **BY)

    assert not set(gone) & set(await _nearest(store, "the cat", one, most=200))


@pytest.mark.requirement("memory.search-pgvector")
async def test_nothing_of_another_tenant_or_namespace_is_found_by_the_index(store: Store) -> None:
    other = TenantId("other")
    await store.tenants.create(other, name="Other", by=Actor(name="root"), now_ms=1)
    ours, beside = await space(store), await space(store, "two")
    theirs = await space(store, tenant=other)
    await _many(store, theirs, tenant=other)
    await _many(store, beside, actor="beside")
    await keep(store, [indexed("A lamp stood on the table", namespace=ours)])
    await _filled(store, ours)

    assert await _nearest(store, "the cat slept", ours, theirs) == ["A lamp stood on the table"]


async def test_filters_leave_out_all_else_however_little_they_leave(store: Store) -> None:
    one = await space(store)
    await _many(store, one, session=SessionId("busy"))
    rare = indexed("The wolf howled", namespace=one, session=SessionId("rare"), tags=("night",))
    await keep(store, [rare])
    await _filled(store, one)

    assert await _nearest(store, "the cat slept", one, session=SessionId("rare")) == [
        "The wolf howled"
    ]
    assert await _nearest(store, "the cat slept", one, tags=("night",)) == ["The wolf howled"]


async def test_where_few_may_be_seen_the_index_goes_on_until_it_has_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hundred, ten may be seen, and the index is asked for a few at a time."""
    monkeypatch.setattr("memory_store.search.candidates.COMPARED_MAX", 0)
    one = await space(store)
    await _many(store, one)
    await store.experiences.write(
        [indexed(f"The {animal} was counted", namespace=one, actor="counter") for animal in ANIMALS]
    )
    await _filled(store, one)

    found = await _nearest(store, "the cat slept", one, actors=("counter",), most=10)

    assert len(found) == 10
    assert found[0] == "The cat was counted"


async def test_the_index_is_made_anew_of_what_is_stored(store: Store) -> None:
    one = await space(store)
    await _many(store, one)

    await store.experience_search.rebuild()

    assert (await _nearest(store, "the whale sang", one))[0] == "The whale sang by the river"
    await _filled(store, one)
    assert await _indexed_rows(store) == 100


async def test_an_extension_that_is_dropped_costs_nothing_but_its_index(
    store: Store, database: str
) -> None:
    one = await space(store)
    await _many(store, one)

    with psycopg.connect(database, autocommit=True) as connection:
        _stop_filling(store)
        connection.execute("DROP EXTENSION vector CASCADE")

    assert (await _nearest(store, "the whale sang", one))[0] == "The whale sang by the river"


async def test_left_to_choose_sketches_find_what_they_can_hold(
    state_dir: Path, database: str
) -> None:
    chosen = FoundBy(vectors=word_vectors(), shelved_max=0, sketched_max=50)
    opened = open_store(state_dir, url=database, durability=Durability.PROCESS, finding=chosen)
    async with opened as store:
        small, large = await space(store, "small"), await space(store, "large")
        await keep(store, [indexed("The cat slept", namespace=small)])
        await _many(store, large)
        assert await _nearest(store, "a kitten", small) == ["The cat slept"]

        assert await _upto(store, small) is None
        assert await _indexed_rows(store) == 100


async def test_a_migration_brings_the_extension_where_the_role_may(
    database: str, state_dir: Path
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP EXTENSION IF EXISTS vector")
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute("GRANT ALL ON SCHEMA public TO guest")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO guest")
        there = "SELECT count(*) FROM pg_extension WHERE extname = 'vector'"
        try:
            guests = database.replace("postgres:", "guest:", 1)
            assert migrate_store(state_dir, url=guests).pending == ()
            assert connection.execute(there).fetchone() == (0,)

            assert migrate_store(state_dir, url=database).pending == ()
            assert connection.execute(there).fetchone() == (1,)
        finally:
            connection.execute("DROP OWNED BY guest")
            connection.execute("DROP ROLE guest")


def test_sqlite_has_no_index_of_vectors() -> None:
    with sqlite3.connect(":memory:") as driver:
        assert nearness.upto(driver, NamespaceId("one"), axes=AXES) is None
    driver.close()

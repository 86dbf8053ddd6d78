"""The first search of a large namespace, and who need not wait for it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from memory_store.engine import Durability
from memory_store.search import rows
from memory_store.search.search import FoundBy
from memory_store.store import Store, open_store
from runtime.word_vectors import word_vectors
from tests.memory_store.search.search_makers import asked, indexed, keep, space, summaries

pytestmark = pytest.mark.anyio

# Of more than two a first search does not keep others waiting.
LARGE = FoundBy(vectors=word_vectors(), awaited_max=2)
TEXTS = ("The cat slept", "The dog barked", "The invoice was paid", "The moon rose")
SECONDS_MAX = 60


class Gate:
    """Holds up whoever reads a large namespace as a whole."""

    def __init__(self, pages: Any) -> None:
        self._pages = pages
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, *args: Any, **named: Any) -> Iterator[list[rows.Whole]]:
        for page in self._pages(*args, **named):
            if len(page) > 2:
                self.reached.set()
                assert self.open.wait(SECONDS_MAX)
            yield page


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate(rows.pages)
    monkeypatch.setattr(rows, "pages", gate)
    return gate


@pytest.mark.requirement("memory.search-first")
async def test_while_a_large_namespace_is_read_everybody_else_is_answered(
    state_dir: Path, store_url: str | None, gate: Gate
) -> None:
    opened = open_store(state_dir, url=store_url, durability=Durability.PROCESS, finding=LARGE)
    async with opened as store:
        large, small = await space(store, "large"), await space(store, "small")
        await keep(store, [indexed(text, namespace=large) for text in TEXTS])
        await keep(store, [indexed("A kitten slept", namespace=small)])
        first: list[str] = []

        async def search_first() -> None:
            first.extend(await summaries(store, asked("kitten on a rug", large)))

        with anyio.fail_after(SECONDS_MAX):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(search_first)
                try:
                    await anyio.to_thread.run_sync(gate.reached.wait, SECONDS_MAX)
                    await _all_are_answered(store, large, small)
                finally:
                    gate.open.set()

        assert first[0] == "The cat slept", "by its meaning, once it is read"
        assert (await summaries(store, asked("kitten", large)))[0] == "The cat slept"


async def _all_are_answered(store: Store, large: Any, small: Any) -> None:
    # More than may search at a time, so none of them waits for what is read.
    for _ in range(4):
        assert await summaries(store, asked("dogs", large)) == ["The dog barked"]
    assert await summaries(store, asked("kittens", small)) == ["A kitten slept"]
    assert await summaries(store, asked("the cat asleep", small)) == ["A kitten slept"]
    both = await summaries(store, asked("who slept?", small, large))
    assert sorted(both) == ["A kitten slept", "The cat slept"]
    assert await summaries(store, asked("dogs", large, actors=("nobody",))) == []
    (written,) = await keep(store, [indexed("The dog ran", namespace=large)])
    assert "The dog ran" in await summaries(store, asked("dogs", large))
    await store.experiences.erase(tenant="acme", ids=(written,), by="root", why="test", now_ms=9)
    assert "The dog ran" not in await summaries(store, asked("dogs", large))
    near = await store.experience_search.nearest(asked("kitten", small, large))
    assert near.hits[0].experience.summary == "A kitten slept"

"""A store on each real database, and a namespace in it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from governor.ids import NamespaceId
from memory_store.engine import Durability
from memory_store.store import Store, open_store
from tests.memory_store.experiences.makers import space_of


@pytest.fixture
async def kept(begun_state: Path, store_url: str | None) -> AsyncIterator[Store]:
    async with open_store(begun_state, url=store_url, durability=Durability.PROCESS) as store:
        yield store


@pytest.fixture
async def space(kept: Store) -> NamespaceId:
    return await space_of(kept)


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    """Return the loop that tests of properties, which do not wait themselves, call into."""
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="module")
def store(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return a store in files that all examples of a module share."""
    folder = tmp_path_factory.mktemp("store")
    with portal.wrap_async_context_manager(
        open_store(folder, durability=Durability.PROCESS)
    ) as opened:
        yield opened

"""A store on each real database, and a namespace in it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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

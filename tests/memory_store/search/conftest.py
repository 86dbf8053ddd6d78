"""A store that is searched: its namespaces on shelves, or so small a shelf that they are not."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contracts.builders import AGENT, TENANT

from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.search.held import SHELVED_MAX
from memory_store.search.search import FoundBy
from memory_store.store import Store, open_store
from runtime.word_vectors import word_vectors


@pytest.fixture(params=["shelved", "sketched"])
def finding(request: pytest.FixtureRequest) -> FoundBy:
    """Return what is found by: everything in memory, or sketches and the database's words."""
    shelved_max = SHELVED_MAX if request.param == "shelved" else 0
    return FoundBy(vectors=word_vectors(), shelved_max=shelved_max)


@pytest.fixture
async def store(begun_state: Path, store_url: str | None, finding: FoundBy) -> AsyncIterator[Store]:
    """Yield a store with a tenant and an agent."""
    opened = open_store(begun_state, url=store_url, durability=Durability.PROCESS, finding=finding)
    async with opened as store:
        root = Actor(name="root")
        await store.tenants.create(TENANT, name="Acme", by=root, now_ms=1)
        await store.principals.create(
            AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=root, now_ms=1
        )
        yield store

"""A store on each real database, and the tenant and agent that most tests start with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contracts.builders import AGENT, TENANT

from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.identities import Role
from memory_store.store import Store, open_store

ADMIN = Actor(name="root")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def store(begun_state: Path, store_url: str | None) -> AsyncIterator[Store]:
    async with open_store(begun_state, url=store_url, durability=Durability.PROCESS) as opened:
        await opened.tenants.create(TENANT, name="Acme", by=ADMIN, now_ms=1)
        await opened.principals.create(
            AGENT, tenant=TENANT, name="Ada", role=Role.AGENT, by=ADMIN, now_ms=1
        )
        yield opened
